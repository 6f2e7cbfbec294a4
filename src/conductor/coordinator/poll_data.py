"""Who polled last. Advice for people and for choosing a domain; in memory only, since an empty poll writes nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

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
        self._last[task_type, domain] = LastPoll(worker_id, now_ms)

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
