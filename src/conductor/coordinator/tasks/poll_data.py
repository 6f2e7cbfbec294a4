"""Who polled last. Advice for people and for choosing a domain; in memory only, since an empty poll writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from conductor.coordinator.limits import MAX_POLL_NAME_CHARS, MAX_POLLS_KEPT

#: A domain whose workers polled within this time has workers.
ACTIVE_MS = 10_000


class LastPoll(NamedTuple):
    """The last poll of one queue."""

    worker_id: str | None
    at_ms: int


class PollData:
    """The last poll of each (task type, domain)."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], LastPoll] = {}

    def note(self, task_type: str, domain: str, worker_id: str | None, now_ms: int) -> None:
        """A worker polls."""
        key = (task_type, domain)
        if len(task_type) + len(domain) + len(worker_id or "") > MAX_POLL_NAME_CHARS:
            return  # nobody's work; and names are kept
        self._last.pop(key, None)  # so that the oldest poll comes first
        self._last[key] = LastPoll(worker_id, now_ms)
        if len(self._last) > MAX_POLLS_KEPT:
            del self._last[next(iter(self._last))]

    def __iter__(self) -> Iterator[tuple[tuple[str, str], LastPoll]]:
        """Each (task type, domain) and its last poll."""
        return iter(self._last.items())

    def active(self, task_type: str, domain: str, now_ms: int) -> bool:
        """Whether this queue has had a worker in the last ten seconds."""
        last = self._last.get((task_type, domain))
        return last is not None and now_ms - last.at_ms <= ACTIVE_MS

    def of(self, task_type: str | None = None) -> list[dict[str, Any]]:
        """As Conductor lists it."""
        return [
            _wire(name, domain, last)
            for (name, domain), last in sorted(self._last.items())
            if task_type is None or name == task_type
        ]


def _wire(name: str, domain: str, last: LastPoll) -> dict[str, Any]:
    entry: dict[str, Any] = {"queueName": name, "lastPollTime": last.at_ms}
    if domain:
        entry["domain"] = domain
    if last.worker_id is not None:
        entry["workerId"] = last.worker_id
    return entry
