"""Tells the benchmark how far a program is. Uses only the standard library, because it runs in every environment.

`done()` counts: each thread adds to a number of its own in a mapped file, which costs no system call and no lock.
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

#: Threads of one process that can count.
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
    """The n-th call has begun, now."""
    now_ns = time.monotonic_ns()
    with (Path(os.environ["BENCH_DIRECTORY"]) / "begun").open("ab", buffering=0) as file:
        file.write(_STAMP.pack(n, now_ns))


def task(n):
    """The work of every measured function."""
    if n < 0:
        begun(n)
    else:
        done()


def executed(directory):
    """How many tasks have been executed so far."""
    return sum(sum(memoryview(path.read_bytes()).cast("Q")) for path in Path(directory).glob("*.count"))


def begun_ns(directory, n):
    """When the n-th call began; None: it has not yet."""
    path = Path(directory) / "begun"
    if path.exists():
        for number, at_ns in _STAMP.iter_unpack(path.read_bytes()[-32 * _STAMP.size :]):
            if number == n:
                return at_ns
    return None


def sends(send, count):
    """Send one after the other: the microseconds of one at the median, and how many were sent per second."""
    taken = []
    send(0)  # connected
    first = time.perf_counter()
    for number in range(1, count):
        began = time.perf_counter()
        send(number)
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken), (count - 1) / (time.perf_counter() - first)


def pickups_us(directory, send, count, pause_s):
    """Send one at a time to a worker that has nothing to do: microseconds from there to the function's first line."""
    taken = []
    for number in range(1, count + 1):
        time.sleep(pause_s * random.uniform(0.5, 1.5))
        sent_ns = time.monotonic_ns()
        send(-number)
        while (at_ns := begun_ns(directory, -number)) is None:
            time.sleep(0.0005)
        taken.append((at_ns - sent_ns) / 1000)
    return taken
