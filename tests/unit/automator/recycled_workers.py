"""Workers that wear out their process, or never return. They write a line into a file when they begin."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.unit.automator.portable_workers import ask_server

_kept: list[bytes] = []


def count(number: int) -> dict[str, int]:
    """Notes that it ran, and where: one write, so that lines of several processes do not mix."""
    with Path(os.environ["RECYCLED_LOG"]).open("a") as log:
        log.write(f"{number} {os.getpid()}\n")
    return {"pid": os.getpid()}


def count_and_ask(number: int, url: str = "") -> dict[str, int]:
    """Count, and then wait at the gate of the stub if there is one."""
    answer = count(number)
    if url:
        ask_server(url)
    return answer


def count_and_hang(number: int, url: str = "") -> dict[str, int]:
    """Count, and never return for a negative number."""
    answer = count_and_ask(number, url)
    while number < 0:
        time.sleep(3600)
    return answer


def keep(megabytes: int) -> dict[str, int]:
    """Keep that much memory forever, and return the process id."""
    _kept.append(b"x" * (megabytes << 20))
    return {"pid": os.getpid()}
