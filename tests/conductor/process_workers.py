"""Workers for child processes, which must be able to import them."""

from __future__ import annotations

import os


def double(number: int) -> dict[str, int]:
    """A `def`."""
    return {"doubled": number * 2, "pid": os.getpid()}


async def increment(before: dict[str, int]) -> dict[str, int]:
    """An `async def`."""
    return {"incremented": before["doubled"] + 1, "pid": os.getpid()}
