"""The clock, as an object that tests can replace.

Durations use the monotonic clock. The wall clock is only for timestamps that people read.
"""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The real clock. `conductor.testing.FakeClock` replaces it in tests."""

    #: Return seconds on a clock that never jumps.
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Return epoch milliseconds. Use them only as timestamps, because the clocks of two machines differ."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`; a negative number counts as 0."""
        await asyncio.sleep(max(0.0, seconds))

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> bool:
        """Wait for the event. Return False if it is not set within `timeout_s`."""
        if timeout_s is None:
            await event.wait()
            return True
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await event.wait()
        except TimeoutError:
            return False
        return True


#: The default clock.
SYSTEM_CLOCK = Clock()
