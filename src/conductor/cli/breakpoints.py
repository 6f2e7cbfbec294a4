"""`breakpoint()` in a worker: several tasks may come to one at the same time, and there is one terminal."""

from __future__ import annotations

import fcntl
import os
import pdb
import sys
from typing import Any


class _Debugger(pdb.Pdb):
    """Waits for its turn before it asks for a command."""

    def __init__(self, lock: str) -> None:
        super().__init__()
        self._lock = lock

    def interaction(self, *arguments: Any, **more: Any) -> None:
        """Talk to the user, alone."""
        with open(self._lock, "w") as turn:  # noqa: PTH123 - each time anew: threads of one process wait for each other
            fcntl.flock(turn, fcntl.LOCK_EX)
            super().interaction(*arguments, **more)


def serialize_breakpoints(lock: str) -> None:
    """Have `breakpoint()` wait until no other task is being debugged. A debugger of the user's own choice stays.

    Whoever has the file locked talks to the user; every process on the terminal can open it.
    """
    if os.environ.get("PYTHONBREAKPOINT"):
        return

    def stop_here(*_: object, **__: object) -> None:
        _Debugger(lock).set_trace(sys._getframe(1))

    sys.breakpointhook = stop_here
