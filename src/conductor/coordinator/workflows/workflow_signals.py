"""Workflows that wait for a signal: the task it goes to, and what those who wait for such a workflow are told."""

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


def family(tx: Tx, workflow: int) -> Iterator[int]:
    """A workflow and the sub-workflows it waits for, in the order of their tasks."""
    left = [workflow]
    while left:
        yield (member := left.pop())
        children = [row.sub_workflow for row in open_tasks(tx, member) if row.sub_workflow is not None]
        left += reversed(children)


def find_open_task(tx: Tx, workflow_id: str, ref: str) -> TaskRow | None:
    """The open task of a workflow that has this reference name, in whatever round of a loop."""
    rows = open_tasks(tx, tx.ids.workflow_pk(workflow_id) or 0)
    return next((row for row in rows if row.ref == ref or (row.iteration and ref in strip_iterations(row.ref))), None)


def open_waits(tx: Tx, workflow: int) -> Iterator[TaskRow]:
    """The WAITs that a signal can end, also those of sub-workflows."""
    for member in family(tx, workflow):
        yield from (row for row in open_tasks(tx, member) if row.operator == "WAIT")


def blocking(tx: Tx, workflow: int) -> TaskRow | None:
    """The WAIT that only a signal ends: nothing happens before it comes."""
    return next((row for row in open_waits(tx, workflow) if row.due_at_ms is None), None)


def response(tx: Tx, snapshots: Snapshots, workflow_id: str, strategy: ReturnStrategy) -> dict[str, Any]:
    """The workflow, or what holds it up if that is asked for and there is something."""
    target = find_workflow(tx, workflow_id)
    held_up_by = blocking(tx, target.pk) if strategy != "TARGET_WORKFLOW" else None
    if held_up_by is None:
        strategy, found = "TARGET_WORKFLOW", workflow_views.read_whole_workflow(tx, snapshots, target, with_tasks=True)
    elif strategy == "BLOCKING_WORKFLOW":
        found = workflow_views.read_whole_workflow(
            tx, snapshots, get_workflow(tx, held_up_by.workflow), with_tasks=True
        )
    else:
        found = _task(task_views.read_task(tx, snapshots, tx.ids.task(held_up_by.pk)))
    return found | {
        "responseType": strategy,
        "targetWorkflowId": workflow_id,
        "targetWorkflowStatus": target.status,
    }


def _task(task: dict[str, Any]) -> dict[str, Any]:
    """A task in the words of this answer."""
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
