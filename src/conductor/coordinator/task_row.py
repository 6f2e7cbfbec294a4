"""A row of the task table, and how it reads on the wire."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions import Snapshot
from conductor.coordinator.ids import Ids
from conductor.wire import TERMINAL_TASK_STATUSES

_EMPTY = b"{}"


class TaskRow(NamedTuple):
    """The columns of `task`, in the order of the schema."""

    pk: int
    workflow: int
    queue: int | None
    type: int
    kind: str
    ref: str
    seq: int
    iteration: int
    status: str
    priority: int
    retry_count: int
    retried_task: int | None
    retried: int
    executed: int
    poll_count: int
    scheduled_ms: int
    first_scheduled_ms: int
    started_ms: int
    updated_ms: int
    ended_ms: int
    start_delay_s: int
    callback_after_s: int
    worker_id: str | None
    lease_no: int
    lease_ms: int | None
    response_ms: int
    timeout_ms: int
    poll_ms: int
    total_ms: int
    alerted: int
    ready_ms: int | None
    due_ms: int | None
    wake_ms: int | None
    sub_workflow: int | None

    @property
    def terminal(self) -> bool:
        """Whether it never changes again."""
        return self.status in TERMINAL_TASK_STATUSES


#: How many columns of a joined row belong to the task.
WIDTH = len(TaskRow._fields)


class TaskOwner(NamedTuple):
    """What a task's JSON takes from its workflow."""

    name: str
    snapshot: Snapshot
    correlation_id: str | None
    priority: int


class TaskData(NamedTuple):
    """The payload of a task."""

    input: bytes
    output: bytes | None
    reason: str | None


def task_json(ids: Ids, row: TaskRow, data: TaskData, owner: TaskOwner, domain: str) -> dict[str, Any]:
    """A task as Conductor's clients read it; payloads and definitions are inserted as they are stored."""
    workflow_task, task_def = owner.snapshot.raw(row.ref)
    definition = owner.snapshot.task_def(row.ref)
    simple = row.kind == "SIMPLE"
    task: dict[str, Any] = {
        "taskId": ids.task(row.pk),
        "taskType": definition.name if simple else _WIRE_KINDS.get(row.kind, row.kind),
        "taskDefName": "SWITCH" if row.kind == "SWITCH" else definition.name,
        "referenceTaskName": row.ref,
        "status": row.status,
        "workflowInstanceId": ids.workflow(row.workflow),
        "workflowType": owner.name,
        "workflowPriority": owner.priority,
        "inputData": msgspec.Raw(data.input),
        "outputData": msgspec.Raw(data.output or _EMPTY),
        "retryCount": row.retry_count,
        "seq": row.seq,
        "iteration": row.iteration,
        "pollCount": row.poll_count,
        "scheduledTime": row.scheduled_ms,
        "startTime": row.started_ms,
        "endTime": row.ended_ms,
        "updateTime": 0 if _untouched(row) else row.updated_ms,
        "startDelayInSeconds": row.start_delay_s,
        "callbackAfterSeconds": row.callback_after_s,
        "callbackFromWorker": True,
        "responseTimeoutSeconds": row.response_ms // 1000 if simple else 0,
        "retried": bool(row.retried),
        "executed": bool(row.executed),
        "rateLimitPerFrequency": definition.rate_limit_per_frequency,
        "rateLimitFrequencyInSeconds": definition.rate_limit_frequency_in_seconds if simple else 0,
        "queueWaitTime": max(0, row.started_ms - row.scheduled_ms) if row.started_ms else 0,
        "loopOverTask": row.iteration > 0,
        "subworkflowChanged": False,
        "workflowTask": workflow_task,
        "taskDefinition": task_def,
    }
    _add_optional(task, ids, row, data, owner, domain)
    return task


def _untouched(row: TaskRow) -> bool:
    """Whether nobody has seen the task yet: Conductor's own tasks then have no time of an update."""
    return row.status == "SCHEDULED" and not row.poll_count


_WIRE_KINDS = {"FORK_JOIN": "FORK"}


def _add_optional(task: dict[str, Any], ids: Ids, row: TaskRow, data: TaskData, owner: TaskOwner, domain: str) -> None:
    if owner.correlation_id is not None:
        task["correlationId"] = owner.correlation_id
    if row.worker_id is not None:
        task["workerId"] = row.worker_id
    if domain:
        task["domain"] = domain
    if row.retried_task is not None:
        task["retriedTaskId"] = ids.task(row.retried_task)
    if data.reason is not None:
        task["reasonForIncompletion"] = data.reason
    if row.sub_workflow is not None:
        task["subWorkflowId"] = ids.workflow(row.sub_workflow)
