"""Runs the demo: starts the workers, places the orders, prints the table."""

from __future__ import annotations

import signal
import threading

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.common.machine import run_event_loop
from conductor.common.signals import handle_stop_signals
from conductor.demo import shop, summary
from conductor.demo.customers import Day, run_day
from conductor.demo.worker_page import WorkerPage


def run(configuration: Configuration, metrics: MetricsSettings, count: int, keep: bool, web_ui: str | None) -> bool:
    """Run the demo with `count` orders; with `keep`, run until a signal.

    Return whether all orders ended as expected.
    """
    server, page = configuration.shown_host, WorkerPage(metrics.http_port or 0)
    print(f"The shop is open: {count} orders, 5 workers in separate processes, server {server}", flush=True)
    run_event_loop(shop.register(configuration))
    with TaskHandler(shop.WORKERS, configuration, metrics) as handler:
        handler.start_processes()
        if keep and web_ui is not None:
            print(f"Web UI: {web_ui}", flush=True)
        page.wait_until_ready()
        day: Day = run_event_loop(run_day(configuration, count))
        summary.show(day, page.read_metrics())
        if keep:
            summary.show_where_to_look(day, server, page.url)
            _wait_for_signal()
        else:
            summary.show_next_steps()
    return day.as_expected


def _wait_for_signal() -> None:
    over = threading.Event()
    with handle_stop_signals(lambda _again: over.set(), signals=(signal.SIGINT, signal.SIGTERM)):
        over.wait()
    print("The shop closes: workers finish their running tasks", flush=True)
