"""`/view/overview`: is the coordinator healthy, and does anything need attention?"""

from __future__ import annotations

from conductor.coordinator.store.statements import LATELY_ENDED, OPEN_WORKFLOWS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.queue_load import list_queues
from conductor.coordinator.views.waiting_facts import PollRecords
from conductor.protocol.statuses import WorkflowStatus
from conductor.protocol.views import Overview

#: Failures are counted among the newest `MAX_ENDED` workflows that ended in this time.
FAILED_WITHIN_MS = 3_600_000
MAX_ENDED = 10_000


def read_overview(tx: Tx, polls: PollRecords, version: str, problem: str | None) -> Overview:
    """Return the counts. Their cost does not grow with the number of finished workflows.

    Args:
        tx: The transaction to read from.
        polls: The last polls of every queue.
        version: The version of the coordinator.
        problem: What is wrong with the coordinator; None if it is healthy.
    """
    ended = {found.status: found.number for found in tx.rows(LATELY_ENDED, tx.now_ms - FAILED_WITHIN_MS, MAX_ENDED)}
    queues = list_queues(tx, polls)
    return Overview(
        now_ms=tx.now_ms,
        version=version,
        running=tx.first(OPEN_WORKFLOWS) or 0,
        failed_lately=ended.get(WorkflowStatus.FAILED, 0) + ended.get(WorkflowStatus.TIMED_OUT, 0),
        waiting=sum(queue.ready for queue in queues),
        oldest_ms=min((queue.oldest_ms for queue in queues if queue.oldest_ms is not None), default=None),
        in_hand=sum(queue.in_hand for queue in queues),
        unpolled=[queue.problem for queue in queues if queue.problem is not None],
        healthy=problem is None,
        health=problem,
    )
