"""Workers for child processes, which must be able to import them."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import time
from pathlib import Path

#: How a task can end its process, and what is said about it then.
DEATHS = {
    "exit": "the worker process exited with status 3",
    "segfault": "the worker process was killed by SIGSEGV",
    "kill": "the worker process was killed by SIGKILL (out of memory?)",
}


def double(number: int) -> dict[str, int]:
    """A `def`."""
    return {"doubled": number * 2, "pid": os.getpid()}


async def increment(before: dict[str, int]) -> dict[str, int]:
    """An `async def`."""
    return {"incremented": before["doubled"] + 1, "pid": os.getpid()}


def note_and_wait(number: int, directory: str) -> dict[str, int]:
    """Says that it has begun, and waits for its gate, which is open for some."""
    place = Path(directory)
    with (place / "began").open("a") as ledger:
        ledger.write(f"{number} {os.getpid()}\n")
    while number >= 0 and not (place / "gate").exists():
        time.sleep(0.02)
    return {"number": number}


def note_and_return(number: int, directory: str) -> None:
    """Says that it has begun, and takes a moment."""
    with (Path(directory) / "began").open("a") as ledger:
        ledger.write(f"{number}\n")
    time.sleep(0.1)


def die(how: str, directory: str) -> None:
    """Ends its process, while others are at work beside it."""
    with (Path(directory) / "began").open("a") as ledger:
        ledger.write("deadly\n")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    time.sleep(0.2)
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        faulthandler.disable()  # the death is wanted: no traceback in the output
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)
