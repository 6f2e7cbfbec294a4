"""Detects that the workers' event loop is blocked, and logs the code that blocks it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

#: An event loop that has not answered for this long is reported as blocked.
BLOCKED_LOOP_S = 2.0
#: The number of frames that the warning prints.
MAX_FRAMES = 12
#: Where the code of this package, of the standard library and of installed packages is.
_OTHER_CODE = (
    "<frozen ",
    str(Path(__file__).parents[2]) + os.sep,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


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
        frames = traceback.extract_stack(frame, limit=MAX_FRAMES) if frame else traceback.StackSummary()
        logger.warning(
            "The event loop has been blocked for %.0f s by %s, so no other coroutine runs. Use an async library or a "
            "`def` worker. The code that blocks it:\n%s",
            BLOCKED_LOOP_S,
            _describe_line(frames),
            "".join(frames.format()) or "(its stack cannot be read)",
        )


def _describe_line(frames: traceback.StackSummary) -> str:
    """Return the innermost line of the user's code: outside this package, the standard library and other packages."""
    user_frames = [frame for frame in frames if not frame.filename.startswith(_OTHER_CODE)]
    found = (user_frames or frames)[-1:]
    return f"`{found[0].line}` ({found[0].filename}:{found[0].lineno})" if found else "code that cannot be read"
