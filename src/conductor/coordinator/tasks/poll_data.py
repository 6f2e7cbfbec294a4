"""The last poll of each queue, for operators and for the choice of a task's domain. Kept in memory only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from conductor.coordinator.limits import MAX_POLL_NAME_CHARS, MAX_POLLS_KEPT
from conductor.coordinator.views.workers import WorkerPoll, WorkerPolls
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import PROBE_TASK_TYPE

#: A queue is assumed to have workers if it was polled within this time.
ACTIVE_MS = 10_000


class LastPoll(NamedTuple):
    """The last poll of one queue."""

    worker_id: str | None
    at_ms: int


class PollData:
    """The last poll of each queue (task type, domain), and the last poll of each worker for each queue."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], LastPoll] = {}
        self._workers: dict[tuple[str | None, str, str], WorkerPoll] = {}

    def __iter__(self) -> Iterator[tuple[tuple[str, str], LastPoll]]:
        return iter(self._last.items())

    def note(self, task_type: str, domain: str, worker_id: str | None, now_ms: int) -> None:
        """Record a poll, unless its names are longer than `MAX_POLL_NAME_CHARS`."""
        key = (task_type, domain)
        if len(task_type) + len(domain) + len(worker_id or "") > MAX_POLL_NAME_CHARS:
            return
        self._last.pop(key, None)  # re-inserted at the end, so that the oldest poll is first
        self._last[key] = LastPoll(worker_id, now_ms)
        if len(self._last) > MAX_POLLS_KEPT:
            del self._last[next(iter(self._last))]

    def note_worker(self, key: tuple[str | None, str, str], now_ms: int, slots: int = 0, client: str = "") -> None:
        """Record a poll of a worker, unless its names are too long or the poll only identified the server.

        If the poll has no `client`, the slots and the client of the worker's previous poll are kept.
        """
        workers = self._workers
        before = workers.pop(key, None)  # re-inserted at the end, so that the oldest poll is first
        if before is None:
            if key[1] == PROBE_TASK_TYPE or sum(len(name or "") for name in key) > MAX_POLL_NAME_CHARS:
                return
            if len(workers) >= MAX_POLLS_KEPT:
                del workers[next(iter(workers))]
        elif not client:
            slots, client = before.slots, before.client
        workers[key] = WorkerPoll(now_ms, slots, client)

    def copy_workers(self) -> WorkerPolls:
        """Return the last poll of each worker for each queue."""
        return self._workers.copy()

    def is_active(self, task_type: str, domain: str, now_ms: int) -> bool:
        """Return whether a queue was polled within `ACTIVE_MS`."""
        last = self._last.get((task_type, domain))
        return last is not None and now_ms - last.at_ms <= ACTIVE_MS

    def list_wire(self, task_type: str | None = None) -> list[JsonObject]:
        """Return the last polls of one task type, or of all types, in Conductor's format."""
        return [
            _wire(name, domain, last)
            for (name, domain), last in sorted(self._last.items())
            if task_type is None or name == task_type
        ]


def _wire(name: str, domain: str, last: LastPoll) -> JsonObject:
    entry: JsonObject = {"queueName": name, "lastPollTime": last.at_ms}
    if domain:
        entry["domain"] = domain
    if last.worker_id is not None:
        entry["workerId"] = last.worker_id
    return entry
