"""`breakpoint()` in a worker: only one task at a time may use the terminal."""

from __future__ import annotations

import fcntl
import os
import pdb
import sys
from typing import Any


class _Debugger(pdb.Pdb):
    """A debugger that waits until no other debugger uses the terminal."""

    def __init__(self, lock: str) -> None:
        super().__init__()
        self._lock = lock

    def interaction(self, *arguments: Any, **more: Any) -> None:
        """Interact with the user while holding the lock."""
        with open(self._lock, "w") as turn:  # noqa: PTH123 - opened each time, so that threads exclude each other
            fcntl.flock(turn, fcntl.LOCK_EX)
            super().interaction(*arguments, **more)


def serialize_breakpoints(lock: str) -> None:
    """Let `breakpoint()` wait until no other task is being debugged, unless PYTHONBREAKPOINT is set.

    The debugger that holds the file lock may use the terminal. All processes on the terminal lock the same file.
    """
    if os.environ.get("PYTHONBREAKPOINT"):
        return

    def stop_here(*_: object, **__: object) -> None:
        _Debugger(lock).set_trace(sys._getframe(1))

    sys.breakpointhook = stop_here
