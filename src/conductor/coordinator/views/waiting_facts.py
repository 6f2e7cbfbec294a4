"""Reads why a task or workflow waits; `conductor.protocol.why_waiting` makes a sentence of these facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.lookup import find_workflow, get_task, get_workflow, open_tasks, workflow_data
from conductor.coordinator.store.rows import TaskRow, WorkflowRow
from conductor.coordinator.store.statements import (
    IN_PROGRESS_OF_TYPE,
    LAST_FAILED_TASK,
    LEASED_OF_QUEUE,
    LINE_OF_TURN,
    QUEUE_SIZE,
    QUEUE_WITH_LIMITS,
    RATE_STARTS_SINCE,
    REFS_OF_ENDED_TASKS,
    TASK_DATA,
    TURN,
    WAITING_STEPS,
    WORKFLOW,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.statuses import WorkflowStatus
from conductor.protocol.why_waiting import (
    UNPOLLED_MS,
    QueueFacts,
    StepFacts,
    TaskFacts,
    TurnFacts,
    Waiting,
    explain_by_sub_workflow,
    explain_waiting_task,
    explain_waiting_workflow,
)
from conductor.protocol.wire import PROCESS_DEATH

#: Maximum number of open tasks of a workflow that are examined.
MAX_OPEN_TASKS = 200
#: Maximum number of nested sub-workflows that are followed to the innermost one.
MAX_LEVELS = 20


class PollRecord(NamedTuple):
    """The last poll of a queue."""

    worker_id: str | None
    at_ms: int
    #: Number of polls that are parked now.
    parked: int = 0


class PollRecords(NamedTuple):
    """The last polls of all queues. They are kept in memory, so a restart forgets them."""

    #: By task type and domain.
    by_queue: Mapping[tuple[str, str], PollRecord]
    known_since_ms: int


class FactReader:
    """Reads the facts of tasks and queues; each queue is read once."""

    def __init__(self, tx: Tx, snapshots: Snapshots, polls: PollRecords) -> None:
        self._tx = tx
        self._snapshots = snapshots
        self._polls = polls
        self._queues: dict[int, QueueFacts | None] = {}

    def read_task(self, workflow: WorkflowRow, row: TaskRow) -> TaskFacts:
        """Return the facts that explain why a task waits or how it ended."""
        return TaskFacts(
            ref=row.ref,
            type=row.operator,
            status=row.status,
            task_id=self._tx.ids.task(row.pk),
            workflow_status=workflow.status,
            retry_count=row.retry_count,
            retry_limit=self._read_retry_limit(workflow, row),
            reason=self._read_reason(row),
            worker_id=row.worker_id,
            started_ms=row.started_ms or None,
            lease_until_ms=row.lease_until_ms,
            heard_ms=row.updated_ms or None if row.lease_until_ms is not None else None,
            due_at_ms=row.due_at_ms,
            ready_since_ms=row.ready_since_ms,
            postponed=bool(row.poll_count and row.callback_after_s),
            waits_for=[] if row.terminal else self._find_awaited_tasks(workflow, row),
            iteration=row.iteration if row.operator == "DO_WHILE" else 0,
            sub_workflow_id=None if row.sub_workflow is None else self._tx.ids.workflow(row.sub_workflow),
            sub_workflow_status=self._read_status(row.sub_workflow),
            waiting_steps=self._read_waiting_steps(row) if row.suspended and not row.terminal else (),
            queue=None if row.queue is None or row.terminal else self._read_queue(row.queue),
        )

    def _read_waiting_steps(self, row: TaskRow) -> list[StepFacts]:
        """Return the waiting durable steps of a suspended task."""
        if row.lease_until_ms is not None or row.ready_since_ms is not None:
            return []
        return [
            StepFacts(
                name=step.name,
                kind=step.kind,
                since_ms=step.started_ms,
                due_at_ms=step.due_at_ms,
                workflow_id=None if step.workflow is None else self._tx.ids.workflow(step.workflow),
            )
            for step in self._tx.rows(WAITING_STEPS, row.step_line)
        ]

    def read_turn(self, workflow: WorkflowRow) -> TurnFacts | None:
        """Return the rate limit that a workflow waits for, or None."""
        found = self._tx.first(TURN, workflow.pk)
        if found is None or found.place is None:
            return None
        config = self._snapshots.get(self._tx, workflow.snapshot).definition.get("rateLimitConfig") or {}
        line = self._tx.rows(LINE_OF_TURN, found.place, found.name, found.key)[0]
        return TurnFacts(
            name=found.name,
            key=found.key,
            limit=config.get("concurrentExecLimit") or 0,
            running=line.running,
            before=line.before or 0,
        )

    def _read_queue(self, queue: int) -> QueueFacts | None:
        if queue not in self._queues:
            self._queues[queue] = self._read_new_queue(queue)
        return self._queues[queue]

    def _read_new_queue(self, queue: int) -> QueueFacts | None:
        found = self._tx.first(QUEUE_WITH_LIMITS, queue)
        if found is None:
            return None
        pk, name, domain, type_pk, concurrent, rate, window_ms = found
        return make_queue_facts(
            self._polls,
            self._tx.now_ms,
            name=name,
            domain=domain,
            ready=(self._tx.first(QUEUE_SIZE, pk) or 0),
            in_hand=(self._tx.first(LEASED_OF_QUEUE, type_pk, pk) or 0),
            concurrent_limit=concurrent or 0,
            in_progress=(self._tx.first(IN_PROGRESS_OF_TYPE, type_pk) or 0) if concurrent else 0,
            rate_limit=rate or 0,
            rate_window_ms=window_ms or 0,
            rate_opens_ms=find_rate_limit_opening_ms(self._tx, type_pk, rate, window_ms) if rate else None,
        )

    def _read_retry_limit(self, workflow: WorkflowRow, row: TaskRow) -> int:
        if row.operator != "SIMPLE":
            return 0
        snapshot = self._snapshots.get(self._tx, workflow.snapshot)
        defined = snapshot.task(row.ref)
        own = defined.task.get("retryCount")
        return int(own if own is not None else defined.task_def.retry_count)

    def _read_reason(self, row: TaskRow) -> str | None:
        """Return why a task ended. For an open attempt: why it was requeued, or why the attempt before it ended."""
        own = self._tx.first(TASK_DATA, row.pk) if row.terminal or row.poll_count else None
        if row.terminal or (own is not None and (own.reason or "").startswith(PROCESS_DEATH)):
            return None if own is None else own.reason
        before = None if row.retried_task is None else self._tx.first(TASK_DATA, row.retried_task)
        return None if before is None else before.reason

    def _read_status(self, workflow: int | None) -> str | None:
        found = None if workflow is None else self._tx.first(WORKFLOW, workflow)
        return None if found is None else found.status

    def _find_awaited_tasks(self, workflow: WorkflowRow, row: TaskRow) -> list[str]:
        if row.operator in ("JOIN", "EXCLUSIVE_JOIN"):
            return list(self._find_unjoined(workflow, row))
        if row.operator == "DO_WHILE":
            suffix = f"__{row.iteration}"
            return [task.ref for task in open_tasks(self._tx, workflow.pk) if task.ref.endswith(suffix)]
        return []

    def _find_unjoined(self, workflow: WorkflowRow, row: TaskRow) -> Iterator[str]:
        data = self._tx.first(TASK_DATA, row.pk)
        task_input = msgspec.json.decode(data.input) if data else {}
        ended = set(self._tx.rows(REFS_OF_ENDED_TASKS, workflow.pk))
        for ref in task_input.get("joinOn") or ():
            iterated_ref = f"{ref}__{row.iteration}" if row.iteration else ref
            if iterated_ref not in ended:
                yield iterated_ref


def make_queue_facts(
    polls: PollRecords,
    now_ms: int,
    *,
    name: str,
    domain: str,
    ready: int,
    in_hand: int,
    concurrent_limit: int,
    in_progress: int,
    rate_limit: int,
    rate_window_ms: int,
    rate_opens_ms: int | None,
) -> QueueFacts:
    """Return the facts of a queue, including its last poll and the other domains in which its type is polled."""
    poll = polls.by_queue.get((name, domain))
    polled_domains = [
        other
        for (other_name, other), last in polls.by_queue.items()
        if other_name == name and other != domain and (last.parked or now_ms - last.at_ms <= UNPOLLED_MS)
    ]
    return QueueFacts(
        name=name,
        domain=domain,
        of_server=domain.startswith(SYSTEM_DOMAIN),
        ready=ready,
        held=in_hand,
        parked=0 if poll is None else poll.parked,
        last_poll_ms=None if poll is None else poll.at_ms,
        last_worker=None if poll is None else poll.worker_id,
        polls_known_since_ms=polls.known_since_ms,
        polled_domains=polled_domains,
        concurrent_limit=concurrent_limit,
        in_progress=in_progress,
        rate_limit=rate_limit,
        rate_window_ms=rate_window_ms,
        rate_opens_ms=rate_opens_ms,
    )


def find_rate_limit_opening_ms(tx: Tx, type_pk: int, rate: int, window_ms: int) -> int | None:
    """Return when the next task of a rate-limited type may start; None means now."""
    starts = tx.rows(RATE_STARTS_SINCE, type_pk, tx.now_ms - window_ms)
    return starts[len(starts) - rate] + window_ms if len(starts) >= rate else None


def explain_task(tx: Tx, snapshots: Snapshots, polls: PollRecords, task_id: str) -> Waiting:
    """Return why a task waits or how it ended, or raise a 404."""
    row = get_task(tx, tx.ids.task_pk(task_id))
    if row is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    facts = FactReader(tx, snapshots, polls)
    return explain_waiting_task(facts.read_task(get_workflow(tx, row.workflow), row), tx.now_ms)


def explain_workflow(tx: Tx, snapshots: Snapshots, polls: PollRecords, workflow_id: str) -> Waiting:
    """Return why a workflow waits or how it ended, or raise a 404."""
    return explain_workflow_row(tx, FactReader(tx, snapshots, polls), find_workflow(tx, workflow_id))


def explain_workflow_row(tx: Tx, facts: FactReader, workflow: WorkflowRow) -> Waiting:
    """Return why a workflow waits or how it ended. If a sub-workflow is the reason, explain the innermost one."""
    waiting = _explain_row(tx, facts, workflow)
    inner, found, levels = workflow, waiting, 0
    while levels < MAX_LEVELS and found.kind in ("sub_workflow", "failed") and found.task_id is not None:
        task = get_task(tx, tx.ids.task_pk(found.task_id))
        below = None if task is None or task.sub_workflow is None else tx.first(WORKFLOW, task.sub_workflow)
        if below is None or below.status == WorkflowStatus.COMPLETED:
            break
        inner, found, levels = below, _explain_row(tx, facts, below), levels + 1
    if not levels:
        return waiting
    return explain_by_sub_workflow(waiting, tx.ids.workflow(inner.pk), inner.name, found, levels)


def _explain_row(tx: Tx, facts: FactReader, workflow: WorkflowRow) -> Waiting:
    if workflow.terminal:
        failed = tx.first(LAST_FAILED_TASK, workflow.pk) if workflow.status != WorkflowStatus.COMPLETED else None
        failures = [] if failed is None else [facts.read_task(workflow, failed)]
        return explain_waiting_workflow(workflow.status, failures, tx.now_ms, workflow_data(tx, workflow.pk).reason)
    rows = open_tasks(tx, workflow.pk)[:MAX_OPEN_TASKS]
    turn = None if rows else facts.read_turn(workflow)
    return explain_waiting_workflow(
        workflow.status, [facts.read_task(workflow, row) for row in rows], tx.now_ms, turn=turn
    )
