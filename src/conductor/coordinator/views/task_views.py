"""Reads tasks from the database and formats them as JSON for Conductor's clients."""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshot, Snapshots, SnapshotTask
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.limits import MAX_TASKS_BYTES
from conductor.coordinator.request_errors import bad_request, not_found
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.lookup import get_workflow
from conductor.coordinator.store.rows import TaskData, TaskRow, WholeTask, WorkflowRow
from conductor.coordinator.store.statements import LATEST_TASK, QUEUE_OF, TASKS_OF_WORKFLOW, WHOLE_TASK
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject
from conductor.protocol.statuses import TaskStatus

_EMPTY = msgspec.Raw(b"{}")
#: The fields of every task, in the order in which they are sent.
_FIELDS = (
    "taskId", "taskType", "taskDefName", "referenceTaskName", "status", "workflowInstanceId", "workflowType",
    "workflowPriority", "inputData", "outputData", "retryCount", "seq", "iteration", "pollCount", "scheduledTime",
    "startTime", "endTime", "updateTime", "startDelayInSeconds", "callbackAfterSeconds", "callbackFromWorker",
    "responseTimeoutSeconds", "retried", "executed", "rateLimitPerFrequency", "rateLimitFrequencyInSeconds",
    "queueWaitTime", "loopOverTask", "subworkflowChanged", "workflowTask", "taskDefinition",
)  # fmt: skip
#: Task type → `taskType` in Conductor's JSON, where the two differ.
_TASK_TYPES = {"FORK_JOIN": "FORK", "FORK_JOIN_DYNAMIC": "FORK"}


class TaskOwner(NamedTuple):
    """The facts about a workflow that the JSON of its tasks contains."""

    name: str
    snapshot: Snapshot
    correlation_id: str | None
    priority: int


def read_task(tx: Tx, snapshots: Snapshots, task_id: str) -> JsonObject:
    """Return a task, or raise a 404."""
    found = tx.first(WHOLE_TASK, tx.ids.task_pk(task_id) or 0)
    if found is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    workflow = get_workflow(tx, found.row.workflow)
    return _read_row(tx, found, _make_owner(tx, snapshots, workflow))


def read_tasks(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> list[JsonObject]:
    """Return every attempt at the tasks of a workflow, in order.

    Raises:
        ApiError: The inputs and outputs of the tasks are larger than `MAX_TASKS_BYTES`.
    """
    hits, tasks = read_task_page(tx, snapshots, row)
    if hits > len(tasks):
        workflow_id = tx.ids.workflow(row.pk)
        raise bad_request(
            f"the tasks of workflow {workflow_id} are larger than {MAX_TASKS_BYTES} bytes; read the workflow without "
            f"them (includeTasks=false), and its tasks page by page (GET /workflow/{workflow_id}/tasks?start=0&count=9)"
        )
    return tasks


def read_task_page(
    tx: Tx,
    snapshots: Snapshots,
    row: WorkflowRow,
    start: int = 0,
    count: int = sys.maxsize,
    statuses: AbstractSet[str] = frozenset(),
) -> tuple[int, list[JsonObject]]:
    """Return the number of attempts at the tasks of a workflow, and a page of them, in order.

    Args:
        tx: The transaction.
        snapshots: The definitions of the workflows.
        row: The workflow.
        start: The number of attempts before the page.
        count: The maximum number of attempts on the page. The page also ends after `MAX_TASKS_BYTES`.
        statuses: Only attempts with one of these statuses; empty for all.
    """
    owner = _make_owner(tx, snapshots, row)
    page: list[JsonObject] = []
    hits = size = 0
    for found in tx.each(TASKS_OF_WORKFLOW, row.pk):
        if statuses and found.row.status not in statuses:
            continue
        hits += 1
        if start < hits <= start + count and size <= MAX_TASKS_BYTES:
            page.append(_read_row(tx, found, owner))
            size += len(found.data.input) + len(found.data.output or b"")
    return hits, page


def _make_owner(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> TaskOwner:
    return TaskOwner(row.name, snapshots.get(tx, row.snapshot), row.correlation_id, row.priority)


def _read_row(tx: Tx, found: WholeTask, owner: TaskOwner) -> JsonObject:
    queue = None if found.row.queue is None else tx.cached_first(QUEUE_OF, found.row.queue)
    return make_task_json(tx.ids, found.row, found.data, owner, queue.domain if queue else "")


def has_ended(tx: Tx, workflow: int, ref: str) -> bool:
    """Return whether the latest attempt at a task has ended."""
    found = tx.first(LATEST_TASK, workflow, ref)
    return found is not None and found.row.terminal


def make_task_json(ids: Ids, row: TaskRow, data: TaskData, owner: TaskOwner, domain: str) -> JsonObject:
    """Return a task in Conductor's JSON format. Payloads and definitions are inserted as they are stored."""
    defined = owner.snapshot.task(row.ref, data.definition)
    task = (defined.delivery_fields or _make_delivery_fields(defined, row.operator)).copy()
    if row.operator == "SUB_WORKFLOW":
        task["workflowTask"] = _add_started_version(defined.raw[0], data)
    started_ms = row.started_ms
    # Conductor sets no update time on a task that was never polled.
    is_untouched = row.status == TaskStatus.SCHEDULED and not row.poll_count
    task["taskId"] = ids.task(row.pk)
    task["referenceTaskName"] = row.ref
    task["status"] = row.status
    task["workflowInstanceId"] = ids.workflow(row.workflow)
    task["workflowType"] = owner.name
    task["workflowPriority"] = owner.priority
    task["inputData"] = msgspec.Raw(data.input)
    task["outputData"] = msgspec.Raw(data.output) if data.output else _EMPTY
    task["retryCount"] = row.retry_count
    task["seq"] = row.seq
    task["iteration"] = row.iteration
    task["pollCount"] = row.poll_count
    task["scheduledTime"] = row.scheduled_ms
    task["startTime"] = started_ms
    task["endTime"] = row.ended_ms
    task["updateTime"] = 0 if is_untouched else row.updated_ms
    task["startDelayInSeconds"] = row.start_delay_s
    task["callbackAfterSeconds"] = row.callback_after_s
    task["responseTimeoutSeconds"] = row.response_timeout_ms // 1000 if row.operator == "SIMPLE" else 0
    task["retried"] = bool(row.retried)
    task["executed"] = bool(row.executed)
    task["queueWaitTime"] = max(0, started_ms - row.scheduled_ms) if started_ms else 0
    task["loopOverTask"] = row.iteration > 0
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
    if row.step_count:
        task["suspended"] = row.suspended == 1 and row.lease_until_ms is None and row.ready_since_ms is None
    return task


def _make_delivery_fields(defined: SnapshotTask, operator: str) -> JsonObject:
    """Return all fields of a task. Those that differ between its executions are None, to be filled in by the caller."""
    is_simple, task_def = operator == "SIMPLE", defined.task_def
    workflow_task, task_definition = defined.raw
    defined.delivery_fields = {
        **dict.fromkeys(_FIELDS),
        "taskType": defined.polled_name if is_simple else _TASK_TYPES.get(operator, operator),
        "taskDefName": "SWITCH" if operator == "SWITCH" else task_def.name,
        "callbackFromWorker": True,
        "rateLimitPerFrequency": task_def.rate_limit_per_frequency,
        "rateLimitFrequencyInSeconds": task_def.rate_limit_frequency_in_seconds if is_simple else 0,
        "subworkflowChanged": False,
        "workflowTask": workflow_task,
        "taskDefinition": task_definition,
    }
    return defined.delivery_fields


class _SubWorkflowInput(msgspec.Struct, rename="camel"):
    sub_workflow_version: int | None = None


def read_started_version(task_input: bytes | msgspec.Raw) -> int | None:
    """Return the version of the registered workflow that a SUB_WORKFLOW task started, or None."""
    return msgspec.json.decode(task_input, type=_SubWorkflowInput).sub_workflow_version


def _add_started_version(workflow_task: msgspec.Raw, data: TaskData) -> msgspec.Raw:
    """Return the definition of a SUB_WORKFLOW task, with the version of the workflow that the task started."""
    version = read_started_version(data.input)
    task = msgspec.json.decode(workflow_task)
    parameters = task.get("subWorkflowParam") or {}
    if version is None or parameters.get("version") == version:
        return workflow_task
    return msgspec.Raw(msgspec.json.encode({**task, "subWorkflowParam": {**parameters, "version": version}}))
