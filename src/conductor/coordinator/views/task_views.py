"""Tasks as Conductor's clients read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshot, Snapshots, SnapshotTask
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.lookup import get_workflow
from conductor.coordinator.store.rows import DATA_WIDTH, TASK_WIDTH, TaskData, TaskRow, WorkflowRow
from conductor.coordinator.store.transaction import Tx

_Raw = msgspec.Raw
_EMPTY = _Raw(b"{}")
#: The order in which people read a task: what it is, how it stands, what it was given.
_OWN = (
    "taskId", "taskType", "taskDefName", "referenceTaskName", "status", "workflowInstanceId", "workflowType",
    "workflowPriority", "inputData", "outputData", "retryCount", "seq", "iteration", "pollCount", "scheduledTime",
    "startTime", "endTime", "updateTime", "startDelayInSeconds", "callbackAfterSeconds", "callbackFromWorker",
    "responseTimeoutSeconds", "retried", "executed", "rateLimitPerFrequency", "rateLimitFrequencyInSeconds",
    "queueWaitTime", "loopOverTask", "subworkflowChanged", "workflowTask", "taskDefinition",
)  # fmt: skip


class TaskOwner(NamedTuple):
    """What a task's JSON takes from its workflow."""

    name: str
    snapshot: Snapshot
    correlation_id: str | None
    priority: int


def task(tx: Tx, snapshots: Snapshots, task_id: str) -> dict[str, Any]:
    """One task; 404 if unknown."""
    found = tx.row("whole task", tx.ids.task_pk(task_id) or 0)
    if found is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    workflow = get_workflow(tx, found[1])
    return _task(tx, found, _owner(tx, snapshots, workflow))


def tasks(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> list[dict[str, Any]]:
    """Every attempt of a workflow, in order."""
    owner = _owner(tx, snapshots, row)
    return [_task(tx, found, owner) for found in tx.rows("tasks of workflow", row.pk)]


def _owner(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> TaskOwner:
    return TaskOwner(row.name, snapshots.get(tx, row.snapshot), row.correlation_id, row.priority)


def _task(tx: Tx, found: Any, owner: TaskOwner) -> dict[str, Any]:
    row, data = TaskRow(*found[:TASK_WIDTH]), TaskData(*found[TASK_WIDTH : TASK_WIDTH + DATA_WIDTH])
    queue = None if row.queue is None else tx.fact("queue of", row.queue)
    return task_json(tx.ids, row, data, owner, queue[1] if queue else "")


def has_ended(tx: Tx, workflow: int, ref: str) -> bool:
    """Whether the newest attempt at a task is over."""
    found = tx.row("latest task", workflow, ref)
    return found is not None and TaskRow(*found[:TASK_WIDTH]).terminal


def task_json(ids: Ids, row: TaskRow, data: TaskData, owner: TaskOwner, domain: str) -> dict[str, Any]:
    """A task as Conductor's clients read it; payloads and definitions are inserted as they are stored."""
    defined = owner.snapshot.task(row.ref, data.definition)
    task = (defined.delivery_fields or _delivered(defined, row.operator)).copy()
    if row.operator == "SUB_WORKFLOW":
        task["workflowTask"] = _with_version(defined.raw[0], data)
    started_ms = row.started_ms
    task["taskId"] = ids.task(row.pk)
    task["referenceTaskName"] = row.ref
    task["status"] = row.status
    task["workflowInstanceId"] = ids.workflow(row.workflow)
    task["workflowType"] = owner.name
    task["workflowPriority"] = owner.priority
    task["inputData"] = _Raw(data.input)
    task["outputData"] = _Raw(data.output) if data.output else _EMPTY
    task["retryCount"] = row.retry_count
    task["seq"] = row.seq
    task["iteration"] = row.iteration
    task["pollCount"] = row.poll_count
    task["scheduledTime"] = row.scheduled_ms
    task["startTime"] = started_ms
    task["endTime"] = row.ended_ms
    task["updateTime"] = 0 if _untouched(row) else row.updated_ms
    task["startDelayInSeconds"] = row.start_delay_s
    task["callbackAfterSeconds"] = row.callback_after_s
    task["responseTimeoutSeconds"] = row.response_timeout_ms // 1000 if row.operator == "SIMPLE" else 0
    task["retried"] = bool(row.retried)
    task["executed"] = bool(row.executed)
    task["queueWaitTime"] = max(0, started_ms - row.scheduled_ms) if started_ms else 0
    task["loopOverTask"] = row.iteration > 0
    _add_optional(task, ids, row, data, owner, domain)
    return task


def _delivered(defined: SnapshotTask, operator: str) -> dict[str, Any]:
    """What is the same for every task of a definition, with places for what is not."""
    simple, task_def = operator == "SIMPLE", defined.task_def
    workflow_task, task_definition = defined.raw
    defined.delivery_fields = {
        **dict.fromkeys(_OWN),
        "taskType": defined.polled_name if simple else _WIRE_KINDS.get(operator, operator),
        "taskDefName": "SWITCH" if operator == "SWITCH" else task_def.name,
        "callbackFromWorker": True,
        "rateLimitPerFrequency": task_def.rate_limit_per_frequency,
        "rateLimitFrequencyInSeconds": task_def.rate_limit_frequency_in_seconds if simple else 0,
        "subworkflowChanged": False,
        "workflowTask": workflow_task,
        "taskDefinition": task_definition,
    }
    return defined.delivery_fields


def version_in(data: TaskData) -> int | None:
    """The version of the workflow that a SUB_WORKFLOW task has started, if one was registered."""
    return msgspec.json.decode(data.input, type=_SubWorkflowInput).subWorkflowVersion


class _SubWorkflowInput(msgspec.Struct):
    subWorkflowVersion: int | None = None  # noqa: N815 - as it is stored


def _with_version(workflow_task: msgspec.Raw, data: TaskData) -> msgspec.Raw:
    """The workflow task of a SUB_WORKFLOW, with the version that was meant when none was said."""
    version = version_in(data)
    task = msgspec.json.decode(workflow_task)
    parameters = task.get("subWorkflowParam") or {}
    if version is None or parameters.get("version") == version:
        return workflow_task
    return msgspec.Raw(msgspec.json.encode({**task, "subWorkflowParam": {**parameters, "version": version}}))


def _untouched(row: TaskRow) -> bool:
    """Whether nobody has seen the task yet: Conductor's own tasks then have no time of an update."""
    return row.status == "SCHEDULED" and not row.poll_count


_WIRE_KINDS = {"FORK_JOIN": "FORK", "FORK_JOIN_DYNAMIC": "FORK"}


def _add_optional(task: dict[str, Any], ids: Ids, row: TaskRow, data: TaskData, owner: TaskOwner, domain: str) -> None:
    if owner.correlation_id is not None:
        task["correlationId"] = owner.correlation_id
    if row.worker_id is not None:
        task["workerId"] = row.worker_id
    if domain and not domain.startswith(SYSTEM_DOMAIN):
        task["domain"] = domain
    if row.retried_task is not None:
        task["retriedTaskId"] = ids.task(row.retried_task)
    if data.reason is not None:
        task["reasonForIncompletion"] = data.reason
    if row.sub_workflow is not None:
        task["subWorkflowId"] = ids.workflow(row.sub_workflow)
