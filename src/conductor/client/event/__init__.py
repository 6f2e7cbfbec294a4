"""Events of workers, and listeners for them. Each name is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher as SyncEventDispatcher
    from conductor.client.event.sync_listener_register import (
        register_task_runner_listener as register_task_runner_listener,
    )
    from conductor.client.event.task_runner_events import PollCompleted as PollCompleted
    from conductor.client.event.task_runner_events import PollFailure as PollFailure
    from conductor.client.event.task_runner_events import PollStarted as PollStarted
    from conductor.client.event.task_runner_events import TaskExecutionCompleted as TaskExecutionCompleted
    from conductor.client.event.task_runner_events import TaskExecutionFailure as TaskExecutionFailure
    from conductor.client.event.task_runner_events import TaskExecutionStarted as TaskExecutionStarted
    from conductor.client.event.task_runner_events import TaskLeaseExtended as TaskLeaseExtended
    from conductor.client.event.task_runner_events import TaskLeaseLost as TaskLeaseLost
    from conductor.client.event.task_runner_events import TaskProcessDied as TaskProcessDied
    from conductor.client.event.task_runner_events import TaskRunnerEvent as TaskRunnerEvent
    from conductor.client.event.task_runner_events import TaskRunnerEventsListener as TaskRunnerEventsListener
    from conductor.client.event.task_runner_events import TaskUpdateCompleted as TaskUpdateCompleted
    from conductor.client.event.task_runner_events import TaskUpdateFailure as TaskUpdateFailure
    from conductor.client.event.task_runner_events import TaskUpdateRetried as TaskUpdateRetried
    from conductor.client.event.task_runner_events import WorkerStarted as WorkerStarted
    from conductor.client.event.task_runner_events import WorkerStopped as WorkerStopped
    from conductor.client.event.task_runner_events import WorkerStopping as WorkerStopping

_HOMES = {
    "PollCompleted": "task_runner_events",
    "PollFailure": "task_runner_events",
    "PollStarted": "task_runner_events",
    "SyncEventDispatcher": "sync_event_dispatcher",
    "TaskExecutionCompleted": "task_runner_events",
    "TaskExecutionFailure": "task_runner_events",
    "TaskExecutionStarted": "task_runner_events",
    "TaskLeaseExtended": "task_runner_events",
    "TaskLeaseLost": "task_runner_events",
    "TaskProcessDied": "task_runner_events",
    "TaskRunnerEvent": "task_runner_events",
    "TaskRunnerEventsListener": "task_runner_events",
    "TaskUpdateCompleted": "task_runner_events",
    "TaskUpdateFailure": "task_runner_events",
    "TaskUpdateRetried": "task_runner_events",
    "WorkerStarted": "task_runner_events",
    "WorkerStopped": "task_runner_events",
    "WorkerStopping": "task_runner_events",
    "register_task_runner_listener": "sync_listener_register",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
