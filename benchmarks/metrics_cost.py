"""The cost of events and metrics per task, as multiples of a bare call."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskExecutionStarted,
    TaskUpdateCompleted,
)
from conductor.client.telemetry.metrics_hub import MetricsHub
from conductor.client.telemetry.process_telemetry import ProcessTelemetry
from conductor.protocol.wire import Verdict

TASKS = 20_000
ROUNDS = 5
IDS = ("bench", "task-1", "worker-1", "workflow-1")


def bare_call(value: int = 1) -> dict[str, int]:
    """Do nothing, as the base of the ratios."""
    return {"result": value}


def life_of_a_task(dispatcher: SyncEventDispatcher) -> Callable[[], object]:
    """Publish the three events of one task. Events of polls are left out, because the tasks of a batch share them."""

    def publish() -> None:
        dispatcher.emit(TaskExecutionStarted, *IDS)
        dispatcher.emit(TaskExecutionCompleted, *IDS, 12.5, 100)
        dispatcher.emit(TaskUpdateCompleted, *IDS, Verdict.COMMITTED, False, 1, 3.5)

    return publish


def cost_us(call: Callable[[], object]) -> float:
    """Return the microseconds per call of the fastest round, because other load can only make a round slower."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(TASKS):
            call()
        best = min(best, time.perf_counter() - started)
    return best / TASKS * 1e6


def main() -> None:
    """Print the cost of each event and metric as a table."""
    with tempfile.TemporaryDirectory() as directory:
        hub = MetricsHub(MetricsSettings(directory=directory))
        telemetry = ProcessTelemetry(hub.child_settings(), "bench")
        rows = {
            "a bare call": bare_call,
            "three events, nobody listens": life_of_a_task(SyncEventDispatcher()),
            "three events, metrics and health listen": life_of_a_task(SyncEventDispatcher(telemetry.listeners)),
            "one HTTP request counted": lambda: telemetry.on_request("POST", "/tasks", 200, 0.01),
        }
        bare_us = cost_us(bare_call)
        print(f"{'events and metrics, per task':<42}{'µs':>8}{'× bare call':>14}")
        for name, call in rows.items():
            us = cost_us(call)
            print(f"{name:<42}{us:>8.2f}{us / bare_us:>14.1f}")
        started = time.perf_counter()
        hub.render()
        print(f"{'a scrape of one process (ms)':<42}{(time.perf_counter() - started) * 1000:>8.2f}")
        telemetry.close()
        hub.stop()


if __name__ == "__main__":
    main()
