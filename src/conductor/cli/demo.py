"""`conductor-worker demo`: run the shop of `conductor.demo`, on its own coordinator or on a given server."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from conductor.cli.support import (
    Url,
    UserError,
    call_server,
    find_web_ui,
    import_coordinator,
    make_configuration,
    make_metrics_settings,
)
from conductor.client.configuration.configuration import Configuration


def demo(
    workflows: Annotated[int, typer.Option(min=3, max=100_000, help="Number of orders.")] = 300,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep server and workers running, and print commands to inspect them.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the log of the workers.")] = False,
    url: Url = None,
) -> int:
    """Run a small shop that shows workflows, retries and heartbeats.

    Without CONDUCTOR_SERVER_URL it starts its own coordinator, on a free port and with a temporary database.
    The exit status is 1 if an order does not end as expected.
    """
    with _server(url or os.environ.get("CONDUCTOR_SERVER_URL")) as where:
        configuration = make_configuration(where, log_level=_log_level(verbose))
        web_ui = call_server(where, find_web_ui) if keep else None
        went_well = _run(configuration, workflows, keep, web_ui)
    return 0 if went_well else 1


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    directory = tempfile.TemporaryDirectory(prefix="conductor-demo-")
    with directory as name, import_coordinator()(Path(name) / "shop.db") as coordinator:
        yield coordinator.url


def _run(configuration: Configuration, workflows: int, keep: bool, web_ui: str | None) -> bool:
    from conductor.client.http.async_rest import ConductorError
    from conductor.demo import day
    from conductor.demo.worker_page import NotReady, free_port

    metrics = make_metrics_settings("127.0.0.1", free_port())
    try:
        return day.run(configuration, metrics, workflows, keep, web_ui)
    except ConductorError as error:
        raise UserError(f"the server cannot be used: {error}") from None
    except NotReady as error:
        raise UserError(error) from None


def _log_level(verbose: bool) -> str | None:
    """Return the log level: failures of the demo's workers are intended, so they are logged only with --verbose."""
    if verbose or os.environ.get("CONDUCTOR_LOG_LEVEL"):
        logging.basicConfig(level=logging.INFO)
        return None
    return "CRITICAL"
