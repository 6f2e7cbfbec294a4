"""`/view/queues`: the tasks in each queue, the workers that poll it and hold its tasks, and its throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from conductor.coordinator.store.statements import (
    DELAYED_BY_QUEUE,
    LEASED_BY_QUEUE,
    NEWEST_QUEUED_TASKS,
    QUEUES_OF_ALL_TYPES,
    READY_BY_QUEUE,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import PollRecords, find_rate_limit_opening_ms, make_queue_facts
from conductor.protocol.statuses import TaskStatus
from conductor.protocol.views import QueueHolder, QueueLoad, QueueStats
from conductor.protocol.why_waiting import find_queue_problem

#: Rates and durations are computed from this many of the newest tasks, so that their cost is bounded.
NEWEST_TASKS = 2000
#: Rates cover the last minute, or the time span of the newest tasks if that is shorter.
RATE_WINDOW_MS = 60_000
MIN_RATE_WINDOW_MS = 1000
FAILED_TASK_STATUSES = (TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT)


class _QueuedTask(NamedTuple):
    """A row of the query for the newest tasks."""

    queue: int
    status: str
    ready_ms: int
    started_ms: int
    ended_ms: int


def list_queues(
    tx: Tx, polls: PollRecords, *, with_stats: bool = False, verdicts: Mapping[int, dict[str, int]] | None = None
) -> list[QueueLoad]:
    """Return all queues. Those with a problem come first, then those with the most ready and the most held tasks.

    Args:
        tx: The transaction to read from.
        polls: The last poll of each queue.
        with_stats: Whether to compute rates and durations.
        verdicts: Number of reports per verdict, by the key of the queue.
    """
    ready = {found.queue: (found.number, found.oldest_ms) for found in tx.rows(READY_BY_QUEUE)}
    delayed = {found.queue: found.number for found in tx.rows(DELAYED_BY_QUEUE)}
    holders = _read_holders(tx)
    in_hand = {queue: sum(holder.in_hand for holder in found) for queue, found in holders.items()}
    rows = tx.rows(QUEUES_OF_ALL_TYPES)
    in_progress: dict[int, int] = {}
    for pk, _, _, type_pk, *_ in rows:
        in_progress[type_pk] = in_progress.get(type_pk, 0) + in_hand.get(pk, 0)
    stats = _compute_stats(tx) if with_stats else {}
    queues = []
    for pk, name, domain, type_pk, concurrent_limit, rate_limit, rate_window_ms in rows:
        ready_count, oldest_ms = ready.get(pk, (0, None))
        has_rate_limit = rate_limit and ready_count
        facts = make_queue_facts(
            polls,
            tx.now_ms,
            name=name,
            domain=domain,
            ready=ready_count,
            in_hand=in_hand.get(pk, 0),
            concurrent_limit=concurrent_limit or 0,
            in_progress=in_progress[type_pk],
            rate_limit=rate_limit or 0,
            rate_window_ms=rate_window_ms or 0,
            rate_opens_ms=find_rate_limit_opening_ms(tx, type_pk, rate_limit, rate_window_ms)
            if has_rate_limit
            else None,
        )
        queue = QueueLoad(
            name=name,
            domain=domain,
            of_server=facts.of_server,
            ready=ready_count,
            delayed=delayed.get(pk, 0),
            oldest_ms=oldest_ms,
            in_hand=facts.held,
            holders=holders.get(pk, []),
            parked=facts.parked,
            last_poll_ms=facts.last_poll_ms,
            last_worker=facts.last_worker,
            concurrent_limit=facts.concurrent_limit,
            rate_limit=facts.rate_limit,
            rate_window_ms=facts.rate_window_ms,
            rate_opens_ms=facts.rate_opens_ms,
            problem=find_queue_problem(facts, tx.now_ms) if ready_count else None,
            stats=stats.get(pk),
            verdicts=(verdicts or {}).get(pk, {}),
        )
        queues.append(queue)
    return sorted(queues, key=lambda queue: (queue.problem is None, -queue.ready, -queue.in_hand))


def _read_holders(tx: Tx) -> dict[int, list[QueueHolder]]:
    """Return the workers that hold tasks of each queue, the busiest first."""
    holders: dict[int, list[QueueHolder]] = {}
    for held in tx.rows(LEASED_BY_QUEUE):
        holder = QueueHolder(worker_id=held.worker_id, in_hand=held.number, oldest_started_ms=held.oldest_started_ms)
        holders.setdefault(held.queue, []).append(holder)
    return {queue: sorted(found, key=lambda holder: -holder.in_hand) for queue, found in holders.items()}


def _compute_stats(tx: Tx) -> dict[int, QueueStats]:
    tasks = [_QueuedTask(*row) for row in tx.rows(NEWEST_QUEUED_TASKS, NEWEST_TASKS)]
    window_ms = RATE_WINDOW_MS
    if len(tasks) >= NEWEST_TASKS:
        covered_ms = tx.now_ms - min(task.ready_ms for task in tasks)
        window_ms = min(RATE_WINDOW_MS, max(covered_ms, MIN_RATE_WINDOW_MS))
    by_queue: dict[int, list[_QueuedTask]] = {}
    for task in tasks:
        by_queue.setdefault(task.queue, []).append(task)
    return {queue: _compute_queue_stats(found, tx.now_ms, window_ms) for queue, found in by_queue.items()}


def _compute_queue_stats(tasks: list[_QueuedTask], now_ms: int, window_ms: int) -> QueueStats:
    waits = sorted(max(0, task.started_ms - task.ready_ms) for task in tasks if task.started_ms)
    runs = sorted(task.ended_ms - task.started_ms for task in tasks if task.started_ms and task.ended_ms)
    began_ms = now_ms - window_ms
    return QueueStats(
        scheduled_per_min=round(sum(task.ready_ms > began_ms for task in tasks) * 60_000 / window_ms, 1),
        ended_per_min=round(sum(task.ended_ms > began_ms for task in tasks) * 60_000 / window_ms, 1),
        tasks=len(tasks),
        failed=sum(task.status in FAILED_TASK_STATUSES for task in tasks),
        wait_p50_ms=quantile(waits, 0.5),
        wait_p95_ms=quantile(waits, 0.95),
        run_p50_ms=quantile(runs, 0.5),
        run_p95_ms=quantile(runs, 0.95),
    )


def quantile(ordered: list[int], share: float) -> int | None:
    """Return the value below which this share of the values lies; None if there are no values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None
