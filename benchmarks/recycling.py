"""The cost of replacing worker processes: a queue is drained by a process that stays and by ones that are replaced.

Both take turns, in the order of A B B A, so that a machine that becomes slower or faster meanwhile favours neither;
what counts is the ratio of two neighbours. How far such a ratio is off by chance is shown by neighbours of one kind.
A machine that others use changes its speed from run to run, but less within seconds: so each replacement is also
compared with the seconds before and after it, and the same is done with a process that stays, where nothing happens.
Work is a pause, as of a request to a database: a long one, with which a queue is as fast as there are slots, and a
short one, with which it is as fast as the machine. A task that does nothing would measure how fast processes start.
At the end every task must have completed, and none may have run twice.
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
#: Length of the pause → tasks to drain.
TASKS = {0.05: 6000, 0.01: 12_000}
#: Processes in a run, one after the other. Each lives for some seconds: in production it would be hours.
PROCESSES = 4
ROUNDS = 4
#: The limit of the acceptance.
WITHIN = 0.05
_LEDGER, _PAUSE = "RECYCLING_LEDGER", "RECYCLING_PAUSE"
_LINE = "{:>9} {:>9} {:>16.6f}\n"
#: How long a replacement is looked at, half of it before its first task; and as long before and after that.
AROUND_S = 2.0


class _Drained(NamedTuple):
    """A drained queue: tasks per second, and the change around each replacement."""

    rate: float
    around: list[float]


def work(n: int) -> dict[str, int]:
    """Notes that it ran, and in which process: one write, so that lines do not mix."""
    time.sleep(float(os.environ[_PAUSE]))
    with Path(os.environ[_LEDGER]).open("a") as ledger:
        ledger.write(_LINE.format(n, os.getpid(), time.monotonic()))
    return {"n": n}


def _drain(running: Server, tasks: int, tasks_per_process: int) -> _Drained:
    """Between a tenth and nineteen twentieths of the queue."""
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
    """How many more or less there were around the first task of each process but the first, as a share.

    Of a process that stays: around the moments at which it would have been replaced.
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
    size = count * len(_LINE.format(0, 0, 0))  # every line is as long as the others
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
    """For each pause: rates, the ratio of neighbours, and how much two of one kind differ."""
    with server() as running:
        running.define("recycling", simple())
        for pause_s in TASKS:
            _measure(running, pause_s)


if __name__ == "__main__":
    main()
