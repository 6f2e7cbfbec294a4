"""The throughput of empty tasks from a queue that was filled first, and the CPU of worker and server per task.

All contestants are measured in the same way: the function counts its calls in memory shared with the benchmark. Between
a tenth and nineteen twentieths of the queue, the benchmark reads the clock and the CPU of the processes.
"""

from __future__ import annotations

import time

from benchmarks._processes import Family, executed, until
from benchmarks._rivals import DRAMATIQ, Contestant, Stage
from benchmarks._run import Run

PART = "throughput"
RATE, WALL = "tasks a second", "wall time / larger CPU"
WORKER_CPU, SERVER_CPU = "CPU of the worker", "CPU of the server"
#: The number of tasks in the queue. The coordinator's cache holds this many workflows; `growth` has longer queues.
TASKS = 5000
QUICK_TASKS = 2000


def measure(run: Run) -> None:
    """Let each contestant drain a queue, one after the other."""
    for contestant in run.turns(run.rounds):
        count = run.share(contestant, QUICK_TASKS if run.quick else TASKS)
        _drain(run, contestant, count)


def _drain(run: Run, contestant: Contestant, count: int) -> None:
    with contestant.stage() as stage:
        stage.fill(count)
        with stage.worker() as worker:
            before = _at(stage, worker, count // 10)
            after = _at(stage, worker, count * 19 // 20)
            _until_over(stage, count)
    wall_us, worker_us, server_us = (
        (there - here) / (after[0] - before[0]) * 1e6 for here, there in zip(before[1:], after[1:], strict=True)
    )
    name, add = contestant.name, run.figures.add
    add(PART, RATE, name, 1e6 / wall_us, "1/s", base=DRAMATIQ)
    add(PART, WORKER_CPU, name, worker_us, "µs a task", base=DRAMATIQ)
    add(PART, SERVER_CPU, name, server_us, "µs a task", base=DRAMATIQ)
    add(PART, WALL, name, wall_us / max(worker_us, server_us), "×", base=DRAMATIQ)


def _at(stage: Stage, worker: Family, count: int) -> tuple[float, float, float, float]:
    """Wait until `count` tasks were executed. Return their number, the time, and the CPU of worker and server."""
    until(lambda: executed(stage.directory) >= count, f"{count} tasks to be executed", every_s=0.01)
    return executed(stage.directory), time.perf_counter(), worker.cpu_s(), stage.server.cpu_s()


def _until_over(stage: Stage, count: int) -> None:
    """Wait until all tasks were executed and all workflows have ended, which proves that no task was lost."""
    until(lambda: executed(stage.directory) >= count, f"all {count} tasks to be executed")
    if stage.coordinator is not None:
        stage.coordinator.until_all_ended()
