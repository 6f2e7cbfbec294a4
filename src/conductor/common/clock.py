"""Time, so that tests can turn it. Durations are monotonic; the wall clock only stamps what people read."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The real clock. What waits or measures takes one of these; `conductor.testing.FakeClock` is its fake."""

    #: Seconds on a clock that never jumps.
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Epoch milliseconds, for timestamps that travel. Never compared with another machine's."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        await asyncio.sleep(max(0.0, seconds))

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> bool:
        """Wait until the event is set (True) or the time is over (False)."""
        if timeout_s is None:
            await event.wait()
            return True
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await event.wait()
        except TimeoutError:
            return False
        return True


#: The clock of everybody who was given none.
SYSTEM_CLOCK = Clock()
