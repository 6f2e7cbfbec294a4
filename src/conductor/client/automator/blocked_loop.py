"""Detects that the workers' event loop is blocked, and logs the code that blocks it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

logger = logging.getLogger(__name__)

#: An event loop that has not answered for this long is reported as blocked.
BLOCKED_LOOP_S = 2.0


class LoopGuard:
    """Guards the event loop on which it is created. `run()` runs on the event loop of another thread."""

    def __init__(self) -> None:
        self._guarded = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    async def run(self, needed: Callable[[], bool]) -> None:
        """Check whether the guarded loop runs callbacks, repeatedly while `needed()` is true.

        The checks use real time, not the session's clock.
        """
        is_blocked = False
        while True:
            await asyncio.sleep(BLOCKED_LOOP_S / 2)
            if not needed():
                continue
            was_blocked, is_blocked = is_blocked, not await self._answers()
            if is_blocked and not was_blocked:
                self._report()

    async def _answers(self) -> bool:
        answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            self._guarded.call_soon_threadsafe(lambda: loop.call_soon_threadsafe(answered.set))
            async with asyncio.timeout(BLOCKED_LOOP_S):
                return await answered.wait()
        except TimeoutError:
            return False
        except RuntimeError:
            return True  # the loop is closed: the workers have ended

    def _report(self) -> None:
        frame = sys._current_frames().get(self._thread_id)
        stack = "".join(traceback.format_stack(frame, limit=12)) if frame else "(its stack cannot be read)"
        logger.warning(
            "The event loop has been blocked for %.0f s, so no other coroutine runs. Use an async library or a `def` "
            "worker. The code that blocks it:\n%s",
            BLOCKED_LOOP_S,
            stack,
        )
