"""`conductor-worker key`: keys for the API, on a running coordinator or in the file of a stopped one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from conductor.cli.console import print_json, print_line, print_table
from conductor.cli.support import (
    AsJson,
    Url,
    UserError,
    add_command,
    call_server,
    examples,
    import_coordinator,
    suggest,
    to_one_line,
)
from conductor.cli.times import format_time, parse_duration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.protocol.json_types import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.coordinator.keys.key_store import Keys
    from conductor.coordinator.store.transaction import Tx

T = TypeVar("T")

key = typer.Typer(
    name="key",
    help="Manage keys for the API of a coordinator, and their roles.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.", show_default=False)]
Database = Annotated[
    Path | None,
    typer.Option(help="SQLite file of a stopped coordinator, to manage its keys without a server.", show_default=False),
]
ROLE_NAMES = ("viewer", "worker", "starter", "operator", "admin", "metrics")
ROLES = f"{', '.join(ROLE_NAMES[:-1])} or {ROLE_NAMES[-1]}"


@examples(
    "key create ada --role admin --database coordinator.db",
    "key create charger --role worker --task-type charge --task-type refund",
    "key create prometheus --role metrics",
)
def create(
    name: Name,
    role: Annotated[
        list[str],
        typer.Option("--role", metavar="ROLE", help=f"{ROLES}. Can be given several times.", show_default=False),
    ],
    task_type: Annotated[
        list[str] | None,
        typer.Option(
            "--task-type",
            metavar="TYPE",
            help="Task type that a worker key may poll and report. Can be given several times. (default: all)",
            show_default=False,
        ),
    ] = None,
    database: Database = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print its secret, which is shown only once.

    The first key must have role admin. From then on, every request needs a key.
    With --database, the command writes to the file of a stopped coordinator, for
    example to create the first key before the coordinator is reachable.
    """
    for one in role:
        if one not in ROLE_NAMES:
            raise UserError(f"there is no role {one!r}{suggest(one, ROLE_NAMES)}")
    body: JsonObject = {"name": name, "roles": role, **({"taskTypes": task_type} if task_type else {})}
    if database is None:
        created = _call(url, "POST", "/keys", body)
    else:
        created = _change_file(database, lambda keys, tx: keys.create(tx, _read_request(body)))
    _print_secret(created, as_json=as_json)


@examples("key list", "key list --json")
def list_(database: Database = None, url: Url = None, as_json: AsJson = False) -> None:
    """List the keys with their roles and the age of their secrets."""
    found = _call(url, "GET", "/keys") if database is None else _change_file(database, lambda keys, _: keys.list_wire())
    if as_json:
        print_json(found)
        return
    if not found:
        print_line("There are no keys, so requests need none.")
        return
    rows = [
        (
            to_one_line(one["name"]),
            ", ".join(one["roles"]),
            to_one_line(", ".join(one.get("taskTypes") or []) or "all" if "worker" in one["roles"] else ""),
            "CONDUCTOR_AUTH_KEY" if one.get("isConfigured") else format_time(one.get("createdTime")),
            "; ".join(map(_describe_secret, one["secrets"])),
        )
        for one in found
    ]
    print_table(("NAME", "ROLES", "TASK TYPES", "CREATED", "SECRETS"), rows)


def _describe_secret(secret: JsonObject) -> str:
    facts = []
    for label, field in (("created", "createdTime"), ("last used", "lastUsedTime"), ("ends", "expiresTime")):
        if secret.get(field):
            facts.append(f"{label} {format_time(secret[field])}")
    return ", ".join(facts)


@examples("key rotate charger", "key rotate charger --overlap 7d", "key rotate charger --overlap 0s")
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret stays valid: 90s, 30m, 12h or 7d.")
    ] = "1d",
    database: Database = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add a second secret to a key and print it. The old secret stays valid until the overlap ends."""
    overlap_s = 0 if overlap.strip() in ("0", "0s") else int(parse_duration(overlap, "--overlap"))
    if database is None:
        created = _call(url, "POST", f"/keys/{quote_segment(name)}/rotate", {"overlapSeconds": overlap_s})
    else:
        created = _change_file(database, lambda keys, tx: keys.rotate(tx, name, overlap_s))
    _print_secret(created, as_json=as_json)


@examples("key revoke charger")
def revoke(name: Name, database: Database = None, url: Url = None, as_json: AsJson = False) -> None:
    """Revoke a key. The tokens, waiting polls and streams of the key end at once."""
    if database is None:
        _call(url, "DELETE", f"/keys/{quote_segment(name)}")
    else:
        _change_file(database, lambda keys, tx: keys.revoke(tx, name, is_offline=True))
    if as_json:
        print_json({"name": name, "revoked": True})
    else:
        print_line(to_one_line(f"{name}: revoked"))


def _print_secret(created: JsonObject, *, as_json: bool) -> None:
    if as_json:
        print_json(created)
        return
    print_line(to_one_line(f"{created['name']}: {', '.join(created['roles'])}. The secret is not shown again:"))
    if "token" in created:
        print_line(f"  Authorization: Bearer {created['token']}")
    else:
        print_line(f"  CONDUCTOR_AUTH_KEY={created['name']}")
        print_line(f"  CONDUCTOR_AUTH_SECRET={created['secret']}")


def _call(url: str | None, method: str, path: str, body: JsonObject | None = None) -> Any:
    async def call(api: AsyncApiClient) -> Any:
        response = await api.call(method, path, body=None if body is None else json.dumps(body).encode())
        if response.status >= 400:
            raise api.error(response, f"{method} {path}")
        return json.loads(response.body) if response.body else None

    return call_server(url, call)


def _read_request(body: JsonObject) -> Any:
    import msgspec

    from conductor.coordinator.keys.key_store import KeyRequest

    try:
        return msgspec.convert(body, KeyRequest)
    except msgspec.ValidationError as error:
        raise UserError(f"{error}; a role is {ROLES}") from None


def _change_file(database: Path, change: Callable[[Keys, Tx], T]) -> Any:
    """Run a change on the file of a stopped coordinator. Return its result as JSON."""
    import_coordinator()  # raises UserError if an extra is missing
    import msgspec

    from conductor.common.clock import SYSTEM_CLOCK
    from conductor.coordinator.keys.key_store import Keys
    from conductor.coordinator.request_errors import ApiError
    from conductor.coordinator.store.writer import Store, StoreError

    try:
        store = Store(database)
    except StoreError as error:
        hint = "; leave out --database to use the running coordinator" if "in use" in str(error) else ""
        raise UserError(f"{error}{hint}") from None
    try:
        keys = Keys(store.salt, SYSTEM_CLOCK)
        store.call(keys.load)
        return msgspec.to_builtins(store.call(lambda tx: change(keys, tx)))
    except (ApiError, StoreError) as error:
        raise UserError(error) from None
    finally:
        store.close()


for _command in (create, list_, rotate, revoke):
    add_command(key, _command)
