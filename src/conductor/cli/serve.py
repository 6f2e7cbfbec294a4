"""`conductor-worker serve`: the coordinator in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conductor.cli.console import print_line
from conductor.cli.support import LogFormat, LogLevel, UserError, import_coordinator, make_configuration
from conductor.common.machine import freeze_loaded_objects, state_directory
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.coordinator import Coordinator

SECONDS_A_DAY = 86_400.0
#: The longest that the thread which writes keeps the one that answers from running. With Python's 5 ms, an answer that
#: is ready waits for the next large group of reports, and the worker whose poll it answers stands idle meanwhile.
SWITCH_S = 0.000_3


def default_database() -> Path:
    """Where the coordinator keeps its state unless told otherwise: the user's state directory."""
    return state_directory() / "coordinator.db"


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
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name that requests may call this coordinator by, beside those of loopback and --host; * is any. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None,
    http_task_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host that HTTP tasks may call: a name, *.name, an address or a network, with :port if only that is "
            "meant. With one, no other is called. Can be given several times. (default: all but link-local addresses "
            "and those of cloud metadata)",
            show_default=False,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A web page's origin, such as https://shop.example, that may change something. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> int:
    """Run the coordinator until SIGTERM or Ctrl-C.

    CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET turn authentication on. Without them it listens on this machine only.
    CONDUCTOR_ALLOWED_HOSTS, CONDUCTOR_ALLOWED_ORIGINS and CONDUCTOR_HTTP_TASK_HOSTS, separated by commas, add to
    --allow-host, --allow-origin and --http-task-host. At WARNING, which is the default, each workflow that fails has a
    line; at INFO also what ends otherwise; at DEBUG every request.
    """
    _set_up_logging(log_level, log_format)
    path = _prepared(default_database()) if database is None else database
    key, secret = key_pair()
    try:
        coordinator = import_coordinator()(
            path,
            host=host,
            port=port,
            allow_remote=allow_remote,
            allowed_hosts=[*(allow_host or ()), *_listed("CONDUCTOR_ALLOWED_HOSTS")],
            allowed_origins=[*(allow_origin or ()), *_listed("CONDUCTOR_ALLOWED_ORIGINS")],
            http_task_hosts=[*(http_task_host or ()), *_listed("CONDUCTOR_HTTP_TASK_HOSTS")],
            auth_key=key,
            auth_secret=secret,
            keep_finished_s=None if keep_days is None else keep_days * SECONDS_A_DAY,
            keep_finished_count=keep_count,
        )
    except ValueError as error:
        remote = "allow_remote" in str(error)
        hint = " (on the command line: CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or --allow-remote)"
        raise UserError(f"{error}{hint if remote else ''}") from None
    _serve(coordinator, "with authentication" if key else "without authentication")
    tracing.flush()
    return 0


def _set_up_logging(level: str | None, log_format: str | None) -> None:
    asked = level or os.environ.get("CONDUCTOR_LOG_LEVEL")
    configuration = make_configuration(None, log_level=asked or "WARNING", log_format=log_format)
    configuration.apply_logging_config()
    tracing.set_up(configuration.tracing)


def _serve(coordinator: Coordinator, authentication: str) -> None:
    from conductor.coordinator.store.writer import StoreRefused

    def ready() -> None:
        print_line(
            f"Coordinator at {coordinator.url} {authentication}, database {coordinator.database}. Ctrl-C ends it."
        )

    freeze_loaded_objects()
    sys.setswitchinterval(SWITCH_S)
    try:
        coordinator.serve(ready)
    except (OSError, StoreRefused) as error:
        raise UserError(error.strerror if isinstance(error, OSError) and error.strerror else error) from None


def _listed(variable: str) -> list[str]:
    return [entry.strip() for entry in os.environ.get(variable, "").split(",") if entry.strip()]


def key_pair() -> tuple[str | None, str | None]:
    """The key and the secret that the environment asks for; both or none."""
    key, secret = os.environ.get("CONDUCTOR_AUTH_KEY"), os.environ.get("CONDUCTOR_AUTH_SECRET")
    if bool(key) != bool(secret):
        missing = "CONDUCTOR_AUTH_SECRET" if key else "CONDUCTOR_AUTH_KEY"
        raise UserError(f"{missing} is not set, but the other half of the key pair is; set both or none")
    return key or None, secret or None


def _prepared(path: Path) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {path.parent}: {error.strerror}; name a file with --database") from None
    return path
