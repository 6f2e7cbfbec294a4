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
#: How often the stack of the loop's thread is read within `BLOCKED_LOOP_S`.
STACK_READS = 4
#: The functions of asyncio that call the callbacks of an event loop.
_LOOP_FUNCTIONS = ("run_until_complete", "run_forever", "_run_once")
#: The beginnings of the file names of this package, the standard library and installed packages.
_OTHER_CODE = (
    "<frozen ",
    str(Path(__file__).parents[2]) + os.sep,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


class LoopGuard:
    """Detects that the event loop on which it is created is blocked. `run()` runs on the loop of another thread."""

    def __init__(self) -> None:
        self._guarded = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._user_frames: list[traceback.FrameSummary] = []

    async def run(self, needed: Callable[[], bool]) -> None:
        """Check repeatedly whether the guarded loop runs callbacks, and log once when it is blocked.

        No check is made while `needed()` is false. The checks use real time, not the session's clock.
        """
        is_blocked = False
        while True:
            # Only a check during a block finds the block, so the pause between two checks must be short.
            await asyncio.sleep(BLOCKED_LOOP_S / STACK_READS)
            if not needed():
                continue
            was_blocked, is_blocked = is_blocked, not await self._answers()
            if is_blocked and not was_blocked:
                self._report()

    async def _answers(self) -> bool:
        """Return whether the guarded loop runs a callback within `BLOCKED_LOOP_S`.

        The stack of its thread is read several times, because the user's function may return before the last reading.
        """
        answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._user_frames = []
        try:
            self._guarded.call_soon_threadsafe(lambda: loop.call_soon_threadsafe(answered.set))
        except RuntimeError:
            return True  # the loop is closed: the workers have ended
        for _ in range(STACK_READS):
            try:
                async with asyncio.timeout(BLOCKED_LOOP_S / STACK_READS):
                    return await answered.wait()
            except TimeoutError:
                self._user_frames = self._find_user_frames() or self._user_frames
        return False

    def _find_user_frames(self) -> list[traceback.FrameSummary]:
        """Return the stack of the loop's thread, from the first frame of the user's code to the innermost frame."""
        frame = sys._current_frames().get(self._thread_id)
        stack = list(traceback.extract_stack(frame)) if frame else []
        # Leave out the frames that called the event loop, such as the user's main program: they do not block the loop.
        inside = max((at + 1 for at, one in enumerate(stack) if one.name in _LOOP_FUNCTIONS), default=0)
        stack = stack[inside:]
        first = next((at for at, one in enumerate(stack) if not one.filename.startswith(_OTHER_CODE)), len(stack))
        return stack[first:]

    def _report(self) -> None:
        frames = self._user_frames
        users = [one for one in frames if not one.filename.startswith(_OTHER_CODE)]
        if not users:
            logger.warning(
                "The event loop has been blocked for %.0f s, but no user code was found on its stack: the machine may "
                "be overloaded",
                BLOCKED_LOOP_S,
            )
            return
        logger.warning(
            "The event loop has been blocked for %.0f s by %s() (%s:%s, `%s`), so no other coroutine runs. Use an "
            "async library or a `def` worker%s",
            BLOCKED_LOOP_S,
            users[-1].name,
            users[-1].filename,
            users[-1].lineno,
            users[-1].line,
            ". The calls:\n" + "".join(traceback.format_list(frames)).rstrip() if len(frames) > 1 else "",
        )
