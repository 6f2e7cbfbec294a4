"""The cost of a task in the worker process: CPU, calls of Python functions, and turns of the event loop.

The coordinator runs in a separate process, and the queue is filled first. Only CPU time is measured, because other load
on the machine hardly changes it. The calls are counted in a separate run, because counting costs more than the calls.
"""

from __future__ import annotations

import statistics
import sys
import threading
from functools import partial
from types import FrameType
from typing import Any

from benchmarks._server import coordinator
from benchmarks._work import coroutine, function, run_worker
from conductor.common.machine import run_event_loop

TASKS = 5000
ROUNDS = 5
#: The measured kinds of workers, each with its function and its `thread_count`.
KINDS = {"async def, 50": (coroutine, 50), "def, 10 threads": (function, 10)}


class _Calls:
    """Counts the calls of Python functions and of built-in functions."""

    def __init__(self) -> None:
        self.python = 0
        self.built_in = 0

    def profile(self, _frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.built_in += 1


async def _cpu_us(url: str) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, (call, thread_count) in KINDS.items():
            costs[kind].append((await run_worker(url, TASKS, call, thread_count=thread_count)).cpu_us)
    return costs


async def _calls(url: str, kind: str) -> tuple[float, float]:
    call, thread_count = KINDS[kind]
    few, many = 500, 2500
    counted = []
    for count in (few, many):  # the difference is what the tasks cost, without the start
        calls = _Calls()
        threading.setprofile(calls.profile)
        try:
            await run_worker(url, count, call, thread_count=thread_count, before=partial(sys.setprofile, calls.profile))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        counted.append(calls)
    less, more = counted
    return (more.python - less.python) / (many - few), (more.built_in - less.built_in) / (many - few)


def main() -> None:
    with coordinator() as url:
        costs = run_event_loop(_cpu_us(url))
        calls = {kind: run_event_loop(_calls(url, kind)) for kind in KINDS}
    print(f"{'worker, a task':20} {'CPU µs':>7} {'least':>6} {'Python calls':>13} {'built-in calls':>15}")
    for kind, cpu_us in costs.items():
        python, built_in = calls[kind]
        print(f"{kind:20} {statistics.median(cpu_us):7.0f} {min(cpu_us):6.0f} {python:13.0f} {built_in:15.0f}")


if __name__ == "__main__":
    main()
