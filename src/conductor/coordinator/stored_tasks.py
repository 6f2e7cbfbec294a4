"""The tasks of a stored workflow as the decider sees them: read one by one, as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from conductor.coordinator.ids import Ids
from conductor.coordinator.store import Tx
from conductor.coordinator.task_row import WIDTH, TaskRow
from conductor.coordinator.workflow_state import TaskState

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class StoredTasks:
    """See `workflow_state.Tasks`. What was read is kept, so that a change can be told from what was."""

    def __init__(self, tx: Tx, workflow: int, last_task: int | None) -> None:
        self._tx = tx
        self._workflow = workflow
        self._last_task = last_task
        #: id → (row, state) as read
        self.read: dict[str, tuple[TaskRow, TaskState]] = {}
        self._moving: dict[str, TaskState] | None = None

    def latest(self, ref: str) -> TaskState | None:
        """The newest attempt under exactly this reference name."""
        # An attempt whose consequences are not drawn has no successor yet.
        moving = self._moving_by_ref().get(ref)
        return moving or self._keep(self._tx.row("latest task", self._workflow, ref))

    def newest(self, ref: str) -> TaskState | None:
        """The newest attempt of a task of the definition, whatever the round of its loop."""
        pk = self._tx.value("newest round", self._workflow, ref)
        return self.latest(ref) if pk is None else self._keep(self._tx.row("whole task", pk))

    def pending(self) -> list[TaskState]:
        """All whose consequences are not drawn yet."""
        return self._kept(self._tx.rows("pending tasks", self._workflow))

    def moving(self) -> list[TaskState]:
        """Those of them that no worker is still to do."""
        return list(self._moving_by_ref().values())

    def _moving_by_ref(self) -> dict[str, TaskState]:
        if self._moving is None:
            # A workflow without a last task has none at all.
            rows = [] if self._last_task is None else self._tx.rows("moving tasks", self._workflow)
            self._moving = {state.ref: state for state in self._kept(rows)}
        return self._moving

    def queued(self) -> Iterator[str]:
        """The reference names of those that wait for workers or are with them."""
        for ref, iteration in self._tx.each("queued tasks", self._workflow):
            yield ref.removesuffix(f"__{iteration}") if iteration else ref

    def last(self) -> TaskState | None:
        """The one that was scheduled last."""
        if self._last_task is None:
            return None
        self.moving()  # most often it is one of these
        kept = self.read.get(self._tx.ids.task(self._last_task))
        return kept[1] if kept is not None else self._keep(self._tx.row("whole task", self._last_task))

    def one(self, pk: int) -> TaskState:
        """One that is known to exist."""
        found = self._keep(self._tx.row("whole task", pk))
        if found is None:
            raise LookupError(f"task {pk} is not in the database")
        return found

    def all(self) -> list[TaskState]:
        """Every attempt, in order."""
        return self._kept(self._tx.rows("tasks of workflow with data", self._workflow))

    def _kept(self, rows: list[Any]) -> list[TaskState]:
        return [state for state in map(self._keep, rows) if state is not None]

    def _keep(self, found: Any | None) -> TaskState | None:
        if found is None:
            return None
        task_id = self._tx.ids.task(found[0])
        if task_id not in self.read:
            row = TaskRow._make(found[:WIDTH])
            self.read[task_id] = row, _state(self._tx.ids, task_id, row, *found[WIDTH:])
        return self.read[task_id][1]


def _state(
    ids: Ids, task_id: str, row: TaskRow, data: bytes, output: bytes | None, reason: str, name: str
) -> TaskState:
    return TaskState(
        task_id=task_id,
        ref=row.ref,
        type=row.kind,
        name=name,
        status=row.status,
        seq=row.seq,
        iteration=row.iteration,
        retry_count=row.retry_count,
        retried=bool(row.retried),
        retried_task_id=None if row.retried_task is None else ids.task(row.retried_task),
        executed=bool(row.executed),
        input=_decode(data),
        output=_decode(output) if output else {},
        reason=reason,
        scheduled_ms=row.scheduled_ms,
        first_scheduled_ms=row.first_scheduled_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        start_delay_ms=row.start_delay_s * 1000,
        wait_until_ms=row.due_ms if row.queue is None else None,
        sub_workflow_id=None if row.sub_workflow is None else ids.workflow(row.sub_workflow),
        worker_id=row.worker_id,
        poll_count=row.poll_count,
        callback_after_s=row.callback_after_s,
    )
