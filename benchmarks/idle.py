"""The cost of idle workers and servers: CPU, and how often their threads wake up."""

from __future__ import annotations

import time

from benchmarks._rivals import DRAMATIQ
from benchmarks._run import Run

PART = "idle"
WORKER_CPU, SERVER_CPU = "CPU of the worker", "CPU of the server"
WAKE_UPS, MEMORY = "wake-ups of both", "memory of both"
SETTLE_S, WINDOW_S = 3.0, 10.0
QUICK_SETTLE_S, QUICK_WINDOW_S = 1.0, 2.0


def measure(run: Run) -> None:
    """Measure each contestant once per round, one after the other."""
    settle_s, window_s = (QUICK_SETTLE_S, QUICK_WINDOW_S) if run.quick else (SETTLE_S, WINDOW_S)
    for contestant in run.turns(run.few):
        with contestant.stage() as stage, stage.worker() as worker:
            if stage.coordinator is not None:
                stage.coordinator.until_polled()
            time.sleep(settle_s)
            families = (worker, stage.server)
            before = [family.cpu_s() for family in families], sum(family.wake_ups() for family in families)
            time.sleep(window_s)
            after = [family.cpu_s() for family in families], sum(family.wake_ups() for family in families)
            name, add = contestant.name, run.figures.add
            for index, measure_name in enumerate((WORKER_CPU, SERVER_CPU)):
                value = (after[0][index] - before[0][index]) / window_s * 1e3
                add(PART, measure_name, name, value, "ms a second", base=DRAMATIQ)
            add(PART, WAKE_UPS, name, (after[1] - before[1]) / window_s, "a second", base=DRAMATIQ)
            add(PART, MEMORY, name, sum(family.memory_mb() for family in families), "MB", base=DRAMATIQ)
