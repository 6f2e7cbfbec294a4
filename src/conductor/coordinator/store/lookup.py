"""Finds rows by id or key, and removes them."""

from __future__ import annotations

from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.rows import TaskRow, WorkflowData, WorkflowRow
from conductor.coordinator.store.statements import (
    KEEP_AUDIT_OF_START,
    KEYS_OF_TASKS,
    OPEN_TASKS_OF_WORKFLOW,
    REMOVE_MESSAGES,
    REMOVE_SNAPSHOT,
    REMOVE_STEPS,
    REMOVE_STEPS_OF_WORKFLOW,
    REMOVE_TASK,
    REMOVE_TASK_DATA,
    REMOVE_TASK_LOGS,
    REMOVE_WORKFLOW,
    REMOVE_WORKFLOW_DATA,
    SNAPSHOT_OF_WORKFLOW,
    TASK,
    WORKFLOW,
    WORKFLOW_DATA,
)
from conductor.coordinator.store.transaction import Tx


def find_workflow(tx: Tx, workflow_id: str) -> WorkflowRow:
    """Return the row of a workflow, or raise an ApiError with status 404."""
    found = tx.first(WORKFLOW, tx.ids.workflow_pk(workflow_id) or 0)
    if found is None:
        raise not_found(f"No such workflow found by id: {workflow_id}")
    return found


def get_workflow(tx: Tx, workflow: int) -> WorkflowRow:
    """Return the row of a workflow that is known to exist."""
    return find_workflow(tx, tx.ids.workflow(workflow))


def workflow_data(tx: Tx, workflow: int) -> WorkflowData:
    """Return the payload of a workflow that is known to exist."""
    found = tx.first(WORKFLOW_DATA, workflow)
    if found is None:
        raise LookupError(f"workflow {workflow} is not in the database")
    return found


def get_task(tx: Tx, task: int | None) -> TaskRow | None:
    """Return the row of a task; None if the task was removed."""
    return None if task is None else tx.first(TASK, task)


def open_tasks(tx: Tx, workflow: int) -> list[TaskRow]:
    """Return the open tasks of a workflow."""
    return tx.rows(OPEN_TASKS_OF_WORKFLOW, workflow)


def remove_task(tx: Tx, task: int) -> None:
    """Remove an attempt, its payload and its logs.

    The durable steps of all attempts are stored under the attempt that recorded the first one, and are removed with it.
    """
    tx.run(REMOVE_STEPS, task)
    _remove_task_rows(tx, task)


def _remove_task_rows(tx: Tx, task: int) -> None:
    tx.run(REMOVE_TASK, task)
    tx.run(REMOVE_TASK_DATA, task)
    tx.run(REMOVE_TASK_LOGS, tx.ids.task(task))


def remove_workflow(tx: Tx, workflow: int) -> None:
    """Remove a workflow with its tasks and messages, and its snapshot if no other workflow uses it."""
    snapshot = tx.first(SNAPSHOT_OF_WORKFLOW, workflow)
    tx.run(REMOVE_STEPS_OF_WORKFLOW, workflow)
    for task in tx.rows(KEYS_OF_TASKS, workflow):
        _remove_task_rows(tx, task)
    tx.run(REMOVE_MESSAGES, workflow)
    tx.run(KEEP_AUDIT_OF_START, workflow)
    tx.run(REMOVE_WORKFLOW_DATA, workflow)
    tx.run(REMOVE_WORKFLOW, workflow)
    if tx.run(REMOVE_SNAPSHOT, pk=snapshot):
        tx.lookups.clear()
    tx.cache.drop(workflow)
