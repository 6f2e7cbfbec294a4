"""Count the executed tasks of a program for the benchmark, with the standard library only.

The programs run in environments without this package. `done()` counts a task: each thread adds to its own number in a
mapped file, without a system call or a lock.
`begun(n)` notes when the n-th call began, on the clock that all processes of a machine share.
"""

import itertools
import mmap
import os
import random
import statistics
import struct
import threading
import time
from pathlib import Path

#: The largest number of threads of one process that count.
SLOTS = 1024
_STAMP = struct.Struct("<qq")


class _Counters:
    """The counters of this process."""

    def __init__(self):
        path = Path(os.environ["BENCH_DIRECTORY"]) / f"{os.getpid()}.count"
        with path.open("w+b") as file:
            file.truncate(SLOTS * 8)
            self._numbers = memoryview(mmap.mmap(file.fileno(), SLOTS * 8)).cast("Q")
        self._free = itertools.count()
        self._own = threading.local()

    def add(self):
        try:
            slot = self._own.slot
        except AttributeError:
            slot = self._own.slot = next(self._free)
        self._numbers[slot] += 1


_counters = None
_making = threading.Lock()


def _forget():
    global _counters, _making
    _counters, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def done():
    """Count one executed task."""
    global _counters
    if _counters is None:
        with _making:
            if _counters is None:
                _counters = _Counters()
    _counters.add()


def begun(n):
    """Record that the n-th call begins now."""
    now_ns = time.monotonic_ns()
    with (Path(os.environ["BENCH_DIRECTORY"]) / "begun").open("ab", buffering=0) as file:
        file.write(_STAMP.pack(n, now_ns))


def task(n):
    """Count a call, as the only work of every measured function. A negative `n` records the time instead."""
    if n < 0:
        begun(n)
    else:
        done()


def executed(directory):
    """Return how many tasks have been executed so far."""
    return sum(sum(memoryview(path.read_bytes()).cast("Q")) for path in Path(directory).glob("*.count"))


def begun_ns(directory, n):
    """Return the time at which the n-th call began, or None if it has not begun."""
    path = Path(directory) / "begun"
    if path.exists():
        for number, at_ns in _STAMP.iter_unpack(path.read_bytes()[-32 * _STAMP.size :]):
            if number == n:
                return at_ns
    return None


def sends(send, count):
    """Send messages one after the other. Return the median of their microseconds, and the messages per second."""
    taken = []
    send(0)  # opens the connection, and is not measured
    first = time.perf_counter()
    for number in range(1, count):
        began = time.perf_counter()
        send(number)
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken), (count - 1) / (time.perf_counter() - first)


def pickups_us(directory, send, count, pause_s):
    """Send one task at a time to an idle worker. Return the microseconds until the function's first line runs."""
    taken = []
    for number in range(1, count + 1):
        time.sleep(pause_s * random.uniform(0.5, 1.5))
        sent_ns = time.monotonic_ns()
        send(-number)
        while (at_ns := begun_ns(directory, -number)) is None:
            time.sleep(0.0005)
        taken.append((at_ns - sent_ns) / 1000)
    return taken
