"""Parked long polls, first come first served.

A transaction that brings work grants it to them before it is committed, so that one commit is enough. What it could
not grant rings as many as there is work.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from conductor.common.clock import Clock

T = TypeVar("T")
Key = tuple[str, str]


class Waiter:
    """One parked poll: its place in the line, and the bell that rings it."""

    __slots__ = ("claimed", "gone", "granted", "missed", "rung", "tries", "wanted", "worker_id")

    def __init__(self, worker_id: str | None = None, wanted: int = 1) -> None:
        self.worker_id = worker_id
        #: How many tasks it takes.
        self.wanted = wanted
        self.rung = asyncio.Event()
        #: The client has left, or wants nothing any more: nothing may be granted to it.
        self.gone = False
        #: It is trying for itself, or leaving: whatever comes meanwhile is for others.
        self.tries = False
        #: A transaction is granting something to it; what, is told by `give` after the commit.
        self.claimed = False
        #: It was rung meanwhile: the next in the line tries in its place.
        self.missed = False
        #: What was granted and not taken yet.
        self.granted: list[Any] = []

    def give(self, granted: list[Any]) -> None:
        """What a transaction has granted; nothing, if it failed."""
        self.claimed = False
        self.granted = granted
        self.rung.set()

    def take(self) -> list[Any]:
        """What was granted and not taken yet."""
        granted, self.granted = self.granted, []
        return granted

    def leave(self) -> None:
        """The client hung up, or has recalled its poll."""
        self.gone = True
        self.rung.set()


class Waiters:
    """One line per queue. Lives on the server's event loop; only `claim` is called by the writer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Those who wait, by their queue; a queue at which nobody waits is not there.
        self.lines: dict[Key, deque[Waiter]] = {}
        self._closed = False
        self._parked = 0
        #: Held while a line changes, for the writer looks through them too.
        self._gate = threading.Lock()

    def __len__(self) -> int:
        return self._parked

    @property
    def closed(self) -> bool:
        """Whether the server is stopping."""
        return self._closed

    def parked(self) -> dict[Key, int]:
        """How many polls are parked at each queue."""
        return {key: len(line) for key, line in self.lines.items()}

    async def wait(
        self, key: Key, timeout_s: float, waiter: Waiter, attempt: Callable[[], Awaitable[list[T]]]
    ) -> list[T]:
        """Try at once unless others wait already, then at each ring, until something comes or time is over."""
        with self._gate:
            line = self.lines.setdefault(key, deque())
            if not line:
                waiter.rung.set()
            line.append(waiter)
        self._parked += 1
        found: list[T] = []
        try:
            ends = self._clock.monotonic() + timeout_s
            while not found and not self._closed and await self._rings(waiter, ends):
                found = await self._try(waiter, attempt)
            with self._gate:
                waiter.tries = True
            while waiter.claimed:  # its time was over in the very moment in which it was granted something
                waiter.rung.clear()
                await waiter.rung.wait()
            found = found or waiter.take()
        finally:
            self._depart(key, line, waiter, passes_on=waiter.missed or len(found) >= waiter.wanted)
        return found

    async def _try(self, waiter: Waiter, attempt: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """What was granted, or else one attempt; unless something is being granted: then that is waited for."""
        with self._gate:
            found = waiter.take()
            waiter.tries = not waiter.claimed
        if not waiter.tries:
            waiter.missed = True
        elif not found:
            found = await attempt()
            waiter.tries = bool(found)
        return found

    def claim(self, key: Key) -> Waiter | None:
        """The first that is at rest: the caller grants something to it, and tells it by `give`."""
        if key not in self.lines:
            return None
        with self._gate:
            for waiter in self.lines.get(key, ()):
                if not (waiter.claimed or waiter.granted or waiter.tries or waiter.gone or waiter.rung.is_set()):
                    waiter.claimed = True
                    return waiter
        return None

    async def _rings(self, waiter: Waiter, ends: float) -> bool:
        if not waiter.rung.is_set():
            left_s = ends - self._clock.monotonic()
            if left_s <= 0 or not await self._clock.wait(waiter.rung, left_s):
                return False
        if waiter.gone or self._closed:
            return False
        waiter.rung.clear()
        return True

    def _depart(self, key: Key, line: deque[Waiter], waiter: Waiter, *, passes_on: bool) -> None:
        """Leave the line. A ring that was not used, or more work than one could take, goes to the next."""
        with self._gate:
            line.remove(waiter)
            if not line:
                self.lines.pop(key, None)
        self._parked -= 1
        if line and (passes_on or waiter.rung.is_set()):
            self._ring(line, 1)

    def recall(self, key: Key, worker_id: str | None) -> None:
        """A worker wants no more work: its parked polls are answered at once, with nothing."""
        for waiter in self.lines.get(key, ()):
            if worker_id is not None and waiter.worker_id == worker_id:
                waiter.leave()

    def wake(self, ready: Mapping[Key, int]) -> None:
        """Work has come to these queues."""
        for key, count in ready.items():
            line = self.lines.get(key)
            if line:
                self._ring(line, count)

    def _ring(self, line: deque[Waiter], count: int) -> None:
        for waiter in line:
            if count <= 0:
                return
            if waiter.claimed or waiter.granted:
                waiter.missed = True
            elif not waiter.rung.is_set():
                waiter.rung.set()
                count -= 1

    def close(self) -> None:
        """Answer everyone at once; nobody waits from now on."""
        self._closed = True
        for line in self.lines.values():
            for waiter in line:
                waiter.rung.set()
