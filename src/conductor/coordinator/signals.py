"""Workflows that wait for a signal: the task it goes to, and what who waits for such a workflow is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from conductor.coordinator import queries
from conductor.coordinator.definitions import Snapshots
from conductor.coordinator.executions import find_workflow, get_workflow
from conductor.coordinator.store import Tx
from conductor.coordinator.task_row import TaskRow

ReturnStrategy = Literal["TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT"]


def family(tx: Tx, workflow: int) -> Iterator[int]:
    """A workflow and the sub-workflows it waits for, in the order of their tasks."""
    left = [workflow]
    while left:
        yield (member := left.pop())
        children = [row.sub_workflow for row in open_tasks(tx, member) if row.sub_workflow is not None]
        left += reversed(children)


def open_tasks(tx: Tx, workflow: int) -> list[TaskRow]:
    """The tasks of a workflow that are not over."""
    return [TaskRow._make(row) for row in tx.rows("open tasks of workflow", workflow)]


def open_waits(tx: Tx, workflow: int) -> Iterator[TaskRow]:
    """The WAITs that a signal can end, also those of sub-workflows."""
    for member in family(tx, workflow):
        yield from (row for row in open_tasks(tx, member) if row.kind == "WAIT")


def blocking(tx: Tx, workflow: int) -> TaskRow | None:
    """The WAIT that only a signal ends: nothing happens before it comes."""
    return next((row for row in open_waits(tx, workflow) if row.due_ms is None), None)


def response(tx: Tx, snapshots: Snapshots, workflow_id: str, strategy: ReturnStrategy) -> dict[str, Any]:
    """The workflow, or what holds it up if that is asked for and there is something."""
    target = find_workflow(tx, workflow_id)
    held_up_by = blocking(tx, target.pk) if strategy != "TARGET_WORKFLOW" else None
    if held_up_by is None:
        strategy, found = "TARGET_WORKFLOW", queries.whole_workflow(tx, snapshots, target, with_tasks=True)
    elif strategy == "BLOCKING_WORKFLOW":
        found = queries.whole_workflow(tx, snapshots, get_workflow(tx, held_up_by.workflow), with_tasks=True)
    else:
        found = _task(queries.task(tx, snapshots, tx.ids.task(held_up_by.pk)))
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
