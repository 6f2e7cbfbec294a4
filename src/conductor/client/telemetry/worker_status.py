"""How a worker says how it is: a listener that keeps a few numbers in the process's metric file, where the parent reads
them. A store, not a message: it is there even when the process can no longer speak.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from conductor.client.event.task_runner_events import (
    PollCompleted,
    PollFailure,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    TaskUpdateRetried,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from conductor.client.telemetry.metric_file import MetricFile, Payload, Record
from conductor.clock import SYSTEM_CLOCK, Clock

#: Status codes with which a server says that it does not want us.
REFUSALS = frozenset({401, 403})

_BEAT = "status.beat_at"
_STARTED = "status.started_at"
_ERROR = "status.error"


class Phase(IntEnum):
    """Where a worker is in its life."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    STOPPED = 3


class WorkerStatus:
    """The numbers of one worker. Written in the child, read in the parent; times are monotonic seconds."""

    def __init__(self, file: MetricFile, worker: str) -> None:
        self.phase = file.gauge("status.phase", worker)
        self.polled_at = file.gauge("status.polled_at", worker)
        self.failures = file.gauge("status.failures", worker)
        self.refused = file.gauge("status.refused", worker)
        self.stuck = file.gauge("status.stuck", worker)
        self.paused = file.gauge("status.paused", worker)
        self.error = file.text(_ERROR, worker)

    def succeeded(self) -> None:
        """The server answered."""
        if self.failures.value:
            self.failures.set(0)
            self.refused.set(0)
            self.error.set("")

    def failed(self, cause: BaseException) -> None:
        """A request failed."""
        self.error.set(f"{type(cause).__name__}: {cause}")
        self.refused.set(getattr(cause, "status", None) in REFUSALS)
        self.failures.add()


class HealthListener(TaskRunnerEventsListener):
    """Keeps the status of this process's workers. `worker` names the only one of the process, where there is one."""

    def __init__(self, file: MetricFile, worker: str | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._file = file
        self._worker = worker
        self._clock = clock
        self._statuses: dict[str, WorkerStatus] = {}
        self._beat_at = file.gauge(_BEAT)
        file.gauge(_STARTED).set(clock.monotonic())
        if worker is not None:
            self.status(worker)

    def status(self, task_type: str) -> WorkerStatus:
        """The status of the worker for this task type."""
        name = self._worker or task_type
        if name not in self._statuses:
            self._statuses[name] = WorkerStatus(self._file, name)
        return self._statuses[name]

    def beat(self) -> None:
        """Say that the event loop turns. To be called from the loop, about once a second."""
        self._beat_at.set(self._clock.monotonic())

    def stuck(self, task_type: str, count: int) -> None:
        """How many slots are held by a function that is past its timeout."""
        self.status(task_type).stuck.set(count)

    def paused(self, task_type: str, paused: bool) -> None:
        """Whether the worker was told not to poll."""
        self.status(task_type).paused.set(paused)

    def on_worker_started(self, event: WorkerStarted) -> None:
        self.status(event.task_type).phase.set(Phase.RUNNING)

    def on_worker_stopping(self, event: WorkerStopping) -> None:
        self.status(event.task_type).phase.set(Phase.STOPPING)

    def on_worker_stopped(self, event: WorkerStopped) -> None:
        self.status(event.task_type).phase.set(Phase.STOPPED)

    def on_poll_completed(self, event: PollCompleted) -> None:
        status = self.status(event.task_type)
        status.polled_at.set(self._clock.monotonic())
        status.succeeded()

    def on_poll_failure(self, event: PollFailure) -> None:
        self.status(event.task_type).failed(event.cause)

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.status(event.task_type).succeeded()

    def on_task_update_retried(self, event: TaskUpdateRetried) -> None:
        # A worker whose slots are all being reported does not poll: this is how it knows that the server is gone.
        self.status(event.task_type).failed(event.cause)


class StatusReading:
    """What one live process says of itself and of its workers."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._values: dict[tuple[str, ...], Any] = {}
        for record in records:
            if record.key[0].startswith("status."):
                self._values[record.key] = record.text() if record.kind is Payload.TEXT else record.number()

    @property
    def workers(self) -> set[str]:
        """The names of its workers."""
        return {key[1] for key in self._values if len(key) > 1}

    @property
    def started_at(self) -> float:
        """When it began to take part."""
        return float(self._values.get((_STARTED,), 0.0))

    @property
    def beat_at(self) -> float:
        """When its event loop last turned; 0 if it never said so."""
        return float(self._values.get((_BEAT,), 0.0))

    def number(self, name: str, worker: str) -> float:
        """One number of a worker, by its name in WorkerStatus."""
        return float(self._values.get((f"status.{name}", worker), 0.0))

    def error(self, worker: str) -> str:
        """The last error of a worker, or nothing."""
        return str(self._values.get((_ERROR, worker), ""))
