"""Parked polls: long polls that wait until their queue has a task, first come, first served.

A transaction that makes tasks ready leases them to parked polls before it is committed, which saves a second commit. If
it could not lease all ready tasks, it wakes further parked polls, which then poll in a transaction of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from conductor.common.clock import Clock

T = TypeVar("T")
#: Task type and domain of a queue.
QueueKey = tuple[str, str]


class ParkedPoll:
    """A long poll that waits until its queue has a task.
    The writer thread claims a poll with `ParkedPolls.claim`, leases tasks for it, and the claim ends with
    `finish_grant`. A poll can be claimed only while it is idle: it is not claimed, woken, polling or cancelled, and has
    no leased tasks.
    """

    def __init__(self, worker_id: str | None = None, count: int = 1) -> None:
        self.worker_id = worker_id
        #: The maximum number of tasks that the poll takes.
        self.count = count
        self.woken = asyncio.Event()
        #: Whether the client has disconnected or withdrawn the poll.
        self.is_cancelled = False
        #: Whether the poll runs a transaction of its own, or is about to end.
        self.is_polling = False
        #: Whether a transaction is leasing tasks for the poll.
        self.is_claimed = False
        #: Whether a wake-up reached the poll while it was claimed or had tasks. If so, the poll wakes the next poll at
        #: its end.
        self.has_missed_wake = False
        #: Leased tasks that `take_granted` has not returned yet.
        self._granted: list[Any] = []

    @property
    def can_be_claimed(self) -> bool:
        """Whether the poll is idle, so that the writer thread may claim it."""
        is_busy = self.is_claimed or self._granted or self.is_polling or self.is_cancelled
        return not is_busy and not self.woken.is_set()

    @property
    def has_grant(self) -> bool:
        """Whether tasks are being leased for the poll, or its leased tasks have not been taken yet."""
        return self.is_claimed or bool(self._granted)

    def finish_grant(self, granted: list[Any]) -> None:
        """End a claim, and store the leased tasks. The list is empty if the transaction failed."""
        self.is_claimed = False
        self._granted = granted
        self.woken.set()

    def take_granted(self) -> list[Any]:
        """Return the leased tasks, and remove them from the poll."""
        granted, self._granted = self._granted, []
        return granted

    def cancel(self) -> None:
        """End the poll: the client has disconnected or withdrawn it."""
        self.is_cancelled = True
        self.woken.set()


class ParkedPolls:
    """The parked polls of each queue, in a line in order of arrival.

    All methods run on the server's event loop, except `claim`, which the writer thread calls.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The parked polls of each queue, in order of arrival. Queues without parked polls have no entry.
        self._lines: dict[QueueKey, deque[ParkedPoll]] = {}
        self.is_closed = False
        self._count = 0
        #: Held while `_lines` is changed or searched, because the writer thread calls `claim`.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def count_by_queue(self) -> dict[QueueKey, int]:
        """Return how many polls are parked at each queue."""
        return {key: len(line) for key, line in self._lines.items()}

    async def park(
        self, key: QueueKey, timeout_s: float, parked: ParkedPoll, poll: Callable[[], Awaitable[list[T]]]
    ) -> list[T]:
        """Park a poll until it gets tasks or its timeout has passed.

        Args:
            key: The queue.
            timeout_s: How long the poll may wait.
            parked: The poll.
            poll: Polls the queue once. Called at once if the queue has no other parked poll, and after each wake-up.

        Returns:
            The leased tasks; an empty list if none were leased before the timeout, a cancellation or `close`.
        """
        with self._lock:
            line = self._lines.setdefault(key, deque())
            if not line:
                parked.woken.set()
            line.append(parked)
        self._count += 1
        found: list[T] = []
        try:
            ends = self._clock.monotonic() + timeout_s
            while not found and not self.is_closed and await self._wait_for_wake(parked, ends):
                found = await self._take_or_poll(parked, poll)
            with self._lock:
                parked.is_polling = True
            while parked.is_claimed:  # the poll timed out while a transaction was leasing tasks for it
                parked.woken.clear()
                await parked.woken.wait()
            found = found or parked.take_granted()
        finally:
            self._remove(key, line, parked, wakes_next=parked.has_missed_wake or len(found) >= parked.count)
        return found

    async def _wait_for_wake(self, parked: ParkedPoll, ends: float) -> bool:
        if not parked.woken.is_set():
            left_s = ends - self._clock.monotonic()
            if left_s <= 0 or not await self._clock.wait(parked.woken, left_s):
                return False
        if parked.is_cancelled or self.is_closed:
            return False
        parked.woken.clear()
        return True

    async def _take_or_poll(self, parked: ParkedPoll, poll: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Return the leased tasks. If there are none, poll once, unless a transaction is leasing tasks right now."""
        with self._lock:
            found = parked.take_granted()
            parked.is_polling = not parked.is_claimed
        if not parked.is_polling:
            parked.has_missed_wake = True
        elif not found:
            found = await poll()
            parked.is_polling = bool(found)
        return found

    def _remove(self, key: QueueKey, line: deque[ParkedPoll], parked: ParkedPoll, *, wakes_next: bool) -> None:
        """Remove a poll. Wake the next poll of the queue if `wakes_next`, or if this poll did not use its wake-up."""
        with self._lock:
            line.remove(parked)
            if not line:
                self._lines.pop(key, None)
        self._count -= 1
        if line and (wakes_next or parked.woken.is_set()):
            self._wake_line(line, 1)

    def claim(self, key: QueueKey) -> ParkedPoll | None:
        """Claim the first idle poll of a queue and return it; None if no poll is idle.

        The caller leases tasks for the poll and ends the claim with `finish_grant`.
        """
        if key not in self._lines:
            return None
        with self._lock:
            for parked in self._lines.get(key, ()):
                if parked.can_be_claimed:
                    parked.is_claimed = True
                    return parked
        return None

    def cancel_of_worker(self, key: QueueKey, worker_id: str | None) -> None:
        """End the parked polls of a worker that wants no more work."""
        for parked in self._lines.get(key, ()):
            if worker_id is not None and parked.worker_id == worker_id:
                parked.cancel()

    def wake(self, ready: Mapping[QueueKey, int]) -> None:
        """Wake as many polls of each queue as it has ready tasks."""
        for key, count in ready.items():
            line = self._lines.get(key)
            if line:
                self._wake_line(line, count)

    def _wake_line(self, line: deque[ParkedPoll], count: int) -> None:
        for parked in line:
            if count <= 0:
                return
            if parked.has_grant:
                parked.has_missed_wake = True
            elif not parked.woken.is_set():
                parked.woken.set()
                count -= 1

    def close(self) -> None:
        """End all parked polls now. Later polls return without waiting."""
        self.is_closed = True
        for line in self._lines.values():
            for parked in line:
                parked.woken.set()
