"""The tasks of a stored workflow as the decider reads them, decoded on first use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.row_cache import CachedTask, CachedWorkflow
from conductor.coordinator.store.statements import NEWEST_ITERATION, TASKS_OF_NAME
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows.state import RuntimeDefinition, TaskState

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_runtime_definition = msgspec.json.Decoder(RuntimeDefinition).decode


class StoredTasks:
    """Implements `state.Tasks` for a cached workflow."""

    def __init__(self, tx: Tx, workflow: CachedWorkflow) -> None:
        self._tx = tx
        self._workflow = workflow

    def latest(self, ref: str) -> TaskState | None:
        """Return the newest attempt with this reference name. Inside a loop, the name ends with the iteration."""
        task = self._workflow.latest(self._tx, ref)
        return None if task is None else self.state(task)

    def newest(self, ref: str) -> TaskState | None:
        """Return the newest attempt of a task of the definition, in any iteration of its loop."""
        pk = self._tx.first(NEWEST_ITERATION, workflow=self._workflow.row.pk, ref=ref)
        if pk is None:
            return self.latest(ref)
        task = self._workflow.task(self._tx, pk)
        return None if task is None else self.state(task)

    def named(self, ref: str) -> list[tuple[str, str]]:
        """Return (id, reference name) of all attempts under this name, in any iteration of a loop."""
        found = self._tx.rows(TASKS_OF_NAME, workflow=self._workflow.row.pk, ref=ref)
        return [(self._tx.ids.task(task.pk), task.ref) for task in found]

    def pending(self) -> list[TaskState]:
        """Return the tasks that the decider has not processed."""
        return [self.state(task) for task in self._workflow.pending()]

    def ready(self) -> list[TaskState]:
        """Return the pending tasks that wait neither for a worker nor for a sub-workflow."""
        return [self.state(task) for task in self._workflow.ready.values()]

    def queued(self) -> Iterator[str]:
        """Return the reference names of tasks that wait for a worker or a sub-workflow."""
        return (task.row.ref for task in self._workflow.queued.values())

    def has_queued(self) -> bool:
        """Return whether a task waits for a worker or a sub-workflow."""
        return bool(self._workflow.queued)

    def last(self) -> TaskState | None:
        """Return the task that was scheduled last."""
        last = self._workflow.row.last_task
        task = None if last is None else self._workflow.task(self._tx, last)
        return None if task is None else self.state(task)

    def all(self) -> list[TaskState]:
        """Return every attempt, in the order of scheduling."""
        return [self.state(task) for task in self._workflow.all_tasks(self._tx)]

    def state(self, task: CachedTask) -> TaskState:
        """Return one task as the decider reads it."""
        if task.state is None:
            task.state = _decode_task(self._tx.ids, task)
        return task.state  # type: ignore[no-any-return]


def _decode_task(ids: Ids, task: CachedTask) -> TaskState:
    row, data = task.row, task.data
    given = _decode(data.input)
    return TaskState(
        task_id=ids.task(row.pk),
        ref=row.ref,
        type=row.operator,
        name=task.name,
        status=row.status,
        seq=row.seq,
        iteration=row.iteration,
        retry_count=row.retry_count,
        retried=bool(row.retried),
        retried_task_id=None if row.retried_task is None else ids.task(row.retried_task),
        executed=bool(row.executed),
        input=given,
        output=_decode(data.output) if data.output else {},
        reason=data.reason,
        scheduled_ms=row.scheduled_ms,
        first_scheduled_ms=row.first_scheduled_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        start_delay_ms=row.start_delay_s * 1000,
        wait_until_ms=row.due_at_ms if row.queue is None else None,
        sub_workflow_id=None if row.sub_workflow is None else ids.workflow(row.sub_workflow),
        queued=row.queue is not None,
        worker_id=row.worker_id,
        poll_count=row.poll_count,
        callback_after_s=row.callback_after_s,
        own=None if data.definition is None else _decode_runtime_definition(data.definition),
        joins=frozenset(given.get("joinOn", ())) if row.operator == "JOIN" else frozenset(),
    )
