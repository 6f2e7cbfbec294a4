"""`conductor-worker run`: run the decorated workers of modules."""

from __future__ import annotations

import asyncio as aio
import logging
import os
import signal
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from conductor.cli.console import print_line, silence_logger
from conductor.cli.discovery import Modules, Traceback, find_workers
from conductor.cli.server_kind import describe_error, identify_server, is_unknown_route
from conductor.cli.support import (
    START_A_SERVER,
    LogFormat,
    LogLevel,
    Url,
    UserError,
    make_configuration,
    make_metrics_settings,
    web_ui_address,
)
from conductor.cli.worker_options import set_worker_variables, with_worker_options
from conductor.cli.worker_readiness import announce_when_ready
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.configuration.settings.metrics_settings import MetricsPortError, MetricsSettings
from conductor.client.http.async_rest import ConductorError
from conductor.client.http.errors import TransportError
from conductor.client.worker.dependencies import DependencyError
from conductor.client.worker.resources import StartError
from conductor.client.worker.worker import Worker, get_code_options
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.common.machine import run_event_loop
from conductor.common.signals import defer_signal, handle_stop_signals
from conductor.telemetry import tracing

logger = logging.getLogger(__name__)

#: The command waits this long for the server before it prints its first line. The workers keep trying afterwards.
SERVER_WITHIN_S = 5.0


@with_worker_options
def run(
    modules: Modules,
    url: Url = None,
    asyncio: Annotated[
        bool, typer.Option("--asyncio", help="Run all workers in this process instead of one process each.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve /metrics, /health and /ready on this port.", show_default=False),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            help="Address of the metrics port. The port serves task types, counts, times and errors without a "
            "password. Use 127.0.0.1 to serve only this machine."
        ),
    ] = "0.0.0.0",  # noqa: S104
    metrics_optional: Annotated[
        bool, typer.Option("--metrics-optional", help="Continue without metrics if the port is not available.")
    ] = False,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    show_traceback: Traceback = False,
    **options: Any,
) -> int:
    """Run the decorated workers of modules or packages.

    With --log-level INFO, the log also has the options of each worker.
    After SIGTERM or Ctrl-C, the command finishes the running tasks. A second signal stops it immediately.
    """
    set_worker_variables(options)
    configuration = make_configuration(url, log_level=log_level, log_format=log_format)
    if not log_level:
        leave_out_start_lines(configuration)
        configuration.logs_failed_polls = configuration.logs_worker_options
    metrics = (
        None if metrics_port is None else make_metrics_settings(metrics_host, metrics_port, optional=metrics_optional)
    )
    workers = find_workers(modules, show_traceback=show_traceback)
    configuration.apply_logging_config()
    if asyncio:
        tracing.set_up(configuration.tracing)
    server, hint = _server(url)
    print_line(f"Server {configuration.shown_host}: {server}. Starting {_list_workers(workers)}")
    if hint:
        print_line(hint)
    # Ctrl-C acts as SIGTERM, which the handlers process. Workers take tasks before their handler waits for signals, so
    # a SIGTERM in between is deferred instead of killing the process with running tasks.
    with (
        defer_signal(signal.SIGTERM),
        handle_stop_signals(lambda _again: signal.raise_signal(signal.SIGTERM), signals=(signal.SIGINT,)),
    ):
        try:
            (_run_together if asyncio else _run_processes)(workers, configuration, metrics)
        except (ConfigurationError, DependencyError, MetricsPortError, StartError) as error:
            raise UserError(error) from None
    tracing.flush()
    return 0


def leave_out_start_lines(configuration: Configuration) -> None:
    """Leave the start lines of each worker out of the log, unless the user has chosen a log level."""
    if not os.environ.get("CONDUCTOR_LOG_LEVEL"):
        configuration.logs_worker_options = False


def _server(url: str | None) -> tuple[str, str | None]:
    """Return a description of the server, and a hint about it; None without a hint.

    The Configuration is a separate one, because the workers' Configuration belongs to another event loop.
    """

    async def ask() -> tuple[str, str | None]:
        async with aio.timeout(SERVER_WITHIN_S):
            configuration = make_configuration(url)
            server = await identify_server(configuration)
            web_ui = f"Web UI: {web_ui_address(configuration.shown_host)}  `conductor-worker doctor` finds problems."
            return str(server), web_ui if server.is_coordinator else None

    try:
        with silence_logger("conductor.client.http.access_token"):
            return run_event_loop(ask())
    except ConductorError as error:
        hint = f"{START_A_SERVER}." if isinstance(error, TransportError) else None
        if is_unknown_route(error):
            hint = "Check the path of the URL, which is /api on most servers."
        return f"cannot be used yet ({describe_error(error)}); the workers keep trying", hint
    except TimeoutError:
        return f"has not answered within {SERVER_WITHIN_S:.0f} s; the workers keep trying", f"{START_A_SERVER}."


def _list_workers(workers: Iterable[Worker]) -> str:
    names = [worker.get_task_definition_name() for worker in workers]
    return f"{len(names)} worker{'s' if len(names) > 1 else ''}: {', '.join(names)}"


def polled_task_types(workers: Iterable[Worker]) -> set[str]:
    """Return the task types that the workers poll: all except those of paused workers."""
    pairs = [(worker.get_task_definition_name(), get_code_options(worker)) for worker in workers]
    return {name for name, options in pairs if not resolve_worker_config(name, options).paused}


def _say_ready() -> None:
    print_line("Ready: every worker has polled. Ctrl-C finishes the running tasks; a second one stops at once.")


def _poll_report(configuration: Configuration) -> Callable[[str | None], None] | None:
    """Return the function that logs failing polls; None if the workers log each failed poll themselves."""
    return None if configuration.logs_failed_polls else _report_polls


def _report_polls(reason: str | None) -> None:
    if reason is None:
        print_line("Polls work again.")
    else:
        logger.warning("Polls fail: %s; the workers keep trying", reason)


def _run_processes(workers: list[Worker], configuration: Configuration, metrics: MetricsSettings | None) -> None:
    from conductor.client.automator.task_handler import TaskHandler

    with (
        announce_when_ready(polled_task_types(workers), _say_ready, _poll_report(configuration)) as listener,
        TaskHandler(workers, configuration, metrics, event_listeners=[listener]) as handler,
    ):
        handler.start_processes()
        handler.join_processes()


def _run_together(workers: list[Worker], configuration: Configuration, metrics: MetricsSettings | None) -> None:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.telemetry.task_logs import TaskLogs

    async def work() -> None:
        with announce_when_ready(polled_task_types(workers), _say_ready, _poll_report(configuration)) as listener:
            async with TaskHandlerAsyncIO(workers, configuration, metrics, event_listeners=[listener]) as handler:
                await handler.wait()

    with TaskLogs():  # adds the ids of the current task to log lines
        run_event_loop(work())
