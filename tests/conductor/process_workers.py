"""Workers for child processes, which must be able to import them."""

from __future__ import annotations

import os
import time
from pathlib import Path


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
