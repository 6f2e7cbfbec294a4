"""Run programs and measure them from outside: their CPU time, their memory and the number of executed tasks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PROGRAMS = Path(__file__).with_name("programs")
#: The default time limit of `until`.
PATIENCE_S = 120.0


class Family:
    """A program and all its children."""

    def __init__(self, pid: int) -> None:
        self._parent = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        return [self._parent, *self._parent.children(recursive=True)]

    def cpu_s(self) -> float:
        return sum(sum(member.cpu_times()[:2]) for member in self.members())

    def memory_mb(self) -> float:
        """Return the proportional memory: private pages, plus a share of each page that processes share."""
        return sum(member.memory_full_info().pss for member in self.members()) / 1e6

    def wake_ups(self) -> int:
        """Return how often the threads of the family have gone to sleep since they started."""
        found = 0
        for member in self.members():
            for status in Path(f"/proc/{member.pid}/task").glob("*/status"):
                with contextlib.suppress(OSError):  # the thread ended after it was listed
                    lines = status.read_text().splitlines()
                    found += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
        return found


@contextmanager
def running(command: list[str], *, env: dict[str, str] | None = None, quiet: bool = True) -> Iterator[Family]:
    """Run a program inside the block, and kill it and its children afterwards."""
    output = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(
        command, env=environment(env), start_new_session=True, stdout=output, stderr=output, cwd=PROGRAMS
    )
    try:
        yield Family(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return this environment without Conductor's and Python's variables, and with `programs/` in `PYTHONPATH`."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("conductor", "python"))}
    return {**kept, "PYTHONPATH": str(PROGRAMS), **(more or {})}


def until(condition: Callable[[], bool], what: str, *, every_s: float = 0.02, patience_s: float = PATIENCE_S) -> None:
    """Wait until the condition is true. Raise TimeoutError, with `what` in its message, after `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(every_s)


def executed(directory: Path) -> int:
    """Return how many tasks were executed by the programs that count in this directory."""
    sys.path.insert(0, str(PROGRAMS))
    try:
        import progress
    finally:
        sys.path.remove(str(PROGRAMS))
    return int(progress.executed(directory))
