"""The events of workers as frozen dataclasses, in the order in which they happen.

Subclass `TaskRunnerEventsListener`, override the methods that you need, and pass an instance as `event_listeners=[...]`
to a handler. Listeners are called synchronously on the worker's thread, so they should be fast. An exception of a
listener is logged and has no other effect; a listener that takes more than 100 ms is logged.
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
    """A poll is about to be sent. `poll_count` is the number of requested tasks."""

    task_type: str
    worker_id: str
    poll_count: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class PollCompleted:
    """A poll was answered, with tasks or without."""

    task_type: str
    duration_ms: float
    tasks_received: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class PollFailure:
    """A poll was rejected (401 or 403), failed, or got an unreadable answer."""

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
    """The function of a task has returned. `output_size_bytes` is the size of the encoded output."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    duration_ms: float
    output_size_bytes: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskExecutionFailure:
    """The function of a task raised an exception, timed out, or returned a value that cannot be sent."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    cause: BaseException
    duration_ms: float
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskUpdateFailure:
    """A result was not delivered: all attempts failed, or the lease was lost between two attempts.

    `journaled` says whether the result is in the journal, to be sent again.
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
    """An attempt to report a result failed.

    Attributes:
        delay_s: The longest wait before the next attempt; None after the last attempt.
    """

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
    """A report got its verdict. `inferred` is True on a server that does not send verdicts."""

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
    """A heartbeat was accepted. The lease is valid for another `remaining_s` seconds."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    remaining_s: float
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskLeaseLost:
    """The worker has lost the lease of a task. The result of the task is discarded."""

    task_type: str
    task_id: str
    worker_id: str
    workflow_instance_id: str
    reason: str
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class TaskProcessDied:
    """A worker process died while it executed the task.

    The program that started the process publishes the event. If that program is dead, too, the next process that takes
    over the journal publishes the event.

    Attributes:
        cause: How the process died, such as "the worker process exited with status 3".
        deaths: The number of process deaths at which only this task was running.
        suspicions: The number of process deaths at which other tasks were running too.
        reported_as: FAILED, FAILED_WITH_TERMINAL_ERROR, or IN_PROGRESS for a task that is requeued.
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
    """A worker has stopped polling and finishes its running tasks. `tasks_in_hand` is the number of running tasks."""

    task_type: str
    worker_id: str
    tasks_in_hand: int
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    """A worker has stopped. `handed_back` is the number of unfinished tasks that were requeued."""

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

#: All types of events, in the order in which they happen.
EVENT_TYPES: tuple[type[Any], ...] = TaskRunnerEvent.__args__


class TaskRunnerEventsListener:
    """Base of listeners, whose methods do nothing. Override the methods that you need.

    Any other object with some of these methods is a listener too.
    """

    def on_poll_started(self, event: PollStarted) -> None:
        """Handle the start of a poll."""

    def on_poll_completed(self, event: PollCompleted) -> None:
        """Handle an answered poll."""

    def on_poll_failure(self, event: PollFailure) -> None:
        """Handle a rejected or failed poll."""

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        """Handle the start of a task's function."""

    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        """Handle the return of a task's function."""

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        """Handle a failure of a task's function."""

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        """Handle a result that was not delivered."""

    def on_task_update_retried(self, event: TaskUpdateRetried) -> None:
        """Handle a failed attempt to report a result."""

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        """Handle the verdict on a report."""

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        """Handle an accepted heartbeat."""

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        """Handle the loss of a lease."""

    def on_task_process_died(self, event: TaskProcessDied) -> None:
        """Handle the death of a worker process that executed a task."""

    def on_worker_started(self, event: WorkerStarted) -> None:
        """Handle the start of a worker."""

    def on_worker_stopping(self, event: WorkerStopping) -> None:
        """Handle the start of a worker's shutdown."""

    def on_worker_stopped(self, event: WorkerStopped) -> None:
        """Handle the end of a worker."""


def handler_name(event_type: type[Any]) -> str:
    """Return the listener method of a type of event: PollStarted → on_poll_started."""
    return "on" + re.sub(r"([A-Z])", r"_\1", event_type.__name__).lower()


def find_handlers(listener: object) -> Iterator[tuple[type[Any], Any]]:
    """Return the event types that a listener handles, with its methods. The empty methods of the base are left out."""
    for event_type in EVENT_TYPES:
        name = handler_name(event_type)
        method = getattr(listener, name, None)
        if not callable(method):
            continue
        if getattr(method, "__func__", None) is getattr(TaskRunnerEventsListener, name):
            continue
        yield event_type, method


def fields_of(event: TaskRunnerEvent) -> dict[str, Any]:
    """Return the fields of an event by name, for listeners that store or print events."""
    return {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
