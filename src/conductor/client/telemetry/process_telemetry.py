"""The metrics and the health of one worker process."""

from __future__ import annotations

from conductor.client.event.task_runner_events import TaskRunnerEventsListener
from conductor.client.telemetry import worker_metrics
from conductor.client.telemetry.health import HealthListener
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_directory import MetricsPlace
from conductor.common.clock import SYSTEM_CLOCK, Clock

#: The interval in seconds at which an event loop records that it is alive.
BEAT_S = 1.0


class ProcessTelemetry:
    """Measures one process.

    Register `listeners` with the event dispatcher, pass `on_request` to the API client, and run `pulse()` on the loop.

    Args:
        place: The settings from `MetricsHub.child_settings()`.
        worker: The name of the worker, if the process has only one. Several workers have the names of their task types.
        clock: The clock.
    """

    def __init__(self, place: MetricsPlace, worker: str | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._worker = worker
        self._clock = clock
        self.collector = MetricsCollector.for_process(place, clock.monotonic)
        self.health = HealthListener(self.collector.file, worker, clock)
        self.on_request = self.collector.on_request
        self.listeners: list[TaskRunnerEventsListener] = [self.collector, self.health]

    def set_slots_in_use(self, task_type: str, count: int) -> None:
        """Record how many slots of a worker are in use."""
        self.collector.set_gauge(worker_metrics.SLOTS_IN_USE, task_type, count)

    def set_journal_reports(self, task_type: str, count: int) -> None:
        """Record how many reports of the journal have no verdict."""
        self.collector.set_gauge(worker_metrics.JOURNAL_REPORTS, task_type, count)

    def set_stuck(self, task_type: str, count: int) -> None:
        """Record how many slots are held by functions that are past their timeout."""
        self.collector.set_gauge(worker_metrics.STUCK_TASKS, task_type, count)
        self.health.set_stuck(task_type, count)

    def set_paused(self, task_type: str, paused: bool) -> None:
        """Record whether polling is paused."""
        self.health.set_paused(task_type, paused)

    async def pulse(self) -> None:
        """Record every `BEAT_S` seconds that the event loop runs, and how late it was. Runs until it is cancelled."""
        lag = self.collector.file.summary(worker_metrics.LOOP_LAG.name, (self._worker or "",))
        while True:
            self.health.beat()
            asleep_at = self._clock.monotonic()
            await self._clock.sleep(BEAT_S)
            lag.observe(max(0.0, self._clock.monotonic() - asleep_at - BEAT_S))

    def close(self) -> None:
        """Release the metric file. The counts of this process stay in the totals of the hub."""
        self.collector.close()
