"""Everything one process measures: its metrics, its workers' status and the turning of its event loop, in one file."""

from __future__ import annotations

from conductor.client.event.task_runner_events import TaskRunnerEventsListener
from conductor.client.telemetry import worker_metrics
from conductor.client.telemetry.health import HealthListener
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_directory import MetricsPlace
from conductor.common.clock import SYSTEM_CLOCK, Clock

#: How often a loop says that it turns.
BEAT_S = 1.0


class ProcessTelemetry:
    """Made in the process that is measured, from the place that the parent's hub gave it.

    `worker` names the worker of a process that has only one; in a process with many, each goes by its task type.
    Register `listeners` with the dispatcher, hand `on_request` to the API client, and run `pulse()` on the loop.
    """

    def __init__(self, place: MetricsPlace, worker: str | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._worker = worker
        self._clock = clock
        self.collector = MetricsCollector.for_process(place, clock.monotonic)
        self.health = HealthListener(self.collector.file, worker, clock)
        self.on_request = self.collector.on_request
        self.listeners: list[TaskRunnerEventsListener] = [self.collector, self.health]

    def slots_in_use(self, task_type: str, count: int) -> None:
        """How many tasks the worker has in hand."""
        self.collector.set_gauge(worker_metrics.SLOTS_IN_USE, task_type, count)

    def stuck(self, task_type: str, count: int) -> None:
        """How many slots are held by a function that is past its timeout."""
        self.collector.set_gauge(worker_metrics.STUCK_TASKS, task_type, count)
        self.health.stuck(task_type, count)

    def paused(self, task_type: str, paused: bool) -> None:
        """Whether the worker was told not to poll."""
        self.health.paused(task_type, paused)

    async def pulse(self) -> None:
        """Note once a second that the event loop turns, and how late it was. Runs until it is cancelled."""
        lag = self.collector.file.summary(worker_metrics.LOOP_LAG.name, (self._worker or "",))
        while True:
            self.health.beat()
            asleep_at = self._clock.monotonic()
            await self._clock.sleep(BEAT_S)
            lag.observe(max(0.0, self._clock.monotonic() - asleep_at - BEAT_S))

    def close(self) -> None:
        """This process is done; what it counted stays."""
        self.collector.close()
