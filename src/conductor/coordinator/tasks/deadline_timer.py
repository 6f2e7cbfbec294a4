"""An alarm on the nearest deadline. Nothing is due: nothing wakes up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from conductor.common.clock import Clock


class DeadlineTimer:
    """Calls `tick` when the nearest known deadline has come; `tick` answers with the next one."""

    def __init__(self, clock: Clock, tick: Callable[[], Awaitable[int | None]]) -> None:
        self._clock = clock
        self._tick = tick
        self._nearest_ms: int | None = None
        self._changed = asyncio.Event()

    def notice(self, at_ms: int | None) -> None:
        """Something is due at this time."""
        if at_ms is not None and (self._nearest_ms is None or at_ms < self._nearest_ms):
            self._nearest_ms = at_ms
            self._changed.set()

    def look(self) -> None:
        """Somebody is awake: if the wall clock was set forward meanwhile, what is due now is due now."""
        if self._nearest_ms is not None and self._nearest_ms <= self._clock.wall_ms():
            self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            if await self._clock.wait(self._changed, self._left_s()):
                continue
            # Forgotten before the tick: what is noticed while it runs counts from here.
            self._nearest_ms = None
            self.notice(await self._tick())

    def _left_s(self) -> float | None:
        if self._nearest_ms is None:
            return None
        return max(0, self._nearest_ms - self._clock.wall_ms()) / 1000
