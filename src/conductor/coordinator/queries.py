"""Reading: tasks, workflows and queues as clients see them. Runs beside the writer."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.definitions import Snapshots
from conductor.coordinator.errors import not_found
from conductor.coordinator.executions import find_workflow, get_task, get_workflow
from conductor.coordinator.store import Tx
from conductor.coordinator.task_row import WIDTH, TaskData, TaskOwner, TaskRow, task_json
from conductor.coordinator.workflow_row import WorkflowData, WorkflowRow, raw, workflow_json


def task(tx: Tx, snapshots: Snapshots, task_id: str) -> dict[str, Any]:
    """One task; 404 if unknown."""
    found = tx.row("whole task", tx.ids.task_pk(task_id) or 0)
    if found is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    workflow = get_workflow(tx, found[1])
    return _task(tx, found, _owner(tx, snapshots, workflow))


def _owner(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> TaskOwner:
    return TaskOwner(row.name, snapshots.get(tx, row.snapshot), row.correlation_id, row.priority)


def _task(tx: Tx, found: Any, owner: TaskOwner) -> dict[str, Any]:
    row = TaskRow._make(found[:WIDTH])
    queue = tx.row("queue of", row.queue)
    return task_json(tx.ids, row, TaskData._make(found[WIDTH : WIDTH + 3]), owner, queue[1] if queue else "")


def workflow(tx: Tx, snapshots: Snapshots, workflow_id: str, *, with_tasks: bool) -> dict[str, Any]:
    """One workflow; 404 if unknown."""
    return whole_workflow(tx, snapshots, find_workflow(tx, workflow_id), with_tasks=with_tasks)


def whole_workflow(tx: Tx, snapshots: Snapshots, row: WorkflowRow, *, with_tasks: bool) -> dict[str, Any]:
    """A workflow with its definition and, if asked, its tasks."""
    data = workflow_data(tx, row.pk)
    found = workflow_json(tx.ids, row, data)
    found["workflowDefinition"] = snapshots.get(tx, row.snapshot).wire()
    # A parent may have been removed before its child.
    parent = get_task(tx, row.parent_task)
    if parent is not None:
        found["parentWorkflowId"] = tx.ids.workflow(parent.workflow)
        found["parentWorkflowTaskId"] = tx.ids.task(parent.pk)
    failed = tx.rows("failed tasks", row.pk, data.failed_task)
    found["failedReferenceTaskNames"] = list(dict.fromkeys(ref for ref, _ in failed))
    found["failedTaskNames"] = list(dict.fromkeys(name for _, name in failed))
    if with_tasks:
        found["tasks"] = tasks(tx, snapshots, row)
    return found


def tasks(tx: Tx, snapshots: Snapshots, row: WorkflowRow) -> list[dict[str, Any]]:
    """Every attempt of a workflow, in order."""
    owner = _owner(tx, snapshots, row)
    return [_task(tx, found, owner) for found in tx.rows("tasks of workflow with data", row.pk)]


def workflow_data(tx: Tx, pk: int) -> WorkflowData:
    """The payload of a workflow that is known to exist."""
    return WorkflowData._make(tx.row("workflow data", pk) or ())


def workflow_status(tx: Tx, workflow_id: str, *, output: bool, variables: bool) -> dict[str, Any]:
    """The short form of a workflow."""
    row = find_workflow(tx, workflow_id)
    data = workflow_data(tx, row.pk)
    status: dict[str, Any] = {"workflowId": workflow_id, "status": row.status}
    if row.correlation_id is not None:
        status["correlationId"] = row.correlation_id
    if output:
        status["output"] = raw(data.output)
    if variables:
        status["variables"] = raw(data.variables)
    return status


def has_ended(tx: Tx, workflow: int, ref: str) -> bool:
    """Whether the newest attempt at a task is over."""
    found = tx.row("latest task", workflow, ref)
    return found is not None and TaskRow._make(found[:WIDTH]).terminal


def queue_size(tx: Tx, task_type: str, domain: str) -> int:
    """Tasks waiting in a queue, those with a delay included."""
    limits = tx.row("task type limits", task_type)
    queue = tx.value("queue", limits[0], domain) if limits else None
    return _size(tx, queue) if queue is not None else 0


def _size(tx: Tx, queue: int) -> int:
    return int(tx.value("queue size", queue) or 0) + int(tx.value("queue delayed", queue) or 0)


def all_queues(tx: Tx) -> dict[str, int]:
    """Every queue and its size."""
    return {_queue_name(name, domain): _size(tx, queue) for name, domain, queue, _ in tx.rows("all queues")}


def all_queues_verbose(tx: Tx) -> dict[str, Any]:
    """Every queue with its shard, of which there is one."""
    return {
        _queue_name(name, domain): {"a": {"size": _size(tx, queue), "uacked": 0}}
        for name, domain, queue, _ in tx.rows("all queues")
    }


def _queue_name(name: str, domain: str) -> str:
    return f"{domain}:{name}" if domain else name


def decoded(rows: list[Any]) -> list[Any]:
    """Stored JSON, one document per row."""
    return [msgspec.json.decode(row[0]) for row in rows]
