"""`conductor-worker backup`: copy the database of a running coordinator, once or at an interval."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from conductor.cli.console import print_line, silence_logger
from conductor.cli.serve import default_database
from conductor.cli.server_kind import describe_error, open_client
from conductor.cli.support import Url, UserError, examples, import_coordinator, make_configuration
from conductor.cli.times import format_time, now_ms, parse_duration
from conductor.client.http.errors import ConductorError, TransportError
from conductor.common.machine import is_loopback
from conductor.common.signals import handle_signals

#: The number of copies that `--every` keeps by default.
DEFAULT_KEEP = 24
#: The longest wait for a coordinator to report its database file.
SERVER_WITHIN_S = 3.0


@examples(
    "backup copy.db --database coordinator.db",
    "backup /var/backups/conductor/coordinator.db --database /var/lib/conductor/coordinator.db --keep 7",
    "backup --every 1h --keep 24 --to /var/backups/conductor --database /var/lib/conductor/coordinator.db",
)
def backup(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write the copy to.", show_default=False)
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(help="SQLite file to copy. (default: the file of the running coordinator)", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Keep N copies: FILE is the latest, FILE.1 the one before it, and so on. (default with --every: 24)",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for the copies, in place of FILE, created if missing.", show_default=False
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Copy now, and again at this interval (30s, 15m, 1h) until Ctrl-C.", show_default=False
        ),
    ] = None,
    url: Url = None,
) -> int:
    """Copy the database of a running or stopped coordinator.

    Without --database, the command copies the file of the coordinator at --url. If no server answers there, it copies
    the default file. The copy is verified before it replaces an older one. The exit status is 2 if the database is
    damaged. With --every, the command prints a failed copy and tries again after the interval. The exit status is then
    1 if the last copy failed.
    """
    import_coordinator()  # raises UserError if an extra is missing
    from conductor.coordinator.store.database_file import StoreRefused
    from conductor.coordinator.store.online_backup import back_up

    source = database or _find_served_database(url) or default_database()
    target = _choose_target(file, to, source)
    interval_s = None if every is None else parse_duration(every, "--every")
    kept = DEFAULT_KEEP if keep is None and interval_s is not None and not force else keep

    def copy() -> None:
        try:
            size = back_up(source, target, replace=force, keep=kept)
        except StoreRefused as error:
            raise UserError(error) from None
        print_line(f"Copied {source} to {target.absolute()}: {size} bytes, verified. Serve it with --database.")

    if interval_s is None:
        copy()
        return 0
    return _repeat(copy, interval_s)


def _choose_target(file: Path | None, to: Path | None, source: Path) -> Path:
    if (file is None) == (to is None):
        raise UserError("name either a FILE for the copy, or a directory with --to")
    if to is None:
        assert file is not None  # noqa: S101 (checked above)
        return file
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {to}: {error.strerror}; choose another directory with --to") from None
    return to / source.name


def _repeat(copy: Callable[[], None], interval_s: float) -> int:
    """Copy every `interval_s` seconds until SIGTERM or Ctrl-C. Return the exit status: 1 if the last copy failed."""
    stop, status = threading.Event(), 0
    with handle_signals(lambda _: stop.set(), signal.SIGTERM, signal.SIGINT):
        while not stop.is_set():
            began = time.monotonic()
            try:
                copy()
                status = 0
            except UserError as error:
                typer.echo(f"{format_time(now_ms())}: {error}", err=True)
                status = 1
            stop.wait(max(0.0, began + interval_s - time.monotonic()))
    return status


def _find_served_database(url: str | None) -> Path | None:
    """Return the file of the coordinator at `url`; None if no server answers.

    Raises:
        UserError: A server answers, but its file is not on this machine or is not known.
    """
    configuration = make_configuration(url)

    async def ask() -> dict[str, Any]:
        async with asyncio.timeout(SERVER_WITHIN_S), open_client(configuration) as api:
            return await api.call_for(dict[str, Any], "GET", "/view/server")

    instead = "name the file to copy with --database"
    try:
        with silence_logger("conductor.client.http.access_token"):
            database = str(asyncio.run(ask()).get("database") or "")
    except TransportError:
        return None
    except TimeoutError:
        raise UserError(
            f"{configuration.shown_host} has not answered within {SERVER_WITHIN_S:g} s; {instead}"
        ) from None
    except ConductorError as error:
        raise UserError(
            f"{configuration.shown_host} does not report the file of its database: {describe_error(error)}; {instead}"
        ) from None
    if not is_loopback(urlsplit(configuration.host).hostname or "") or not Path(database).is_file():
        where = f"{configuration.shown_host} serves {database or 'an unknown file'}"
        raise UserError(f"{where}, which is not on this machine; run the command there, or {instead}")
    return Path(database)
