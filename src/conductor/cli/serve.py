"""`conductor-worker serve`: the coordinator in the foreground."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conductor.cli.complaint import Complaint
from conductor.cli.console import say
from conductor.cli.extras import coordinator_class
from conductor.client.configuration.configuration import LOGGER_FORMAT

if TYPE_CHECKING:
    from conductor.coordinator import Coordinator

SECONDS_A_DAY = 86_400.0


def default_database() -> Path:
    """Where the coordinator keeps its state unless told otherwise: the user's state directory."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "conductor-worker" / "coordinator.db"


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    database: Annotated[
        Path | None,
        typer.Option(
            help="The SQLite file, made if it is not there. (default: coordinator.db in the user's state directory)",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Forget finished workflows after this many days.", show_default=False)
    ] = None,
    keep_count: Annotated[
        int | None, typer.Option(min=0, help="Keep at most this many finished workflows.", show_default=False)
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen beyond this machine although nobody has to authenticate.")
    ] = False,
) -> int:
    """Run the coordinator until SIGTERM or Ctrl-C.

    CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET turn authentication on. Without them it listens on this machine only.
    """
    logging.basicConfig(format=LOGGER_FORMAT, level=logging.WARNING)
    path = _prepared(default_database()) if database is None else database
    key, secret = _key_pair()
    try:
        coordinator = coordinator_class()(
            path,
            host=host,
            port=port,
            allow_remote=allow_remote,
            auth_key=key,
            auth_secret=secret,
            keep_finished_s=None if keep_days is None else keep_days * SECONDS_A_DAY,
            keep_finished_count=keep_count,
        )
    except ValueError as error:
        hint = "on the command line: CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or --allow-remote"
        raise Complaint(f"{error} ({hint})") from None
    _serve(coordinator, "with authentication" if key else "without authentication")
    return 0


def _serve(coordinator: Coordinator, authentication: str) -> None:
    from conductor.coordinator.store import StoreRefused

    def ready() -> None:
        say(f"Coordinator at {coordinator.url} {authentication}, database {coordinator.database}. Ctrl-C ends it.")

    try:
        coordinator.serve(ready)
    except (OSError, StoreRefused) as error:
        raise Complaint(error.strerror if isinstance(error, OSError) and error.strerror else error) from None


def _key_pair() -> tuple[str | None, str | None]:
    key, secret = os.environ.get("CONDUCTOR_AUTH_KEY"), os.environ.get("CONDUCTOR_AUTH_SECRET")
    if bool(key) != bool(secret):
        missing = "CONDUCTOR_AUTH_SECRET" if key else "CONDUCTOR_AUTH_KEY"
        raise Complaint(f"{missing} is not set, but the other half of the key pair is; set both or none")
    return key or None, secret or None


def _prepared(path: Path) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Complaint(f"cannot make {path.parent}: {error.strerror}; name a file with --database") from None
    return path
