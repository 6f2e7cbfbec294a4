"""What it costs to replace worker processes: one queue, drained by a process that stays and by ones that are replaced.

Both are run in turns. Work is a short pause, as of a request to a database: a task that does nothing at all would
measure how fast processes start. At the end every task must have completed, and none may have run twice.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks._processes import until
from benchmarks._server import TASK, Server, server, simple
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker

TASKS, THREADS, PAUSE_S = 20_000, 20, 0.01
#: A process lives for this many tasks, which is a few seconds: in production it would be hours.
TASKS_PER_PROCESS = 4000
ROUNDS = 5
#: What the acceptance asks for.
WITHIN = 0.05
_LEDGER = "RECYCLING_LEDGER"


def work(n: int) -> dict[str, int]:
    """Notes that it ran, and in which process: one write, so that lines do not mix."""
    time.sleep(PAUSE_S)
    with Path(os.environ[_LEDGER]).open("a") as ledger:
        ledger.write(f"{n} {os.getpid()}\n")
    return {"n": n}


def _drain(running: Server, tasks_per_process: int) -> tuple[float, int]:
    """Tasks a second between a tenth and nineteen twentieths of the queue, and how many processes there were."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "ledger"
        os.environ[_LEDGER] = str(ledger)
        running.start("recycling", TASKS)
        worker = Worker(TASK, work, thread_count=THREADS)
        configuration = Configuration(running.url, log_level="WARNING")
        with TaskHandler([worker], configuration, max_tasks_per_process=tasks_per_process) as handler:
            handler.start_processes()
            first, last = TASKS // 10, TASKS * 19 // 20
            began, ended = _when(ledger, first), _when(ledger, last)
            running.until_all_ended()
        runs = [line.split() for line in ledger.read_text().splitlines()]
    if len(runs) != TASKS:
        raise AssertionError(f"{TASKS} tasks were run {len(runs)} times")
    return (last - first) / (ended - began), len({pid for _, pid in runs})


def _when(ledger: Path, count: int) -> float:
    until(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") >= count, f"{count} tasks", every_s=0.01)
    return time.perf_counter()


def main() -> None:
    """Rounds in turns, and the ratio of the medians."""
    stays, replaced = [], []
    with server() as running:
        running.define("recycling", simple())
        for _ in range(ROUNDS):
            stays.append(_drain(running, 0)[0])
            rate, processes = _drain(running, TASKS_PER_PROCESS)
            replaced.append(rate)
            print(f"one process {stays[-1]:7.0f} tasks/s    {processes} in a row {rate:7.0f} tasks/s")
    ratio = statistics.median(replaced) / statistics.median(stays)
    print(f"replaced after {TASKS_PER_PROCESS} tasks: {ratio - 1:+.1%} (allowed: -{WITHIN:.0%})")


if __name__ == "__main__":
    main()
