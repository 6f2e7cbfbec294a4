"""Parked long polls. A commit that brings work wakes as many as there is work, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from conductor.clock import Clock

T = TypeVar("T")
Key = tuple[str, str]


class Waiter:
    """One parked poll: its place in the line, and the bell that rings it."""

    __slots__ = ("gone", "rung", "worker_id")

    def __init__(self, worker_id: str | None = None) -> None:
        self.worker_id = worker_id
        self.rung = asyncio.Event()
        #: The client has left, or wants nothing any more: nothing may be granted to it.
        self.gone = False

    def leave(self) -> None:
        """The client hung up, or has recalled its poll."""
        self.gone = True
        self.rung.set()


class Waiters:
    """One line per queue. Lives on the server's event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[Key, deque[Waiter]] = {}
        self._closed = False
        self._parked = 0

    def __len__(self) -> int:
        return self._parked

    @property
    def closed(self) -> bool:
        """Whether the server is stopping."""
        return self._closed

    async def wait(
        self, key: Key, timeout_s: float, waiter: Waiter, attempt: Callable[[], Awaitable[list[T]]], wanted: int
    ) -> list[T]:
        """Try at once unless others wait already, then at each ring, until something comes or time is over."""
        line = self._lines.setdefault(key, deque())
        if not line:
            waiter.rung.set()
        line.append(waiter)
        self._parked += 1
        found: list[T] = []
        try:
            ends = self._clock.monotonic() + timeout_s
            while not found and not self._closed and await self._rings(waiter, ends):
                found = await attempt()
        finally:
            self._depart(key, line, waiter, passes_on=len(found) >= wanted)
        return found

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
        line.remove(waiter)
        self._parked -= 1
        if not line:
            self._lines.pop(key, None)
        elif passes_on or waiter.rung.is_set():
            self._ring(line, 1)

    def recall(self, key: Key, worker_id: str | None) -> None:
        """A worker wants no more work: its parked polls are answered at once, with nothing."""
        for waiter in self._lines.get(key, ()):
            if worker_id is not None and waiter.worker_id == worker_id:
                waiter.leave()

    def wake(self, ready: Mapping[Key, int]) -> None:
        """Work has come to these queues."""
        for key, count in ready.items():
            line = self._lines.get(key)
            if line:
                self._ring(line, count)

    def _ring(self, line: deque[Waiter], count: int) -> None:
        for waiter in line:
            if count <= 0:
                return
            if not waiter.rung.is_set():
                waiter.rung.set()
                count -= 1

    def close(self) -> None:
        """Answer everyone at once; nobody waits from now on."""
        self._closed = True
        for line in self._lines.values():
            for waiter in line:
                waiter.rung.set()
