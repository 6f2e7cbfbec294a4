"""What a worker tells the world, as frozen dataclasses, in the order in which it happens.

Subclass `TaskRunnerEventsListener`, override what interests you, and pass an instance as `event_listeners=[...]`
to a handler. Listeners are called synchronously on the worker's own thread: be quick. One that raises is logged
and changes nothing; one that takes more than 100 ms is named in the log.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.client.http.models.task_result import TaskResult
    from conductor.protocol.wire import Verdict


_now = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True)
class PollStarted:
    """A batch poll is about to be sent. `poll_count` is the number of tasks asked for."""

    task_type: str
    worker_id: str
    poll_count: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class PollCompleted:
    """A batch poll was answered, perhaps with nothing."""

    task_type: str
    duration_ms: float
    tasks_received: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class PollFailure:
    """A poll was refused (401/403), failed, or got no sensible answer."""

    task_type: str
    duration_ms: float
    cause: BaseException
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskExecutionStarted:
    """The function of a task is about to be called."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskExecutionCompleted:
    """The function returned. `output_size_bytes` is the size of the output as it travels."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    duration_ms: float
    output_size_bytes: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskExecutionFailure:
    """The function raised, ran out of time, or returned what cannot be sent."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    cause: BaseException
    duration_ms: float
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskUpdateFailure:
    """No attempt to report a result got through: all failed, or the server took the task away between two attempts.

    `journaled` says whether the result waits on disk to be sent again.
    """

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    cause: BaseException
    retry_count: int
    task_result: TaskResult
    timestamp: datetime = field(default_factory=_now)
    journaled: bool = False


@dataclass(frozen=True, slots=True)
class TaskUpdateRetried:
    """An attempt to report a result failed; the next follows after `delay_s` seconds (None: it was the last)."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    cause: BaseException
    attempt: int
    delay_s: float | None
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskUpdateCompleted:
    """A report got its verdict. `inferred` is True on a server that gives none of its own."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    verdict: Verdict
    inferred: bool
    attempts: int
    duration_ms: float
    reason: str | None = None
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskLeaseExtended:
    """A heartbeat was accepted; the lease holds for another `remaining_s` seconds by the worker's own clock."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    remaining_s: float
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskLeaseLost:
    """The worker may no longer speak for the task: its result is discarded and nothing more is sent about it."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    reason: str
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskProcessDied:
    """A worker process died while it executed the task. `cause` says how: "the worker process exited with status 3".

    `deaths` counts the deaths that the task alone is blamed for, `suspicions` those during which other tasks were
    executing, too. `reported_as` is FAILED, FAILED_WITH_TERMINAL_ERROR, or IN_PROGRESS for a task that is given back.
    The program that started the process emits the event; if it is dead too, the next process that adopts the journal.
    """

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    cause: str
    exit_status: int | None
    deaths: int
    suspicions: int
    reported_as: str
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker is about to poll for the first time."""

    task_type: str
    worker_id: str
    thread_count: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class WorkerStopping:
    """A worker polls no more and finishes what it has in hand."""

    task_type: str
    worker_id: str
    tasks_in_hand: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    """A worker is done; `handed_back` tasks were returned to the server unfinished."""

    task_type: str
    worker_id: str
    handed_back: int
    timestamp: datetime = field(default_factory=_now)


TaskRunnerEvent = (
    PollStarted
    | PollCompleted
    | PollFailure
    | TaskExecutionStarted
    | TaskExecutionCompleted
    | TaskExecutionFailure
    | TaskUpdateFailure
    | TaskUpdateRetried
    | TaskUpdateCompleted
    | TaskLeaseExtended
    | TaskLeaseLost
    | TaskProcessDied
    | WorkerStarted
    | WorkerStopping
    | WorkerStopped
)

#: Every event there is, in the order of a task's life.
EVENT_TYPES: tuple[type[Any], ...] = TaskRunnerEvent.__args__


class TaskRunnerEventsListener:
    """Base of listeners: every method does nothing; override what you need. (Any object with some of these works.)"""

    def on_poll_started(self, event: PollStarted) -> None:
        """Called before each poll."""

    def on_poll_completed(self, event: PollCompleted) -> None:
        """Called after each answered poll."""

    def on_poll_failure(self, event: PollFailure) -> None:
        """Called after each refused or failed poll."""

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        """Called before a task's function."""

    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        """Called when a task's function has returned."""

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        """Called when a task's function has failed, for good or to be retried."""

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        """Called when a result could not be delivered after all attempts."""

    def on_task_update_retried(self, event: TaskUpdateRetried) -> None:
        """Called after each failed attempt to deliver a result."""

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        """Called with the verdict on each report."""

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        """Called after each accepted heartbeat."""

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        """Called when the worker has lost its authority over a task."""

    def on_task_process_died(self, event: TaskProcessDied) -> None:
        """Called when a worker process has died while it executed a task."""

    def on_worker_started(self, event: WorkerStarted) -> None:
        """Called before the first poll of a worker."""

    def on_worker_stopping(self, event: WorkerStopping) -> None:
        """Called when a worker begins to drain."""

    def on_worker_stopped(self, event: WorkerStopped) -> None:
        """Called when a worker has ended."""


def handler_name(event_type: type[Any]) -> str:
    """The listener method of an event: PollStarted → on_poll_started."""
    return "on" + re.sub(r"([A-Z])", r"_\1", event_type.__name__).lower()


def handlers_of(listener: object) -> Iterator[tuple[type[Any], Any]]:
    """(event type, method) for every event the listener really handles; the base's empty methods cost nothing."""
    for event_type in EVENT_TYPES:
        name = handler_name(event_type)
        method = getattr(listener, name, None)
        if not callable(method):
            continue
        if getattr(method, "__func__", None) is getattr(TaskRunnerEventsListener, name):
            continue
        yield event_type, method


def fields_of(event: TaskRunnerEvent) -> dict[str, Any]:
    """The event's fields by name, for listeners that store or print whole events."""
    return {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
