"""Finding rows by id or key, and removing them."""

from __future__ import annotations

from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.rows import TaskRow, WorkflowData, WorkflowRow
from conductor.coordinator.store.transaction import Tx


def find_workflow(tx: Tx, workflow_id: str) -> WorkflowRow:
    """The row behind a public id; 404 otherwise."""
    found = tx.row("workflow", tx.ids.workflow_pk(workflow_id) or 0)
    if found is None:
        raise not_found(f"No such workflow found by id: {workflow_id}")
    return WorkflowRow(*found)


def get_workflow(tx: Tx, workflow: int) -> WorkflowRow:
    """The row of a workflow that is known to exist."""
    return find_workflow(tx, tx.ids.workflow(workflow))


def workflow_data(tx: Tx, workflow: int) -> WorkflowData:
    """The payload of a workflow that is known to exist."""
    return WorkflowData(*(tx.row("workflow data", workflow) or ()))


def get_task(tx: Tx, task: int | None) -> TaskRow | None:
    """The row of a task, unless it was removed."""
    found = None if task is None else tx.row("task", task)
    return None if found is None else TaskRow(*found)


def open_tasks(tx: Tx, workflow: int) -> list[TaskRow]:
    """The tasks of a workflow that are not over."""
    return [TaskRow(*row) for row in tx.rows("open tasks of workflow", workflow)]


def remove_task(tx: Tx, task: int) -> None:
    """Forget a task and all that belongs to it."""
    tx.run("remove task", task)
    tx.run("remove task data", task)
    tx.run("remove task logs", tx.ids.task(task))


def remove_workflow(tx: Tx, workflow: int) -> None:
    """Forget a workflow, its tasks and their logs, and its definition if nobody else runs on it."""
    snapshot = tx.value("snapshot of workflow", workflow)
    for (task,) in tx.rows("keys of tasks", workflow):
        remove_task(tx, task)
    tx.run("remove workflow data", workflow)
    tx.run("remove workflow", workflow)
    if tx.change("remove snapshot", {"pk": snapshot}):
        tx.live.forget_facts()
    tx.live.forget(workflow)
