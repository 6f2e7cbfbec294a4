"""Whether the workers are well, and if not, why.

A worker is *dead* when its process has ended or keeps ending, *stuck* when its event loop is blocked or a function
holds a slot past its timeout, *refused* when the server rejects its credentials, *unreachable* when the server does
not answer it.

A worker says how it is in a few numbers of its process's metric file: a store, not a message, so that they are there
even when the process can no longer speak. The parent reads them there, and adds what it knows of the processes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
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
from conductor.client.telemetry.metrics_directory import MetricsDirectory
from conductor.common.clock import SYSTEM_CLOCK, Clock

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


# -- the parent's side ------------------------------------------------------------------------------------------------


class WorkerState(StrEnum):
    """How a worker is. The first four are unhealthy."""

    DEAD = "dead"
    STUCK = "stuck"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    STARTING = "starting"
    PAUSED = "paused"
    STOPPING = "stopping"
    RUNNING = "running"


UNHEALTHY = frozenset({WorkerState.DEAD, WorkerState.STUCK, WorkerState.REFUSED, WorkerState.UNREACHABLE})


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """After how long, or how often, a worker counts as unwell."""

    #: An event loop that has not turned for so long is blocked. (It says so about once a second.)
    blocked_after_s: float = 10.0
    #: So many requests in a row must fail: a single one may be a hiccup.
    unreachable_after_failures: int = 3
    #: A process that has not begun to work by then is stuck in its start.
    start_within_s: float = 60.0
    #: So many crashes within so long are a crash loop …
    crashes: int = 3
    crash_window_s: float = 60.0
    #: … until a process has lived for so long.
    settled_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """One worker: its state, and every reason for which it is not well."""

    worker: str
    state: WorkerState
    reasons: list[str] = field(default_factory=list)
    ready: bool = False
    restarts: int = 0
    #: Seconds since the server last answered a poll; None if it never did.
    last_poll_s_ago: float | None = None


@dataclass(frozen=True, slots=True)
class HealthReport:
    """All workers at one moment."""

    workers: list[WorkerHealth]

    @property
    def healthy(self) -> bool:
        """Whether every worker is well."""
        return not any(worker.state in UNHEALTHY for worker in self.workers)

    @property
    def ready(self) -> bool:
        """Whether every worker has polled successfully at least once (a paused one need not)."""
        return all(worker.ready for worker in self.workers)

    def to_dict(self) -> dict[str, Any]:
        """As `/health` and `/ready` show it."""
        return {
            "status": "UP" if self.healthy else "DOWN",
            "ready": self.ready,
            "workers": [asdict(worker) for worker in self.workers],
        }


class _Process:
    """What the parent knows of a worker's process."""

    def __init__(self, keep: int) -> None:
        self.started_at: float | None = None
        self.exit: str | None = None
        self.restarts = 0
        self.crashed_at: deque[float] = deque(maxlen=keep)


class Health:
    """Judges the workers. The parent tells it of processes; `report()` is the answer, and is true at any moment."""

    def __init__(
        self, directory: MetricsDirectory, clock: Clock = SYSTEM_CLOCK, limits: HealthLimits | None = None
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._limits = limits or HealthLimits()
        self._processes: dict[str, _Process] = {}
        self._lock = threading.Lock()

    def expect(self, worker: str) -> None:
        """There must be such a worker, in a process that nobody starts or watches: in this one, for instance."""
        self.process_started(worker)

    def process_started(self, worker: str) -> bool:
        """A process for the worker was started. True if it takes the place of one that ended."""
        with self._lock:
            process = self._processes.setdefault(worker, _Process(self._limits.crashes))
            again = process.exit is not None
            process.started_at, process.exit = self._clock.monotonic(), None
            process.restarts += again
            return again

    def process_exited(self, worker: str, exit_code: int | None) -> None:
        """The worker's process has ended, and not because it was told to."""
        with self._lock:
            process = self._processes.setdefault(worker, _Process(self._limits.crashes))
            process.exit = _exit_text(exit_code)
            process.crashed_at.append(self._clock.monotonic())

    def report(self) -> HealthReport:
        """How every worker is, right now."""
        readings = self._latest_readings()
        with self._lock:
            names = sorted({*self._processes, *readings})
            return HealthReport([self._judge(name, readings.get(name)) for name in names])

    def _latest_readings(self) -> dict[str, StatusReading]:
        """For each worker, what the youngest of its processes says."""
        latest: dict[str, StatusReading] = {}
        for process in self._directory.processes():
            reading = StatusReading(process.records)
            for worker in reading.workers:
                if worker not in latest or latest[worker].started_at < reading.started_at:
                    latest[worker] = reading
        return latest

    def _judge(self, worker: str, reading: StatusReading | None) -> WorkerHealth:
        now = self._clock.monotonic()
        process = self._processes.get(worker, _Process(self._limits.crashes))
        polled_at = reading.number("polled_at", worker) if reading else 0.0
        found = list(self._troubles(worker, process, reading, now))
        return WorkerHealth(
            worker=worker,
            state=found[0][0] if found else _state_without_trouble(worker, reading),
            reasons=[reason for _, reason in found],
            ready=not found and (polled_at > 0 or _is_paused(worker, reading)),
            restarts=process.restarts,
            last_poll_s_ago=round(now - polled_at, 3) if polled_at else None,
        )

    def _troubles(
        self, worker: str, process: _Process, reading: StatusReading | None, now: float
    ) -> Iterator[tuple[WorkerState, str]]:
        """Every trouble and its reason, the worst first."""
        yield from self._process_troubles(process, reading, now)
        if reading is not None and process.exit is None:
            yield from self._loop_troubles(worker, reading, now)
            yield from self._server_troubles(worker, reading)

    def _process_troubles(
        self, process: _Process, reading: StatusReading | None, now: float
    ) -> Iterator[tuple[WorkerState, str]]:
        limits = self._limits
        age_s = now - process.started_at if process.started_at is not None else 0.0
        recent = [at for at in process.crashed_at if now - at <= limits.crash_window_s]
        if process.exit is not None:
            yield WorkerState.DEAD, f"its process has ended ({process.exit})"
        elif len(recent) >= limits.crashes and age_s < limits.settled_after_s:
            yield WorkerState.DEAD, f"its process keeps ending: {len(recent)} times in {limits.crash_window_s:.0f} s"
        elif age_s > limits.start_within_s and (reading is None or not reading.beat_at):
            yield WorkerState.DEAD, f"its process has not begun to work {age_s:.0f} s after its start"

    def _loop_troubles(self, worker: str, reading: StatusReading, now: float) -> Iterator[tuple[WorkerState, str]]:
        silent_s = now - reading.beat_at
        stopped = reading.number("phase", worker) == Phase.STOPPED
        if reading.beat_at and not stopped and silent_s > self._limits.blocked_after_s:
            yield (
                WorkerState.STUCK,
                f"its event loop has been blocked for {silent_s:.0f} s: an async function does not await",
            )
        stuck = int(reading.number("stuck", worker))
        if stuck:
            yield WorkerState.STUCK, f"{stuck} task(s) run past their timeout and hold their slots"

    def _server_troubles(self, worker: str, reading: StatusReading) -> Iterator[tuple[WorkerState, str]]:
        failures = int(reading.number("failures", worker))
        if failures and reading.number("refused", worker):
            yield WorkerState.REFUSED, f"the server refuses its credentials ({reading.error(worker)})"
        elif failures >= self._limits.unreachable_after_failures:
            yield WorkerState.UNREACHABLE, f"the last {failures} requests failed ({reading.error(worker)})"


def _state_without_trouble(worker: str, reading: StatusReading | None) -> WorkerState:
    if reading is None or reading.number("phase", worker) == Phase.STARTING:
        return WorkerState.STARTING
    if reading.number("phase", worker) in (Phase.STOPPING, Phase.STOPPED):
        return WorkerState.STOPPING
    return WorkerState.PAUSED if _is_paused(worker, reading) else WorkerState.RUNNING


def _is_paused(worker: str, reading: StatusReading | None) -> bool:
    return reading is not None and bool(reading.number("paused", worker))


def _exit_text(exit_code: int | None) -> str:
    if exit_code is None:
        return "exit code unknown"
    if exit_code < 0:
        return f"killed by signal {-exit_code}"
    return f"exit code {exit_code}"
