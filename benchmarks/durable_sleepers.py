"""The cost of 10,000 durable functions that sleep at once, and how late they wake up at 1,000 per second.

The CPU times are those of the coordinator and of one worker process, first idle, then while all functions sleep.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._processes import Family, running, until
from benchmarks._server import server
from conductor import durable
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker

SLEEPERS = 10_000
WAKE_UPS_PER_S = 1000
#: The time in seconds within which all functions must be asleep.
START_S = 60.0
WINDOW_S = 20.0
SETTLE_S = 5.0


async def _work(url: str, path: Path, first_due_s: float) -> None:
    """Run the worker. Append the delay of each wake-up to a file."""
    with path.open("a", buffering=1) as delays:

        async def sleeper(n: int) -> dict[str, int]:
            due_s = first_due_s + n / WAKE_UPS_PER_S
            await durable.sleep(max(0.0, due_s - time.time()))
            delays.write(f"{time.time() - due_s}\n")
            return {}

        workers = [Worker("sleeper", sleeper, thread_count=100)]
        async with TaskHandlerAsyncIO(workers, Configuration(url), scan_for_annotated_workers=False) as handler:
            await handler.wait()


def _measure_cpu(families: tuple[Family, Family]) -> list[float]:
    """Return the CPU use of the coordinator and of the worker, in percent of a core."""
    before = [family.cpu_s() for family in families]
    time.sleep(WINDOW_S)
    return [(family.cpu_s() - cpu_s) / WINDOW_S * 100 for family, cpu_s in zip(families, before, strict=True)]


def main() -> None:
    """Print the costs of sleeping functions and the delays of their wake-ups as a table."""
    sleeping_s = START_S + SETTLE_S + 2 * WINDOW_S + 2 * SETTLE_S
    with TemporaryDirectory() as directory, server() as coordinator:
        path = Path(directory) / "delays"
        first_due_s = time.time() + sleeping_s
        command = [sys.executable, "-m", "benchmarks.durable_sleepers", coordinator.url, str(path), str(first_due_s)]
        env = {"PYTHONPATH": str(Path(__file__).parents[1]), "CONDUCTOR_WORKER_JOURNAL_DIR": directory}
        with running(command, env=env) as worker:
            families = (coordinator.family, worker)
            step = {"name": "sleeper", "taskReferenceName": "t", "inputParameters": {"n": "${workflow.input.n}"}}
            coordinator.define("sleepers", step)
            coordinator.until_polled("sleeper")
            time.sleep(SETTLE_S)
            idle, memory_mb = _measure_cpu(families), coordinator.family.memory_mb()
            coordinator.start("sleepers", SLEEPERS)
            time.sleep(max(0.0, first_due_s - time.time() - WINDOW_S - SETTLE_S))
            sleeping, sleeping_mb = _measure_cpu(families), coordinator.family.memory_mb()
            before_s = [family.cpu_s() for family in families]
            until(lambda: coordinator.running() == 0, "the end of all workflows", every_s=1.0, patience_s=300.0)
            waking_ms = [(family.cpu_s() - cpu_s) * 1000 for family, cpu_s in zip(families, before_s, strict=True)]
            late_s = sorted(map(float, path.read_text().split()))
    load = os.getloadavg()[0]
    print(f"{SLEEPERS} functions sleep; load average of the machine {load:.1f}")
    print(f"{'':32}{'idle':>12}{'sleeping':>12}{'a wake-up':>12}")
    for index, name in enumerate(("CPU of the coordinator", "CPU of the worker")):
        print(f"{name:<32}{idle[index]:>10.2f} %{sleeping[index]:>10.2f} %{waking_ms[index] / SLEEPERS:>9.2f} ms")
    print(f"{'memory of the coordinator':<32}{memory_mb:>9.0f} MB{sleeping_mb:>9.0f} MB")
    quantiles = statistics.quantiles(late_s, n=100)
    print(f"wake-ups: {len(late_s)}, {WAKE_UPS_PER_S} due per second; late: ", end="")
    print(f"p50 {quantiles[49]:.2f} s, p95 {quantiles[94]:.2f} s, max {late_s[-1]:.2f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_work(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
    else:
        main()
