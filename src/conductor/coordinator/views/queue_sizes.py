"""The number of tasks in each queue, as Conductor's clients read it."""

from __future__ import annotations

from conductor.coordinator.store.transaction import Tx


def count_tasks(tx: Tx, task_type: str, domain: str) -> int:
    """Return the number of tasks that wait in a queue, including delayed ones."""
    known = tx.fact("task type", task_type)
    queue = tx.fact("queue", known[0], domain) if known else None
    return _count(tx, queue[0]) if queue else 0


def count_all_tasks(tx: Tx) -> dict[str, int]:
    """Return the number of waiting tasks of every queue, by the queue's name: `domain:type` or `type`."""
    return {
        f"{domain.strip()}:{name}" if domain else name: _count(tx, queue)
        for name, domain, queue, _ in tx.rows("all queues")
    }


def _count(tx: Tx, queue: int) -> int:
    return int(tx.value("queue size", queue) or 0) + int(tx.value("queue delayed", queue) or 0)
