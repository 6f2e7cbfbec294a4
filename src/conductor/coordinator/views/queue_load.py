"""Queues and workers: how much waits, since when, who polls, who has what in hand, how fast it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import Polls, queue_facts, rate_opens_ms
from conductor.protocol.views import QueueHolder, QueueLoad, QueueStats
from conductor.protocol.why_waiting import QueueFacts, queue_problem

#: Rates and times are those of so many tasks, the newest: what they cost does not grow.
NEWEST_TASKS = 2000
#: A rate is that of the last minute, if the newest tasks reach back so far.
RATE_WINDOW_MS = 60_000


def queues(
    tx: Tx, polls: Polls, *, with_stats: bool, verdicts: Mapping[int, dict[str, int]] | None = None
) -> list[QueueLoad]:
    """Every queue; those that somebody must look at first. `verdicts`: those of reports, by the key of the queue."""
    ready = {queue: (count, oldest) for queue, count, oldest in tx.rows("ready by queue")}
    delayed = dict(tx.rows("delayed by queue"))
    holders: dict[int, list[QueueHolder]] = {}
    for queue, worker_id, count, started_ms in tx.rows("leased by queue"):
        holders.setdefault(queue, []).append(
            QueueHolder(worker_id=worker_id, in_hand=count, oldest_started_ms=started_ms)
        )
    stats = _stats(tx) if with_stats else {}
    found = []
    in_progress: dict[int, int] = {}
    known = tx.rows("queues of all types")
    for pk, _, _, type_pk, *_ in known:
        in_progress[type_pk] = in_progress.get(type_pk, 0) + sum(one.in_hand for one in holders.get(pk, ()))
    for pk, name, domain, type_pk, concurrent, rate, window_ms in known:
        count, oldest_ms = ready.get(pk, (0, None))
        facts = queue_facts(
            polls,
            tx.now_ms,
            name=name,
            domain=domain,
            ready=count,
            in_hand=sum(one.in_hand for one in holders.get(pk, ())),
            concurrent_limit=concurrent or 0,
            in_progress=in_progress[type_pk],
            rate_limit=rate or 0,
            rate_window_ms=window_ms or 0,
            rate_opens_ms=rate_opens_ms(tx, type_pk, rate, window_ms) if rate and count else None,
        )
        queue = _queue(tx, facts, delayed.get(pk, 0), oldest_ms, holders.get(pk, []), stats.get(pk))
        queue.verdicts = (verdicts or {}).get(pk, {})
        found.append(queue)
    return sorted(found, key=lambda queue: (queue.problem is None, -queue.ready, -queue.in_hand))


def _queue(
    tx: Tx, facts: QueueFacts, delayed: int, oldest_ms: int | None, holders: list[QueueHolder], stats: QueueStats | None
) -> QueueLoad:
    return QueueLoad(
        name=facts.name,
        domain=facts.domain,
        of_server=facts.of_server,
        ready=facts.ready or 0,
        delayed=delayed,
        oldest_ms=oldest_ms,
        in_hand=facts.in_hand,
        holders=sorted(holders, key=lambda holder: -holder.in_hand),
        parked=facts.parked,
        last_poll_ms=facts.last_poll_ms,
        last_worker=facts.last_worker,
        concurrent_limit=facts.concurrent_limit,
        rate_limit=facts.rate_limit,
        rate_window_ms=facts.rate_window_ms,
        rate_opens_ms=facts.rate_opens_ms,
        problem=queue_problem(facts, tx.now_ms) if facts.ready else None,
        stats=stats,
    )


def _stats(tx: Tx) -> dict[int, QueueStats]:
    by_queue: dict[int, list[Any]] = {}
    rows = tx.rows("newest queued tasks", NEWEST_TASKS)
    for row in rows:
        by_queue.setdefault(row[0], []).append(row)
    reaches_ms = tx.now_ms - min((row[2] for row in rows), default=tx.now_ms)
    window_ms = min(RATE_WINDOW_MS, max(reaches_ms, 1000)) if len(rows) >= NEWEST_TASKS else RATE_WINDOW_MS
    return {queue: _stats_of(found, tx.now_ms, window_ms) for queue, found in by_queue.items()}


def _stats_of(rows: list[Any], now_ms: int, window_ms: int) -> QueueStats:
    waits = sorted(max(0, started - ready) for _, _, ready, started, _ in rows if started)
    runs = sorted(ended - started for _, _, _, started, ended in rows if started and ended)
    return QueueStats(
        scheduled_per_min=_per_min(sum(row[2] > now_ms - window_ms for row in rows), window_ms),
        ended_per_min=_per_min(sum(row[4] > now_ms - window_ms for row in rows), window_ms),
        tasks=len(rows),
        failed=sum(row[1] in ("FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT") for row in rows),
        wait_p50_ms=_at(waits, 0.5),
        wait_p95_ms=_at(waits, 0.95),
        run_p50_ms=_at(runs, 0.5),
        run_p95_ms=_at(runs, 0.95),
    )


def _per_min(count: int, window_ms: int) -> float:
    return round(count * 60_000 / window_ms, 1)


def _at(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None
