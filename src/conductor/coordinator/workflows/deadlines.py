"""Tasks and workflows whose time is over: found by their rows, and dealt with by the rule that applies.

The rules of a single task's deadlines are in `tasks/task_queue.py`; the timer that calls here is in `core.py`.
"""

from __future__ import annotations

import logging
from functools import partial

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_queue import Expired, TaskQueue
from conductor.coordinator.workflows import workflow_actions
from conductor.coordinator.workflows.effects import timeout_at
from conductor.coordinator.workflows.executions import Executions

logger = logging.getLogger(__name__)


class Deadlines:
    """Acts on what is due."""

    def __init__(self, executions: Executions, queue: TaskQueue, snapshots: Snapshots) -> None:
        self._executions = executions
        self._queue = queue
        self._snapshots = snapshots

    def expire(self, tx: Tx, limit: int) -> None:
        """Act on every task and workflow whose time has come, `limit` of each."""
        if tx.now_ms < tx.live.nothing_due_before_ms:
            return
        moved: list[int] = []
        expired: list[Expired] = []
        due = [(found[1], found[0]) for found in tx.rows("due tasks", tx.now_ms, limit)]
        tx.live.load(tx, [workflow for workflow, _ in due])
        for workflow, task in due:
            # One task, one guard: `expired` is only told of what has really ended.
            step = partial(self._expire_task, task_pk=task, expired=expired)
            moved += self._executions.guarded(tx, workflow, step)
        for found in expired:
            moved += self.timed_out(tx, found)
        for (pk,) in tx.rows("due workflows", tx.now_ms, limit):
            moved += self._executions.guarded(tx, pk, self._expire_workflow)
        self._executions.advance(tx, moved)

    def _expire_task(self, tx: Tx, workflow: int, task_pk: int, expired: list[Expired]) -> list[int]:
        live = self._executions.live_workflow(tx, workflow)
        task = live.task(tx, task_pk)
        found = self._queue.expire(tx, live, task) if task is not None else None
        if found is None:
            return []
        expired.append(found)
        return [workflow]

    def timed_out(self, tx: Tx, expired: Expired) -> list[int]:
        """A task's time is over: where its policy says so, that ends its workflow."""
        if not expired.ends_workflow:
            return []
        return self._executions.guarded(tx, expired.workflow, lambda tx, _: self._time_out(tx, expired))

    def _time_out(self, tx: Tx, expired: Expired) -> list[int]:
        if self._executions.live_workflow(tx, expired.workflow).row.terminal:
            return [expired.workflow]
        task_id = tx.ids.task(expired.task) if expired.task else None
        return self._executions.act_on(
            tx, expired.workflow, workflow_actions.time_out, reason=expired.reason, task_id=task_id
        )

    def _expire_workflow(self, tx: Tx, pk: int) -> list[int]:
        row = self._executions.live_workflow(tx, pk).row
        definition = self._snapshots.get(tx, row.snapshot).definition
        overdue = tx.now_ms >= timeout_at(row, definition)
        if overdue and definition.get("timeoutPolicy") == "TIME_OUT_WF" and not row.terminal:
            reason = f"Workflow timed out after {definition['timeoutSeconds']} seconds"
            return self._time_out(tx, Expired(pk, 0, reason, ends_workflow=True))
        if overdue:
            logger.warning("workflow %s runs longer than its timeout", tx.ids.workflow(pk))
        return [pk]
