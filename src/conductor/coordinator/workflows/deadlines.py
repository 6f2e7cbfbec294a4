"""Applies the deadlines of tasks and workflows that have passed.

The deadlines of a single task are in `tasks/task_queue.py`. The timer in `core.py` calls this module.
"""

from __future__ import annotations

import logging
from functools import partial

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.statements import DUE_TASKS, DUE_WORKFLOWS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_queue import ExpiredTask, TaskQueue
from conductor.coordinator.workflows import workflow_actions
from conductor.coordinator.workflows.effects import timeout_at
from conductor.coordinator.workflows.executions import Executions

logger = logging.getLogger(__name__)


class Deadlines:
    """Applies passed deadlines."""

    def __init__(self, executions: Executions, queue: TaskQueue, snapshots: Snapshots) -> None:
        self._executions = executions
        self._queue = queue
        self._snapshots = snapshots

    def apply(self, tx: Tx, limit: int) -> None:
        """Apply the passed deadlines of at most `limit` tasks and `limit` workflows."""
        if tx.now_ms < tx.cache.nothing_due_before_ms:
            return
        moved: list[int] = []
        expired: list[ExpiredTask] = []
        due = tx.rows(DUE_TASKS, tx.now_ms, limit)
        tx.cache.load(tx, [row.workflow for row in due])
        for row in due:
            # Guard each task separately, so that a failure in one task undoes only the changes of this task.
            step = partial(self._expire_task, task_pk=row.pk, expired=expired)
            moved += self._executions.run_guarded(tx, row.workflow, step)
        for found in expired:
            moved += self.apply_timeout(tx, found)
        for pk in tx.rows(DUE_WORKFLOWS, tx.now_ms, limit):
            moved += self._executions.run_guarded(tx, pk, self._expire_workflow)
        self._executions.advance(tx, moved)

    def _expire_task(self, tx: Tx, workflow: int, task_pk: int, expired: list[ExpiredTask]) -> list[int]:
        cached = self._executions.get_cached(tx, workflow)
        task = cached.task(tx, task_pk)
        found = self._queue.apply_deadlines(tx, cached, task) if task is not None else None
        if found is None:
            return []
        expired.append(found)
        return [workflow]

    def apply_timeout(self, tx: Tx, expired: ExpiredTask) -> list[int]:
        """End the workflow of a task that has timed out, if the timeout policy of the task is TIME_OUT_WF.

        Return the workflows that must be decided because of it.
        """
        if not expired.ends_workflow:
            return []
        return self._executions.run_guarded(tx, expired.workflow, lambda tx, _: self._time_out(tx, expired))

    def _time_out(self, tx: Tx, expired: ExpiredTask) -> list[int]:
        if self._executions.get_cached(tx, expired.workflow).row.terminal:
            return [expired.workflow]
        task_id = tx.ids.task(expired.task) if expired.task else None
        return self._executions.act_on(
            tx, expired.workflow, workflow_actions.time_out, reason=expired.reason, task_id=task_id
        )

    def _expire_workflow(self, tx: Tx, pk: int) -> list[int]:
        row = self._executions.get_cached(tx, pk).row
        definition = self._snapshots.get(tx, row.snapshot).definition
        overdue = tx.now_ms >= timeout_at(row, definition)
        if overdue and definition.get("timeoutPolicy") == "TIME_OUT_WF" and not row.terminal:
            reason = f"Workflow timed out after {definition['timeoutSeconds']} seconds"
            return self._time_out(tx, ExpiredTask(pk, 0, reason, ends_workflow=True))
        if overdue:
            logger.warning("Workflow runs longer than its timeout: workflow_id=%s", tx.ids.workflow(pk))
        return [pk]
