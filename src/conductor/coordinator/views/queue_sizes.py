"""Queues as Conductor's clients read them: how much waits in each."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.store.transaction import Tx


def queue_size(tx: Tx, task_type: str, domain: str) -> int:
    """Tasks waiting in a queue, those with a delay included."""
    known = tx.fact("task type", task_type)
    queue = tx.fact("queue", known[0], domain) if known else None
    return _size(tx, queue[0]) if queue else 0


def _size(tx: Tx, queue: int) -> int:
    return int(tx.value("queue size", queue) or 0) + int(tx.value("queue delayed", queue) or 0)


def all_queues(tx: Tx) -> dict[str, int]:
    """Every queue and its size."""
    return {_queue_name(name, domain): _size(tx, queue) for name, domain, queue, _ in tx.rows("all queues")}


def all_queues_verbose(tx: Tx) -> dict[str, Any]:
    """Every queue with its shard, of which there is one."""
    return {
        _queue_name(name, domain): {"a": {"size": _size(tx, queue), "uacked": 0}}
        for name, domain, queue, _ in tx.rows("all queues")
    }


def _queue_name(name: str, domain: str) -> str:
    return f"{domain.strip()}:{name}" if domain else name
