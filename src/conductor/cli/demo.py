"""`conductor-worker demo`: a small shop at work, from the first order to the last."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conductor.cli.complaint import Complaint
from conductor.cli.console import say, standard_output
from conductor.cli.extras import coordinator_class, metrics_on
from conductor.cli.server_choice import Url, configuration_of
from conductor.client.configuration.configuration import Configuration
from conductor.signals import on_stop

if TYPE_CHECKING:
    from conductor.cli.demo_day import Day


def demo(
    workflows: Annotated[int, typer.Option(min=3, max=100_000, help="How many orders come in.")] = 300,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave server and workers running, and say how to look.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the log of the workers.")] = False,
    url: Url = None,
) -> int:
    """Run a small shop: workflows, retries, heartbeats, a called-off order, and a table of what happened.

    Without CONDUCTOR_SERVER_URL it starts a coordinator of its own, on a free port and a temporary database.
    Status 1 if an order does not end as it must.
    """
    with _server(url or os.environ.get("CONDUCTOR_SERVER_URL")) as where:
        configuration = configuration_of(where, log_level=_log_level(verbose))
        server = configuration.shown_host
        say(f"The shop is open: {workflows} orders, 5 workers in processes of their own, server {server}")
        day = _run(configuration, workflows, keep)
    return 0 if day.as_expected else 1


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    directory = tempfile.TemporaryDirectory(prefix="conductor-demo-")
    with directory as name, coordinator_class()(Path(name) / "shop.db") as coordinator:
        yield coordinator.url


def _run(configuration: Configuration, count: int, keep: bool) -> Day:
    from conductor.cli import demo_report, shop
    from conductor.cli.demo_day import run_day
    from conductor.cli.demo_workers import WorkersPage
    from conductor.client.automator.child import run_on_loop
    from conductor.client.automator.task_handler import TaskHandler
    from conductor.client.http.async_rest import ConductorError

    port = _free_port()
    metrics, page = metrics_on("127.0.0.1", port), WorkersPage(port)
    try:
        run_on_loop(shop.register(configuration))
        with TaskHandler(shop.WORKERS, configuration, metrics) as handler:
            handler.start_processes()
            page.wait_until_ready()
            day: Day = run_on_loop(run_day(configuration, count))
            demo_report.show(standard_output(), day, page.counted())
            if keep:
                demo_report.show_where_to_look(day, configuration.shown_host, page.url)
                _wait_for_the_end()
    except ConductorError as error:
        raise Complaint(f"the server cannot be used: {error}") from None
    return day


def _log_level(verbose: bool) -> str | None:
    """The workers' failures are part of the show, and the table counts them: no line for each, unless asked for."""
    if verbose or os.environ.get("CONDUCTOR_LOG_LEVEL"):
        logging.basicConfig(level=logging.INFO)
        return None
    return "CRITICAL"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _wait_for_the_end() -> None:
    over = threading.Event()
    with on_stop(lambda _again: over.set(), signals=(signal.SIGINT, signal.SIGTERM)):
        over.wait()
    say("The shop closes: workers finish what they have in hand")
