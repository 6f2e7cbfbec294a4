"""Finds the WAIT task that a signal completes, and makes the response to the signal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.definitions.workflow_plan import strip_iterations
from conductor.coordinator.store.lookup import find_workflow, get_workflow, open_tasks
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import task_views, workflow_views

ReturnStrategy = Literal["TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT"]


def list_family(tx: Tx, workflow: int) -> Iterator[int]:
    """Yield a workflow and the sub-workflows that it waits for, in the order of their tasks."""
    left = [workflow]
    while left:
        yield (member := left.pop())
        children = [row.sub_workflow for row in open_tasks(tx, member) if row.sub_workflow is not None]
        left += reversed(children)


def find_open_task(tx: Tx, workflow_id: str, ref: str) -> TaskRow | None:
    """Return the open task with this reference name, in any iteration of a loop."""
    rows = open_tasks(tx, tx.ids.workflow_pk(workflow_id) or 0)
    return next((row for row in rows if row.ref == ref or (row.iteration and ref in strip_iterations(row.ref))), None)


def find_open_waits(tx: Tx, workflow: int) -> Iterator[TaskRow]:
    """Yield the WAIT tasks that a signal can complete, including those of sub-workflows."""
    for member in list_family(tx, workflow):
        yield from (row for row in open_tasks(tx, member) if row.operator == "WAIT")


def find_blocking_wait(tx: Tx, workflow: int) -> TaskRow | None:
    """Return the first WAIT task that only a signal can complete, or None."""
    return next((row for row in find_open_waits(tx, workflow) if row.due_at_ms is None), None)


def make_response(tx: Tx, snapshots: Snapshots, workflow_id: str, strategy: ReturnStrategy) -> dict[str, Any]:
    """Return the response to a signal: the workflow or, depending on `strategy`, the task or workflow it waits for."""
    target = find_workflow(tx, workflow_id)
    blocking_task = find_blocking_wait(tx, target.pk) if strategy != "TARGET_WORKFLOW" else None
    if blocking_task is None:
        strategy, found = "TARGET_WORKFLOW", workflow_views.read_whole_workflow(tx, snapshots, target, with_tasks=True)
    elif strategy == "BLOCKING_WORKFLOW":
        found = workflow_views.read_whole_workflow(
            tx, snapshots, get_workflow(tx, blocking_task.workflow), with_tasks=True
        )
    else:
        found = _make_response_task(task_views.read_task(tx, snapshots, tx.ids.task(blocking_task.pk)))
    return found | {
        "responseType": strategy,
        "targetWorkflowId": workflow_id,
        "targetWorkflowStatus": target.status,
    }


def _make_response_task(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task with the field names that the response to a signal has."""
    kept = ("taskType", "taskId", "referenceTaskName", "retryCount", "taskDefName", "workflowType", "correlationId")
    return {name: task[name] for name in kept if name in task} | {
        "workflowId": task["workflowInstanceId"],
        "status": task["status"],
        "input": task["inputData"],
        "output": task["outputData"],
        "priority": task["workflowPriority"],
        "createTime": task["scheduledTime"],
        "updateTime": task["updateTime"],
    }
