"""`conductor-worker secret`: values that definitions may use without showing them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from conductor.cli.console import print_json, print_line
from conductor.cli.support import AsJson, Url, UserError, add_command, call_server, examples, make_group
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.secret_client import AsyncSecretClient
from conductor.common.text import escape

secret = make_group(
    "secret",
    "Manage secrets, which definitions use as ${workflow.secrets.NAME}.",
    {"Look": ("list",), "Change": ("set", "delete")},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret.", show_default=False)]


@examples("secret list", "secret list --json")
def list_(url: Url = None, as_json: AsJson = False) -> None:
    """List the names of the secrets. The values of secrets cannot be read."""
    names = sorted(call_server(url, lambda api: AsyncSecretClient(api).list_all_secret_names()))
    if as_json:
        print_json(names)
        return
    for name in names:
        print_line(escape(name))
    if not names:
        print_line("There are no secrets.")


@examples(
    "secret set BANK_KEY",
    "secret set BANK_KEY --file bank.key",
    "secret set BANK_KEY < bank-key.txt",
)
def set_(
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Read the value from this file.", show_default=False),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Set a secret. The value is read from a prompt, a pipe or a file.

    A value on the command line would be visible to other users of the machine. A line
    feed at the end of the value is removed.
    """
    value = _read_value(name, file)
    call_server(url, lambda api: AsyncSecretClient(api).put_secret(name, value))
    _print_result(name, "set", as_json=as_json)


def _read_value(name: str, file: Path | None) -> str:
    if file is not None:
        try:
            value = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"--file: {file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    elif sys.stdin.isatty():
        value = str(typer.prompt(f"Value of {name}", hide_input=True, err=True))
    else:
        value = sys.stdin.read()
    value = value.removesuffix("\n")
    if not value:
        raise UserError(f"the value of {name} is empty; `conductor-worker secret delete {name}` deletes a secret")
    return value


@examples("secret delete BANK_KEY")
def delete(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Delete a secret."""

    async def remove(api: AsyncApiClient) -> None:
        secrets = AsyncSecretClient(api)
        if not await secrets.secret_exists(name):
            raise UserError(f"there is no secret {name!r}")
        await secrets.delete_secret(name)

    call_server(url, remove)
    _print_result(name, "deleted", as_json=as_json)


def _print_result(name: str, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "done": done})
    else:
        print_line(escape(f"{name}: {done}"))


for command in (list_, set_, delete):
    add_command(secret, command)
