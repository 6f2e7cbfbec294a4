"""The health of workers.

A worker is *dead* when its process has ended or keeps ending, *stuck* when its event loop is blocked or a function
holds a slot past its timeout, *refused* when the server rejects its credentials, *unreachable* when the server does
not answer it.

A worker process records its status as numbers in its metric file. The parent process reads the file, so the status of a
blocked or dead process is readable too. The parent also uses its own record of the starts and ends of processes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum

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
from conductor.common.signals import format_exit_status

#: HTTP status codes of rejected credentials.
REFUSALS = frozenset({401, 403})

_BEAT = "status.beat_at"
_STARTED = "status.started_at"
_ERROR = "status.error"


class Phase(IntEnum):
    """The phase of a worker's life."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    STOPPED = 3


class WorkerStatus:
    """The status of one worker in the metric file. Times are monotonic seconds."""

    def __init__(self, file: MetricFile, worker: str) -> None:
        self.phase = file.gauge("status.phase", worker)
        self.polled_at = file.gauge("status.polled_at", worker)
        self.failures = file.gauge("status.failures", worker)
        self.refused = file.gauge("status.refused", worker)
        self.stuck = file.gauge("status.stuck", worker)
        self.paused = file.gauge("status.paused", worker)
        self.error = file.text(_ERROR, worker)

    def record_success(self) -> None:
        """Record that the server answered."""
        if self.failures.value:
            self.failures.set(0)
            self.refused.set(0)
            self.error.set("")

    def record_failure(self, cause: BaseException) -> None:
        """Record that a request failed."""
        self.error.set(f"{type(cause).__name__}: {cause}")
        self.refused.set(getattr(cause, "status", None) in REFUSALS)
        self.failures.add()


class HealthListener(TaskRunnerEventsListener):
    """Records the status of the workers of this process.

    Args:
        file: The metric file of the process.
        worker: The name of the worker, if the process has only one.
        clock: The clock.
    """

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
        """Return the status of the worker for this task type."""
        name = self._worker or task_type
        if name not in self._statuses:
            self._statuses[name] = WorkerStatus(self._file, name)
        return self._statuses[name]

    def beat(self) -> None:
        """Record that the event loop runs. The loop calls this about once a second."""
        self._beat_at.set(self._clock.monotonic())

    def set_stuck(self, task_type: str, count: int) -> None:
        """Record how many slots are held by functions that are past their timeout."""
        self.status(task_type).stuck.set(count)

    def set_paused(self, task_type: str, paused: bool) -> None:
        """Record whether polling is paused."""
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
        status.record_success()

    def on_poll_failure(self, event: PollFailure) -> None:
        self.status(event.task_type).record_failure(event.cause)

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.status(event.task_type).record_success()

    def on_task_update_retried(self, event: TaskUpdateRetried) -> None:
        # While all slots wait for their reports, the worker does not poll. Only its failed reports then show that the
        # server is unreachable.
        self.status(event.task_type).record_failure(event.cause)


class StatusReading:
    """The status of a running process and its workers, as read from its metric file."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._values: dict[tuple[str, ...], str | float] = {}
        for record in records:
            if record.key[0].startswith("status."):
                self._values[record.key] = record.text() if record.kind is Payload.TEXT else record.number()

    @property
    def workers(self) -> set[str]:
        """The names of the workers."""
        return {key[1] for key in self._values if len(key) > 1}

    @property
    def started_at(self) -> float:
        """When the process started."""
        return float(self._values.get((_STARTED,), 0.0))

    @property
    def beat_at(self) -> float:
        """When the event loop last ran; 0 if it has not run yet."""
        return float(self._values.get((_BEAT,), 0.0))

    def number(self, name: str, worker: str) -> float:
        """Return one of the numbers in the `WorkerStatus` of a worker. `name` is the field."""
        return float(self._values.get((f"status.{name}", worker), 0.0))

    def error(self, worker: str) -> str:
        """Return the last error of a worker; empty without one."""
        return str(self._values.get((_ERROR, worker), ""))


# -- the parent process -----------------------------------------------------------------------------------------------


class WorkerState(StrEnum):
    """The state of a worker. The first four are unhealthy."""

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
    """The limits beyond which a worker is unhealthy."""

    #: Seconds without a beat after which an event loop counts as blocked. A loop beats about once a second.
    blocked_after_s: float = 10.0
    #: The number of failed requests in a row after which the server counts as unreachable.
    unreachable_after_failures: int = 3
    #: Seconds that a process may take from its start to its first beat.
    start_within_s: float = 60.0
    #: This many crashes within `crash_window_s` are a crash loop.
    crashes: int = 3
    crash_window_s: float = 60.0
    #: Seconds that a process must run until its earlier crashes no longer count as a crash loop.
    settled_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The state of a worker and the reasons why it is not healthy."""

    worker: str
    state: WorkerState
    reasons: list[str] = field(default_factory=list)
    ready: bool = False
    restarts: int = 0
    #: Seconds since the server last answered a poll; None before the first answer.
    last_poll_s_ago: float | None = None


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of all workers at one time."""

    workers: list[WorkerHealth]

    @property
    def healthy(self) -> bool:
        """Whether every worker is healthy."""
        return not any(worker.state in UNHEALTHY for worker in self.workers)

    @property
    def ready(self) -> bool:
        """Whether every worker has polled successfully at least once or is paused."""
        return all(worker.ready for worker in self.workers)

    def to_dict(self) -> dict[str, object]:
        """Return the body of `/health` and `/ready`."""
        return {
            "status": "UP" if self.healthy else "DOWN",
            "ready": self.ready,
            "workers": [asdict(worker) for worker in self.workers],
        }


class _ProcessHistory:
    """The starts, crashes and last exit of a worker process, as the parent process has recorded them."""

    def __init__(self, max_crashes: int) -> None:
        self.started_at: float | None = None
        self.exit: str | None = None
        self.restarts = 0
        self.crashed_at: deque[float] = deque(maxlen=max_crashes)


class HealthMonitor:
    """Judges the health of workers from their status and from the starts and ends of their processes."""

    def __init__(
        self, directory: MetricsDirectory, clock: Clock = SYSTEM_CLOCK, limits: HealthLimits | None = None
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._limits = limits or HealthLimits()
        self._processes: dict[str, _ProcessHistory] = {}
        self._lock = threading.Lock()

    def expect(self, worker: str) -> None:
        """Expect a worker in a process that no supervisor starts, such as the current process."""
        self.record_process_start(worker)

    def record_process_start(self, worker: str) -> bool:
        """Record the start of a process. Return whether it replaces a process that ended."""
        with self._lock:
            process = self._processes.setdefault(worker, _ProcessHistory(self._limits.crashes))
            restarted = process.exit is not None
            process.started_at, process.exit = self._clock.monotonic(), None
            process.restarts += restarted
            return restarted

    def record_process_exit(self, worker: str, exit_code: int | None) -> None:
        """Record that the process of a worker ended unexpectedly."""
        with self._lock:
            process = self._processes.setdefault(worker, _ProcessHistory(self._limits.crashes))
            process.exit = format_exit_status(exit_code)
            process.crashed_at.append(self._clock.monotonic())

    def report(self) -> HealthReport:
        """Return the health of every worker."""
        readings = self._latest_readings()
        with self._lock:
            names = sorted({*self._processes, *readings})
            return HealthReport([self._judge(name, readings.get(name)) for name in names])

    def _latest_readings(self) -> dict[str, StatusReading]:
        """Return the status of each worker from its newest process."""
        latest: dict[str, StatusReading] = {}
        for records in self._directory.read_processes():
            reading = StatusReading(records)
            for worker in reading.workers:
                if worker not in latest or latest[worker].started_at < reading.started_at:
                    latest[worker] = reading
        return latest

    def _judge(self, worker: str, reading: StatusReading | None) -> WorkerHealth:
        now = self._clock.monotonic()
        process = self._processes.get(worker, _ProcessHistory(self._limits.crashes))
        polled_at = reading.number("polled_at", worker) if reading else 0.0
        problems = list(self._find_problems(worker, process, reading, now))
        return WorkerHealth(
            worker=worker,
            state=problems[0][0] if problems else _find_healthy_state(worker, reading),
            reasons=[reason for _, reason in problems],
            ready=not problems and (polled_at > 0 or _is_paused(worker, reading)),
            restarts=process.restarts,
            last_poll_s_ago=round(now - polled_at, 3) if polled_at else None,
        )

    def _find_problems(
        self, worker: str, process: _ProcessHistory, reading: StatusReading | None, now: float
    ) -> Iterator[tuple[WorkerState, str]]:
        """Yield the unhealthy states and their reasons, the worst first."""
        yield from self._find_process_problems(process, reading, now)
        if reading is not None and process.exit is None:
            yield from self._find_loop_problems(worker, reading, now)
            yield from self._find_server_problems(worker, reading)

    def _find_process_problems(
        self, process: _ProcessHistory, reading: StatusReading | None, now: float
    ) -> Iterator[tuple[WorkerState, str]]:
        limits = self._limits
        age_s = now - process.started_at if process.started_at is not None else 0.0
        recent = [at for at in process.crashed_at if now - at <= limits.crash_window_s]
        if process.exit is not None:
            yield WorkerState.DEAD, f"its process has ended ({process.exit})"
        elif len(recent) >= limits.crashes and age_s < limits.settled_after_s:
            yield WorkerState.DEAD, f"its process keeps ending: {len(recent)} times in {limits.crash_window_s:.0f} s"
        elif age_s > limits.start_within_s and (reading is None or not reading.beat_at):
            yield WorkerState.DEAD, f"its process has not started to work within {age_s:.0f} s"

    def _find_loop_problems(self, worker: str, reading: StatusReading, now: float) -> Iterator[tuple[WorkerState, str]]:
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

    def _find_server_problems(self, worker: str, reading: StatusReading) -> Iterator[tuple[WorkerState, str]]:
        failures = int(reading.number("failures", worker))
        if failures and reading.number("refused", worker):
            yield WorkerState.REFUSED, f"the server rejects its credentials ({reading.error(worker)})"
        elif failures >= self._limits.unreachable_after_failures:
            yield WorkerState.UNREACHABLE, f"the last {failures} requests failed ({reading.error(worker)})"


def _find_healthy_state(worker: str, reading: StatusReading | None) -> WorkerState:
    if reading is None or reading.number("phase", worker) == Phase.STARTING:
        return WorkerState.STARTING
    if reading.number("phase", worker) in (Phase.STOPPING, Phase.STOPPED):
        return WorkerState.STOPPING
    return WorkerState.PAUSED if _is_paused(worker, reading) else WorkerState.RUNNING


def _is_paused(worker: str, reading: StatusReading | None) -> bool:
    return reading is not None and bool(reading.number("paused", worker))
