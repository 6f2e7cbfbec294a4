"""The benchmarks compute what they say: ratios round by round, limits, progress that no thread and no process loses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import _asked
from benchmarks._figures import Asked, Figures, asked_table
from benchmarks._processes import PROGRAMS, executed

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
    for ours, theirs in ((10, 5), (100, 50), (3, 1)):  # the machine was busy in the first round and in the last
        figures.add("part", "rate", "ours", ours, "1/s", base="theirs")
        figures.add("part", "rate", "theirs", theirs, "1/s", base="theirs")
    assert figures.ratio("part", "rate", "ours", "theirs") == 2
    assert "3.00 – 100" in figures.table()
    assert "2.00 × theirs" in figures.table()


def test_a_limit_is_reached_missed_or_not_measured() -> None:
    verdicts = [Asked("x", 2, True, 3), Asked("x", 2, False, 3), Asked("x", 2, True, None)]
    assert [one.verdict for one in verdicts] == ["yes", "no", "not measured"]


def test_a_run_that_measured_nothing_reaches_nothing() -> None:
    asked = _asked.asked(Figures())
    assert {one.verdict for one in asked} == {"not measured"}
    assert len(asked_table(asked).splitlines()) == len(asked) + 1


def test_no_call_is_lost_between_threads_and_processes(tmp_path: Path) -> None:
    env = {**os.environ, "BENCH_DIRECTORY": str(tmp_path), "PYTHONPATH": str(PROGRAMS)}
    subprocess.run([sys.executable, "-c", COUNTS], env=env, check=True, timeout=60)
    assert executed(tmp_path) == 9000


def test_a_name_that_is_no_benchmark_is_refused_with_those_that_are() -> None:
    ran = subprocess.run([sys.executable, "-m", "benchmarks", "speed"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "there is no benchmark speed; there are: throughput," in ran.stderr
