"""Reads from the rows why a task or workflow waits. `conductor.protocol.why_waiting` makes the sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.lookup import find_workflow, get_task, get_workflow, open_tasks, workflow_data
from conductor.coordinator.store.rows import TaskRow, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.why_waiting import (
    UNPOLLED_MS,
    QueueFacts,
    TaskFacts,
    TurnFacts,
    Waiting,
    why_task,
    why_workflow,
)
from conductor.protocol.wire import PROCESS_DEATH

#: The open tasks of a workflow that are looked at: beyond, they only say the same again.
MAX_TASKS = 200


class Polled(NamedTuple):
    """Who polls one queue."""

    worker_id: str | None
    at_ms: int
    #: Polls that are parked there now.
    parked: int = 0


class Polls(NamedTuple):
    """Who polls, for every queue that was polled: in memory only, so it is known since the process started."""

    by_queue: Mapping[tuple[str, str], Polled]
    known_since_ms: int


class Facts:
    """Facts of tasks and queues, each queue looked at once."""

    def __init__(self, tx: Tx, snapshots: Snapshots, polls: Polls) -> None:
        self._tx = tx
        self._snapshots = snapshots
        self._polls = polls
        self._queues: dict[int, QueueFacts | None] = {}

    def task(self, workflow: WorkflowRow, row: TaskRow) -> TaskFacts:
        """What is known of one task."""
        return TaskFacts(
            ref=row.ref,
            type=row.operator,
            status=row.status,
            task_id=self._tx.ids.task(row.pk),
            workflow_status=workflow.status,
            retry_count=row.retry_count,
            retry_limit=self._retry_limit(workflow, row),
            reason=self._reason(row),
            worker_id=row.worker_id,
            started_ms=row.started_ms or None,
            lease_until_ms=row.lease_until_ms,
            heard_ms=row.updated_ms or None if row.lease_until_ms is not None else None,
            due_at_ms=row.due_at_ms,
            ready_since_ms=row.ready_since_ms,
            handed_back=bool(row.poll_count and row.callback_after_s),
            waits_for=[] if row.terminal else self._waits_for(workflow, row),
            round=row.iteration if row.operator == "DO_WHILE" else 0,
            sub_workflow_id=None if row.sub_workflow is None else self._tx.ids.workflow(row.sub_workflow),
            sub_workflow_status=self._status(row.sub_workflow),
            queue=None if row.queue is None or row.terminal else self.queue(row.queue),
        )

    def turn(self, workflow: WorkflowRow) -> TurnFacts | None:
        """The line that a workflow waits in; None if it waits in none."""
        found = self._tx.row("turn", workflow.pk)
        if found is None or found[2] is None:
            return None
        name, key, place, _ = found
        config = self._snapshots.get(self._tx, workflow.snapshot).definition.get("rateLimitConfig") or {}
        running, before = self._tx.rows("line of turn", place, name, key)[0]
        return TurnFacts(
            name=name, key=key, limit=config.get("concurrentExecLimit") or 0, running=running, before=before or 0
        )

    def queue(self, queue: int) -> QueueFacts | None:
        """What is known of one queue."""
        if queue not in self._queues:
            found = self._tx.row("queue with limits", queue)
            self._queues[queue] = None if found is None else self._queue(found)
        return self._queues[queue]

    def _queue(self, found: Any) -> QueueFacts:
        pk, name, domain, type_pk, concurrent, rate, window_ms = found
        return queue_facts(
            self._polls,
            self._tx.now_ms,
            name=name,
            domain=domain,
            ready=int(self._tx.value("queue size", pk) or 0),
            in_hand=int(self._tx.value("leased of queue", type_pk, pk) or 0),
            concurrent_limit=concurrent or 0,
            in_progress=int(self._tx.value("in progress of type", type_pk) or 0) if concurrent else 0,
            rate_limit=rate or 0,
            rate_window_ms=window_ms or 0,
            rate_opens_ms=rate_opens_ms(self._tx, type_pk, rate, window_ms) if rate else None,
        )

    def _retry_limit(self, workflow: WorkflowRow, row: TaskRow) -> int:
        if row.operator != "SIMPLE":
            return 0
        snapshot = self._snapshots.get(self._tx, workflow.snapshot)
        defined = snapshot.task(row.ref)
        own = defined.task.get("retryCount")
        return int(own if own is not None else defined.task_def.retry_count)

    def _reason(self, row: TaskRow) -> str | None:
        """Why it ended; of an attempt that is still to come, why it was given back, or why the one before ended."""
        own = self._tx.row("task data", row.pk) if row.terminal or row.poll_count else None
        if row.terminal or (own is not None and (own[2] or "").startswith(PROCESS_DEATH)):
            return None if own is None else own[2]
        before = None if row.retried_task is None else self._tx.row("task data", row.retried_task)
        return None if before is None else before[2]

    def _status(self, workflow: int | None) -> str | None:
        found = None if workflow is None else self._tx.row("workflow", workflow)
        return None if found is None else WorkflowRow(*found).status

    def _waits_for(self, workflow: WorkflowRow, row: TaskRow) -> list[str]:
        if row.operator in ("JOIN", "EXCLUSIVE_JOIN"):
            return list(self._unjoined(workflow, row))
        if row.operator == "DO_WHILE":
            suffix = f"__{row.iteration}"
            return [task.ref for task in open_tasks(self._tx, workflow.pk) if task.ref.endswith(suffix)]
        return []

    def _unjoined(self, workflow: WorkflowRow, row: TaskRow) -> Iterator[str]:
        data = self._tx.row("task data", row.pk)
        given = msgspec.json.decode(data[0]) if data else {}
        ended = {ref for (ref,) in self._tx.rows("refs of ended tasks", workflow.pk)}
        for ref in given.get("joinOn") or ():
            in_round = f"{ref}__{row.iteration}" if row.iteration else ref
            if in_round not in ended:
                yield in_round


def queue_facts(polls: Polls, now_ms: int, *, name: str, domain: str, **known: Any) -> QueueFacts:
    """The facts of a queue, with who polls it and its siblings in other domains."""
    polled = polls.by_queue.get((name, domain))
    others = [
        other
        for (other_name, other), last in polls.by_queue.items()
        if other_name == name and other != domain and (last.parked or now_ms - last.at_ms <= UNPOLLED_MS)
    ]
    return QueueFacts(
        name=name,
        domain=domain,
        of_server=is_of_server(domain),
        parked=0 if polled is None else polled.parked,
        last_poll_ms=None if polled is None else polled.at_ms,
        last_worker=None if polled is None else polled.worker_id,
        polls_known_since_ms=polls.known_since_ms,
        polled_domains=others,
        **known,
    )


def is_of_server(domain: str) -> bool:
    """Whether the coordinator's own workers take from queues of this domain: no client can name one like it."""
    return domain.startswith(" ")


def rate_opens_ms(tx: Tx, type_pk: int, rate: int, window_ms: int) -> int | None:
    """When the next task of a rate-limited type may start; None: now."""
    starts = [at for (at,) in tx.rows("rate starts since", type_pk, tx.now_ms - window_ms)]
    return starts[len(starts) - rate] + window_ms if len(starts) >= rate else None


def why_task_waits(tx: Tx, snapshots: Snapshots, polls: Polls, task_id: str) -> Waiting:
    """Why a task waits, or how it ended; 404 if unknown."""
    row = get_task(tx, tx.ids.task_pk(task_id))
    if row is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    return why_task(Facts(tx, snapshots, polls).task(get_workflow(tx, row.workflow), row), tx.now_ms)


def why_workflow_waits(tx: Tx, snapshots: Snapshots, polls: Polls, workflow_id: str) -> Waiting:
    """Why a workflow waits, or how it ended; 404 if unknown."""
    return why(tx, Facts(tx, snapshots, polls), find_workflow(tx, workflow_id))


def why(tx: Tx, facts: Facts, workflow: WorkflowRow) -> Waiting:
    """The same for a row."""
    if workflow.terminal:
        failed = tx.row("last failed task", workflow.pk) if workflow.status != "COMPLETED" else None
        said = [] if failed is None else [facts.task(workflow, TaskRow(*failed))]
        return why_workflow(workflow.status, said, tx.now_ms, workflow_data(tx, workflow.pk).reason)
    rows = open_tasks(tx, workflow.pk)[:MAX_TASKS]
    turn = None if rows else facts.turn(workflow)
    return why_workflow(workflow.status, [facts.task(workflow, row) for row in rows], tx.now_ms, turn=turn)
