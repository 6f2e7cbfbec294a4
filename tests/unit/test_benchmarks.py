"""The benchmarks compute correct figures: ratios per round, and progress over threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import _publish, starts, throughput
from benchmarks._figures import Figures
from benchmarks._processes import PROGRAMS, executed
from benchmarks._rivals import DRAMATIQ, OURS, ours

COUNTS = """
import os, threading, progress
def count():
    for _ in range(1000):
        progress.task(1)
threads = [threading.Thread(target=count) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if os.fork() == 0:
    count()
    os._exit(0)
os.wait()
"""


def test_a_ratio_is_taken_round_by_round() -> None:
    figures = Figures()
    for mine, theirs in ((10, 5), (100, 50), (3, 1)):  # the machine was busy in the first round and in the last
        figures.add("part", "rate", "ours", mine, "1/s", base="theirs")
        figures.add("part", "rate", "theirs", theirs, "1/s", base="theirs")
    assert figures.ratio("part", "rate", "ours", "theirs") == 2
    assert "3.00 – 100" in figures.table()
    assert "2.00 × theirs" in figures.table()


def test_both_modes_of_a_worker_are_measured() -> None:
    found = {one.name: one.options["CONDUCTOR_WORKER_ALL_PREFETCH"] for one in ours()}
    assert list(found) == list(OURS)
    assert all(name.endswith(f"prefetch={count}") for name, count in found.items())


def test_a_report_is_the_facts_and_the_table() -> None:
    figures = Figures()
    figures.add(throughput.PART, throughput.RATE, OURS[0], 10, "1/s", base=OURS[0])
    assert _publish.report({"rounds": 5}, figures) == f"rounds: 5\n\n{figures.table()}\n"


def test_the_front_page_shows_both_modes_and_bulk_starts_beside_the_others() -> None:
    figures = Figures()
    for who, rate in ((OURS[0], 10), (OURS[1], 20), (DRAMATIQ, 5)):
        figures.add(throughput.PART, throughput.RATE, who, rate, "1/s", base=DRAMATIQ)
    for who, rate in ((starts.BULK, 12_000), (DRAMATIQ, 4000)):
        figures.add(starts.PART, starts.RATE, who, rate, "1/s", base=DRAMATIQ)
    facts = {"date": "d", "machine": "m", "system": "s", "rounds": 5, "command": "make bench", "load before": 0}
    short = _publish._short(facts, figures)
    assert "| conductor-worker, async def ×50, prefetch=0 | 10.0 (2.00 ×) |" in short
    assert "| conductor-worker, async def ×50, prefetch=100 | 20.0 (4.00 ×) |" in short
    assert "Bulk starts per second: 12,000 (3.00 ×)." in short


def test_no_call_is_lost_between_threads_and_processes(tmp_path: Path) -> None:
    env = {**os.environ, "BENCH_DIRECTORY": str(tmp_path), "PYTHONPATH": str(PROGRAMS)}
    subprocess.run([sys.executable, "-c", COUNTS], env=env, check=True, timeout=60)
    assert executed(tmp_path) == 9000


def test_a_name_that_is_no_benchmark_is_refused_with_those_that_are() -> None:
    ran = subprocess.run([sys.executable, "-m", "benchmarks", "speed"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "there is no benchmark speed; there are: throughput," in ran.stderr
