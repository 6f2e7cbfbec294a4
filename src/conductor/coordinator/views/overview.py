"""Is it alive, is anything wrong? The few numbers that stand above everything."""

from __future__ import annotations

from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.queue_load import queues
from conductor.coordinator.views.waiting_facts import Polls
from conductor.protocol.views import Overview

#: How far back "lately" reaches, and how many that ended in that time are looked at.
LATELY_MS = 3_600_000
LATELY_COUNT = 10_000


def overview(tx: Tx, polls: Polls, version: str) -> Overview:
    """Counts; nothing in it grows with what is finished."""
    ended = dict(tx.rows("lately ended", tx.now_ms - LATELY_MS, LATELY_COUNT))
    found = queues(tx, polls, with_stats=False)
    return Overview(
        now_ms=tx.now_ms,
        version=version,
        running=int(tx.value("open workflows") or 0),
        failed_lately=sum(count for status, count in ended.items() if status in ("FAILED", "TIMED_OUT")),
        waiting=sum(queue.ready for queue in found),
        oldest_ms=min((queue.oldest_ms for queue in found if queue.oldest_ms is not None), default=None),
        in_hand=sum(queue.in_hand for queue in found),
        unpolled=[queue.problem for queue in found if queue.problem is not None],
    )
