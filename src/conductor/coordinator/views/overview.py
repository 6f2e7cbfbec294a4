"""`/view/overview`: is the coordinator healthy, and does anything need attention?"""

from __future__ import annotations

from conductor.coordinator.store.statements import FAILED_BETWEEN, OPEN_WORKFLOWS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.inbox import count_inbox
from conductor.coordinator.views.queue_load import list_queues
from conductor.coordinator.views.waiting_facts import PollRecords
from conductor.protocol.views import LoopPace, Overview

#: Failures within this time are counted, up to `MAX_FAILED`.
FAILED_WITHIN_MS = 3_600_000
MAX_FAILED = 100_000


def read_overview(tx: Tx, polls: PollRecords, loops: list[LoopPace], version: str, problem: str | None) -> Overview:
    """Return the numbers at the top of the web UI. Their cost does not grow with the number of finished workflows.

    Args:
        tx: The transaction to read from.
        polls: The last poll of each queue.
        loops: The loops that are fast now (see `workflows/fast_loops.py`).
        version: The version of the coordinator.
        problem: What is wrong with the coordinator; None if it is healthy.
    """
    queues = list_queues(tx, polls)
    return Overview(
        now_ms=tx.now_ms,
        version=version,
        running=tx.first(OPEN_WORKFLOWS) or 0,
        failed_lately=tx.first(FAILED_BETWEEN, tx.now_ms - FAILED_WITHIN_MS, tx.now_ms + 1, MAX_FAILED) or 0,
        waiting=sum(queue.ready for queue in queues),
        oldest_ms=min((queue.oldest_ms for queue in queues if queue.oldest_ms is not None), default=None),
        in_hand=sum(queue.in_hand for queue in queues),
        inbox=count_inbox(tx),
        unpolled=[queue.problem for queue in queues if queue.problem is not None],
        fast_loops=loops,
        healthy=problem is None,
        health=problem,
    )
