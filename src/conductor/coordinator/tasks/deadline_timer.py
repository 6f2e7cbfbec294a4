"""A timer that sleeps until the nearest deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from conductor.common.clock import Clock


class DeadlineTimer:
    """Calls `tick` at the nearest known deadline. `tick` returns the next deadline."""

    def __init__(self, clock: Clock, tick: Callable[[], Awaitable[int | None]]) -> None:
        self._clock = clock
        self._tick = tick
        self._nearest_ms: int | None = None
        self._changed = asyncio.Event()

    def add(self, at_ms: int | None) -> None:
        """Add a deadline."""
        if at_ms is not None and (self._nearest_ms is None or at_ms < self._nearest_ms):
            self._nearest_ms = at_ms
            self._changed.set()

    def check_clock(self) -> None:
        """Tick at once if the wall clock was set forward beyond the nearest deadline."""
        if self._nearest_ms is not None and self._nearest_ms <= self._clock.wall_ms():
            self._changed.set()

    async def run(self) -> None:
        """Call `tick` at each deadline, until cancelled."""
        while True:
            self._changed.clear()
            left_s = None if self._nearest_ms is None else max(0, self._nearest_ms - self._clock.wall_ms()) / 1000
            if await self._clock.wait(self._changed, left_s):
                continue
            # Clear the deadline before the tick, so that deadlines that are added during the tick are kept.
            self._nearest_ms = None
            self.add(await self._tick())
