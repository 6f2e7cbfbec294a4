"""`conductor-worker run`: the decorated workers of modules, until told to stop."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer

from conductor.cli.complaint import Complaint
from conductor.cli.discovery import Modules, find_workers
from conductor.cli.extras import metrics_on
from conductor.cli.neighbours import clash
from conductor.cli.server_choice import Url, configuration_of
from conductor.cli.worker_options import set_for_all_workers, with_worker_options
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.option import ConfigurationError
from conductor.client.worker.worker import Worker
from conductor.signals import kept, on_stop


@with_worker_options
def run(
    modules: Modules,
    url: Url = None,
    asyncio: Annotated[
        bool, typer.Option("--asyncio", help="All workers in this process, in place of one process each.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve /metrics, /health and /ready on this port.", show_default=False),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The address of that port: scrapers and probes come from elsewhere.")
    ] = "0.0.0.0",  # noqa: S104
    **options: Any,
) -> int:
    """Run the decorated workers of modules or packages. SIGTERM or Ctrl-C drains; a second one stops at once."""
    set_for_all_workers(options)
    configuration = configuration_of(url)
    metrics = None if metrics_port is None else metrics_on(metrics_host, metrics_port)
    workers = find_workers(modules)
    configuration.apply_logging_config()
    warning = clash()
    if warning:
        typer.echo(f"warning: {warning}", err=True)
    # Ctrl-C means the same as SIGTERM here; the handlers know what the first and the second of those mean. Workers take
    # tasks before their handler waits for signals: what comes in between is not to end the process with tasks in hand.
    with kept(signal.SIGTERM), on_stop(lambda _again: signal.raise_signal(signal.SIGTERM), signals=(signal.SIGINT,)):
        try:
            (_run_together if asyncio else _run_processes)(workers, configuration, metrics)
        except ConfigurationError as error:
            raise Complaint(error) from None
    return 0


def _run_processes(workers: list[Worker], configuration: Configuration, metrics: MetricsSettings | None) -> None:
    from conductor.client.automator.task_handler import TaskHandler

    with TaskHandler(workers, configuration, metrics) as handler:
        handler.start_processes()
        handler.join_processes()


def _run_together(workers: list[Worker], configuration: Configuration, metrics: MetricsSettings | None) -> None:
    from conductor.client.automator.child import run_on_loop
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO

    async def work() -> None:
        async with TaskHandlerAsyncIO(workers, configuration, metrics) as handler:
            await handler.wait()

    run_on_loop(work())
