"""The number of tasks in each queue, as Conductor's clients read it."""

from __future__ import annotations

from conductor.coordinator.store.statements import ALL_QUEUES, QUEUE, QUEUE_DELAYED, QUEUE_SIZE, TASK_TYPE
from conductor.coordinator.store.transaction import Tx


def count_tasks(tx: Tx, task_type: str, domain: str) -> int:
    """Return the number of tasks that wait in a queue, including delayed ones."""
    known = tx.cached_first(TASK_TYPE, task_type)
    queue = tx.cached_first(QUEUE, known.pk, domain) if known else None
    return _count(tx, queue) if queue else 0


def count_all_tasks(tx: Tx) -> dict[str, int]:
    """Return the number of waiting tasks of every queue, by the queue's name: `domain:type` or `type`."""
    return {
        f"{domain.strip()}:{name}" if domain else name: _count(tx, queue)
        for name, domain, queue, _ in tx.rows(ALL_QUEUES)
    }


def _count(tx: Tx, queue: int) -> int:
    return (tx.first(QUEUE_SIZE, queue) or 0) + (tx.first(QUEUE_DELAYED, queue) or 0)
