"""The tasks of a stored workflow as the decider sees them: made as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.row_cache import LiveTask, LiveWorkflow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows.state import Own, TaskState

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_own = msgspec.json.Decoder(Own).decode


class StoredTasks:
    """See `state.Tasks`."""

    def __init__(self, tx: Tx, live: LiveWorkflow) -> None:
        self._tx = tx
        self._live = live

    def latest(self, ref: str) -> TaskState | None:
        """The newest attempt under exactly this reference name."""
        return self._seen(self._live.latest(self._tx, ref))

    def newest(self, ref: str) -> TaskState | None:
        """The newest attempt of a task of the definition, whatever the round of its loop."""
        rounds = self._tx.matching("newest round", {"workflow": self._live.row.pk, "ref": ref})
        pk = rounds[0][0]
        return self.latest(ref) if pk is None else self._seen(self._live.task(self._tx, pk))

    def named(self, ref: str) -> list[tuple[str, str]]:
        """Return (id, reference name) of all attempts under this name, and in rounds of a loop under it."""
        found = self._tx.matching("tasks of name", {"workflow": self._live.row.pk, "ref": ref})
        return [(self._tx.ids.task(pk), name) for pk, name in found]

    def pending(self) -> list[TaskState]:
        """All whose consequences are not drawn yet."""
        return [self.state_of(task) for task in self._live.pending()]

    def moving(self) -> list[TaskState]:
        """Those of them that no worker is still to do."""
        return [task.state or self.state_of(task) for task in self._live.moving.values()]

    def queued(self) -> Iterator[str]:
        """The reference names of those that wait for workers, are with them, or wait for their sub-workflows."""
        return (task.row.ref for task in self._live.queued.values())

    def waits(self) -> bool:
        """Whether there is one of these."""
        return bool(self._live.queued)

    def last(self) -> TaskState | None:
        """The one that was scheduled last."""
        last = self._live.row.last_task
        task = None if last is None else self._live.task(self._tx, last)
        return None if task is None else task.state or self.state_of(task)

    def all(self) -> list[TaskState]:
        """Every attempt, in order."""
        return [self.state_of(task) for task in self._live.all(self._tx)]

    def state_of(self, task: LiveTask) -> TaskState:
        """One of them."""
        if task.state is None:
            task.state = _state(self._tx.ids, task)
        return task.state  # type: ignore[no-any-return]

    def _seen(self, task: LiveTask | None) -> TaskState | None:
        return None if task is None else self.state_of(task)


def _state(ids: Ids, task: LiveTask) -> TaskState:
    row, data = task.row, task.data
    # A call with more than fifteen names takes five times as long, so what few tasks have comes in a second one.
    state = TaskState(
        task_id=ids.task(row.pk),
        ref=row.ref,
        type=row.operator,
        name=task.name,
        status=row.status,
        seq=row.seq,
        retry_count=row.retry_count,
        input=_decode(data.input),
        output=_decode(data.output) if data.output else {},
        scheduled_ms=row.scheduled_ms,
        first_scheduled_ms=row.first_scheduled_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        worker_id=row.worker_id,
        poll_count=row.poll_count,
    )
    rare = (
        row.iteration, row.retried, row.executed, row.start_delay_s, row.callback_after_s, row.operator == "JOIN",
        row.retried_task, row.due_at_ms, row.sub_workflow, data.reason, data.definition,
    )  # fmt: skip
    if not any(rare):
        return state if row.queue is None else replace(state, queued=True)
    return replace(
        state,
        queued=row.queue is not None,
        iteration=row.iteration,
        retried=bool(row.retried),
        retried_task_id=None if row.retried_task is None else ids.task(row.retried_task),
        executed=bool(row.executed),
        reason=data.reason,
        start_delay_ms=row.start_delay_s * 1000,
        wait_until_ms=row.due_at_ms if row.queue is None else None,
        sub_workflow_id=None if row.sub_workflow is None else ids.workflow(row.sub_workflow),
        callback_after_s=row.callback_after_s,
        own=None if data.definition is None else _decode_own(data.definition),
        joins=frozenset(state.input.get("joinOn", ())) if row.operator == "JOIN" else frozenset(),
    )
