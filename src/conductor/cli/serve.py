"""`conductor-worker serve`: run the coordinator in the foreground."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conductor.cli.console import print_line
from conductor.cli.support import LogFormat, LogLevel, UserError, import_coordinator, make_configuration, web_ui_address
from conductor.common.machine import freeze_loaded_objects, notify_systemd, raise_file_limit, state_directory
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.coordinator import Coordinator

SECONDS_A_DAY = 86_400.0
#: Interval at which Python switches threads. With Python's default of 5 ms, the event loop could not send finished
#: answers before the writer thread has processed a whole group of reports. Workers would be idle until then.
SWITCH_S = 0.000_3


def default_database() -> Path:
    """Return the default database file, in the user's state directory."""
    return state_directory() / "coordinator.db"


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 8080,
    database: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file, created if missing. (default: coordinator.db in the user's state directory)",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Remove finished workflows after this many days.", show_default=False)
    ] = None,
    keep_count: Annotated[
        int | None, typer.Option(min=0, help="Keep at most this many finished workflows.", show_default=False)
    ] = None,
    keep_audit_days: Annotated[
        float, typer.Option(min=0, help="Remove entries of the audit trail after this many days.")
    ] = 90,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen on other interfaces without authentication.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Additional host name that requests may use, besides loopback names and --host; * allows any. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None,
    http_task_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Host that HTTP tasks may call: a name, *.name, an address or a network, with an optional :port. "
            "HTTP tasks then call no other host. Can be given several times. (default: all except link-local addresses "
            "and cloud metadata services)",
            show_default=False,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin, for example https://shop.example, whose web pages may send requests that change something. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PEM file with the certificate of the coordinator, which then speaks HTTPS "
            "(CONDUCTOR_SERVER_TLS_CERT_FILE).",
            show_default=False,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PEM file with the private key of --tls-cert (CONDUCTOR_SERVER_TLS_KEY_FILE).",
            show_default=False,
        ),
    ] = None,
    replicate: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Copy every change with Litestream, which must be installed: to a directory, or to a URL of S3 "
            "(s3://bucket/path), gs, abs, oss, sftp, nats or webdav (CONDUCTOR_REPLICATE).",
            show_default=False,
        ),
    ] = None,
    replicate_interval: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            metavar="SECONDS",
            help="Interval between two copies of the changes, in seconds. "
            "(default: 0.25 for a directory, 1 for other storage)",
            show_default=False,
        ),
    ] = None,
    disk_reserve: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="MB",
            help="Reject starts of workflows while the disk has less free space than this many MB; reports are still "
            "accepted. "
            "(default: 2 % of the disk, at most 256)",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> int:
    """Run the coordinator until SIGTERM or Ctrl-C.

    CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET turn authentication on. Without them
    the coordinator listens only on this machine.
    CONDUCTOR_ALLOWED_HOSTS, CONDUCTOR_ALLOWED_ORIGINS and CONDUCTOR_HTTP_TASK_HOSTS
    add values, separated by commas, to
    --allow-host, --allow-origin and --http-task-host.
    CONDUCTOR_REPLICATE hides the password of a replica's URL from `ps`, which --replicate
    cannot.
    The log level WARNING, the default, logs each failed workflow. INFO logs each
    workflow that ends, and DEBUG each request.
    """
    _set_up_logging(log_level, log_format)
    path = _make_directory(default_database()) if database is None else database
    key, secret = key_pair()
    try:
        coordinator = import_coordinator()(
            path,
            host=host,
            port=port,
            allow_remote=allow_remote,
            allowed_hosts=[*(allow_host or ()), *_split_variable("CONDUCTOR_ALLOWED_HOSTS")],
            allowed_origins=[*(allow_origin or ()), *_split_variable("CONDUCTOR_ALLOWED_ORIGINS")],
            http_task_hosts=[*(http_task_host or ()), *_split_variable("CONDUCTOR_HTTP_TASK_HOSTS")],
            auth_key=key,
            auth_secret=secret,
            tls_cert=tls_cert or os.environ.get("CONDUCTOR_SERVER_TLS_CERT_FILE") or None,
            tls_key=tls_key or os.environ.get("CONDUCTOR_SERVER_TLS_KEY_FILE") or None,
            keep_finished_s=None if keep_days is None else keep_days * SECONDS_A_DAY,
            keep_finished_count=keep_count,
            keep_audit_s=keep_audit_days * SECONDS_A_DAY,
            replicate=os.environ.get("CONDUCTOR_REPLICATE") or None if replicate is None else replicate,
            replicate_interval_s=replicate_interval,
            disk_reserve_bytes=None if disk_reserve is None else disk_reserve << 20,
        )
    except ValueError as error:
        hint = ""
        if "allow_remote" in str(error):
            hint = " (on the command line: CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or --allow-remote)"
        elif "tls_cert" in str(error):
            hint = " (on the command line: --tls-cert and --tls-key)"
        raise UserError(f"{error}{hint}") from None
    if replicate:
        warn_of_visible_password(replicate)
    _serve(coordinator)
    tracing.flush()
    return 0


def warn_of_visible_password(replica: str) -> None:
    """Warn if a valid URL of a replica, given on the command line, contains a password."""
    from conductor.coordinator.replication.replica_url import ReplicaUrl

    if ReplicaUrl.parse(replica).secrets:
        typer.echo(
            "warning: `ps` shows the password of the URL to other users; set CONDUCTOR_REPLICATE instead", err=True
        )


def _set_up_logging(level: str | None, log_format: str | None) -> None:
    wanted = level or os.environ.get("CONDUCTOR_LOG_LEVEL")
    configuration = make_configuration(None, log_level=wanted or "WARNING", log_format=log_format)
    configuration.apply_logging_config()
    tracing.set_up(configuration.tracing)


def _serve(coordinator: Coordinator) -> None:
    from conductor.coordinator.store.writer import StoreRefused

    def ready() -> None:
        notify_systemd("READY=1")
        core = coordinator.core
        has_keys = core is not None and core.keys.are_required
        print_line(
            f"Coordinator at {coordinator.url} {'with' if has_keys else 'without'} authentication, "
            f"database {coordinator.database}. Press Ctrl-C to stop."
        )
        print_line(f"Web UI: {web_ui_address(coordinator.url)}")
        if core is not None and core.replica_url is not None:
            print_line(f"Replica: {core.replica_url}")

    freeze_loaded_objects()
    raise_file_limit()
    sys.setswitchinterval(SWITCH_S)
    try:
        coordinator.serve(ready)
        notify_systemd("STOPPING=1")
    except OSError as error:
        hint = " (--port chooses another port)" if error.errno == errno.EADDRINUSE else ""
        raise UserError(f"{error.strerror or error}{hint}") from None
    except StoreRefused as error:
        raise UserError(error) from None


def _split_variable(variable: str) -> list[str]:
    return [entry.strip() for entry in os.environ.get(variable, "").split(",") if entry.strip()]


def key_pair() -> tuple[str | None, str | None]:
    """Return the key and the secret of the environment; raise UserError if only one is set."""
    key, secret = os.environ.get("CONDUCTOR_AUTH_KEY"), os.environ.get("CONDUCTOR_AUTH_SECRET")
    if bool(key) != bool(secret):
        missing = "CONDUCTOR_AUTH_SECRET" if key else "CONDUCTOR_AUTH_KEY"
        raise UserError(f"{missing} is not set, but the other half of the key pair is; set both or neither")
    return key or None, secret or None


def _make_directory(path: Path) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {path.parent}: {error.strerror}; use another file with --database") from None
    return path
