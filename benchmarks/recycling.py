"""The cost of replacing worker processes: the throughput of one lasting process and of processes that are replaced.

The two kinds of runs alternate in the order A B B A, so that a change in the machine's speed affects both. The result
is the ratio of two neighbouring runs. The difference between two neighbours of the same kind shows how much a ratio
varies by chance. Other load on the machine changes less within seconds than from run to run. So the throughput around
each replacement is also compared with the seconds before and after it, and a lasting process is measured in the same
way for comparison.

A task only pauses, like a request to a database. With the long pause, the number of slots limits the throughput; with
the short pause, the CPU does. An empty task would only measure how fast processes start. At the end, every task must
have run exactly once.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from bisect import bisect
from pathlib import Path
from typing import NamedTuple

from benchmarks._processes import until
from benchmarks._server import TASK, Server, server, simple
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker

THREADS = 20
#: The number of tasks for each length of the pause in seconds.
TASKS = {0.05: 6000, 0.01: 12_000}
#: The number of consecutive processes in a run. Each runs for some seconds; in production it would run for hours.
PROCESSES = 4
ROUNDS = 4
#: The largest acceptable loss of throughput, as a share.
WITHIN = 0.05
_LEDGER, _PAUSE = "RECYCLING_LEDGER", "RECYCLING_PAUSE"
_LINE = "{:>9} {:>9} {:>16.6f}\n"
#: The seconds around a replacement, half before the first task of the new process. The intervals before and after that
#: have the same length.
AROUND_S = 2.0


class _Drained(NamedTuple):
    """The figures of a drained queue: tasks per second, and the change of throughput around each replacement."""

    rate: float
    around: list[float]


def work(n: int) -> dict[str, int]:
    """Pause, and append the number and process of the task to a file with a single write, so that lines do not mix."""
    time.sleep(float(os.environ[_PAUSE]))
    with Path(os.environ[_LEDGER]).open("a") as ledger:
        ledger.write(_LINE.format(n, os.getpid(), time.monotonic()))
    return {"n": n}


def _drain(running: Server, tasks: int, tasks_per_process: int) -> _Drained:
    """Drain a queue, and measure the throughput between 10 % and 95 % of its tasks."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "ledger"
        os.environ[_LEDGER] = str(ledger)
        running.start("recycling", tasks)
        worker = Worker(TASK, work, thread_count=THREADS)
        configuration = Configuration(running.url, log_level="WARNING")
        with TaskHandler([worker], configuration, max_tasks_per_process=tasks_per_process) as handler:
            handler.start_processes()
            first, last = tasks // 10, tasks * 19 // 20
            began, ended = _when(ledger, first), _when(ledger, last)
            running.until_all_ended()
        runs = [line.split() for line in ledger.read_text().splitlines()]
    if len(runs) != tasks:
        raise AssertionError(f"{tasks} tasks were run {len(runs)} times")
    processes = len({pid for _, pid, _ in runs})
    if (processes > 1) is not (tasks_per_process > 0):
        raise AssertionError(f"{processes} processes with max_tasks_per_process={tasks_per_process}")
    return _Drained((last - first) / (ended - began), _around([(pid, float(at)) for _, pid, at in runs]))


def _around(runs: list[tuple[str, float]]) -> list[float]:
    """Return the relative change of the number of tasks around each replacement.

    For a lasting process, return the changes around the times at which it would have been replaced.
    """
    times = sorted(at for _, at in runs)
    firsts = sorted(min(at for pid, at in runs if pid == one) for one in {pid for pid, _ in runs})[1:]
    moments = firsts or [times[len(times) * part // PROCESSES] for part in range(1, PROCESSES)]
    found = []
    for moment in moments:
        edges = [moment + (step - 1.5) * AROUND_S for step in range(4)]
        if times[0] <= edges[0] and edges[-1] <= times[-1]:
            before, around, after = (bisect(times, edges[at + 1]) - bisect(times, edges[at]) for at in range(3))
            found.append(around / ((before + after) / 2) - 1)
    return found


def _when(ledger: Path, count: int) -> float:
    size = count * len(_LINE.format(0, 0, 0))  # all lines have the same length
    until(lambda: ledger.exists() and ledger.stat().st_size >= size, f"{count} tasks", every_s=0.01)
    return time.perf_counter()


def _measure(running: Server, pause_s: float) -> None:
    os.environ[_PAUSE] = str(pause_s)
    tasks = TASKS[pause_s]
    limits = {"stays": 0, "replaced": tasks // PROCESSES}
    found: list[tuple[str, float]] = []
    around: dict[str, list[float]] = {way: [] for way in limits}
    for number in range(ROUNDS):
        order = ("stays", "replaced") if number % 2 == 0 else ("replaced", "stays")
        for way in order:
            drained = _drain(running, tasks, limits[way])
            found.append((way, drained.rate))
            around[way] += drained.around
    for way in limits:
        rates = [rate for name, rate in found if name == way]
        print(f"pause {pause_s * 1000:.0f} ms, {way:9}{_said(rates, '{:.0f}')} tasks/s")
    pairs = [dict(found[at : at + 2]) for at in range(0, len(found), 2)]
    chance = [abs(found[at][1] / found[at + 1][1] - 1) for at in range(1, len(found) - 1, 2)]
    ratios = [pair["replaced"] / pair["stays"] - 1 for pair in pairs]
    print(f"replaced every {limits['replaced']} tasks: {_said(ratios, '{:+.1%}')} (allowed: -{WITHIN:.0%})")
    print(f"two runs of one kind differ by {statistics.median(chance):.1%}")
    for way, shares in around.items():
        if len(shares) > 1:
            low, middle, high = statistics.quantiles(shares, n=4)
            what = "around a replacement" if way == "replaced" else "where there is none"
            print(f"{AROUND_S:.0f} s {what}: {middle:+.1%} (half of {len(shares)}: {low:+.1%} to {high:+.1%})")


def _said(values: list[float], form: str) -> str:
    least, middle, most = (form.format(one) for one in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({least} to {most})"


def main() -> None:
    """Print, for each pause, the throughput, the ratio of neighbouring runs, and the difference of equal runs."""
    with server() as running:
        running.define("recycling", simple())
        for pause_s in TASKS:
            _measure(running, pause_s)


if __name__ == "__main__":
    main()
