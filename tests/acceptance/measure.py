"""Measure the throughput of servers side by side on one machine.

    python -m tests.acceptance.measure coordinator conductor-postgres conductor-cluster

One task per workflow, one worker process of 50 coroutines that do nothing: what is measured is the server.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from conductor.client.worker.worker import Worker
from tests.acceptance.server_session import Session
from tests.acceptance.servers import java
from tests.acceptance.servers.targets import TARGETS

WORKFLOWS = 1000
STARTERS = 16
IDLE_ROUNDS = 30
WARM_UP = 300

# The measured servers may compile as in production.
java.FLAGS = ("-Xmx1g",)


def server_processes() -> list[psutil.Process]:
    """Everything the target runs in: children of this process, and theirs."""
    return psutil.Process().children(recursive=True)


def cpu_s() -> float:
    """Processor seconds of all of them so far."""
    return sum(sum(process.cpu_times()[:2]) for process in server_processes())


def resident_mb() -> float:
    """Memory of all of them."""
    return sum(process.memory_info().rss for process in server_processes()) / 1e6


async def start_all(session: Session, name: str, count: int) -> float:
    """Start that many workflows, some at a time; how many a second."""
    waiting = iter(range(count))

    async def starter() -> None:
        for _ in waiting:
            await session.start(name)

    began = time.monotonic()
    await asyncio.gather(*(starter() for _ in range(STARTERS)))
    return count / (time.monotonic() - began)


class Counter:
    """A worker's function that counts, and tells when there were enough."""

    def __init__(self) -> None:
        self.count = 0
        self.wanted = 1
        self.enough = asyncio.Event()
        self.last = 0.0

    async def __call__(self) -> None:
        self.count += 1
        self.last = time.monotonic()
        if self.count >= self.wanted:
            self.enough.set()

    def expect(self, more: int) -> None:
        """Set the bell."""
        self.wanted = self.count + more
        self.enough.clear()


async def measure(session: Session) -> str:
    """Measure one server and return its row of the table."""
    name, counter = session.named("work"), Counter()
    worker = Worker(name, counter, thread_count=50)
    # The answer to a poll of an overloaded server may come too late: its tasks then come back by this.
    await session.define(name, response_timeout_seconds=15, retry_delay_seconds=0)
    await start_all(session, name, WARM_UP)
    counter.expect(WARM_UP)
    async with session.handler(worker):
        await counter.enough.wait()
    starts = await start_all(session, name, WORKFLOWS)
    counter.expect(WORKFLOWS)
    began, before = time.monotonic(), cpu_s()
    async with session.handler(worker):
        await counter.enough.wait()
        drained_s, used_s = time.monotonic() - began, cpu_s() - before
        waits = [await idle_wait(session, name, counter) for _ in range(IDLE_ROUNDS)]
    quick, slow = statistics.median(waits), sorted(waits)[int(len(waits) * 0.95)]
    return (
        f"{starts:8.0f} {WORKFLOWS / drained_s:8.0f} {used_s / WORKFLOWS * 1000:10.1f} "
        f"{quick * 1000:6.0f}/{slow * 1000:<6.0f} {resident_mb():8.0f}"
    )


async def idle_wait(session: Session, name: str, counter: Counter) -> float:
    """From the start of a workflow to the first line of its task, when there is nothing else to do."""
    await asyncio.sleep(0.3)
    counter.expect(1)
    began = time.monotonic()
    await session.start(name)
    await counter.enough.wait()
    return counter.last - began


async def run(name: str) -> None:
    """Start a target, measure it, stop it."""
    with tempfile.TemporaryDirectory(prefix="measure-") as directory:
        os.environ["CONDUCTOR_WORKER_JOURNAL_DIR"] = f"{directory}/journal"
        target = TARGETS[name](Path(directory))
        try:
            target.start()
            async with Session(target, f"m{secrets.token_hex(3)}") as session:
                print(f"{name:20}{await measure(session)}", flush=True)
        finally:
            target.stop()


if __name__ == "__main__":
    load = os.getloadavg()[0]
    print(f"{'':20}{'starts/s':>8} {'tasks/s':>8} {'CPU ms/task':>10} {'wait ms':>10} {'MB':>9}   (load {load:.1f})")
    for chosen in sys.argv[1:]:
        asyncio.run(run(chosen))
