"""The cost of a replica: throughput with and without Litestream, the time of a start, and the size of the log.

`make bench ARGS=replication`. `REPLICATION_MINUTES=10` in the environment makes the load of the last part longer.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks._processes import Family, environment
from benchmarks._server import Client, Server, _url_of, simple
from benchmarks._work import coroutine, run_worker
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker

TASKS = 30_000
ROUNDS = 5
#: The minimum number of tasks in the queue while the size of the write-ahead log is measured.
QUEUED = 2000
SAMPLE_S = 0.02


@contextmanager
def _server(directory: Path, *, replicate: bool) -> Iterator[Server]:
    command = [sys.executable, "-m", "conductor.cli", "serve", "--port", "0", "--database", str(directory / "bench.db")]
    if replicate:
        command += ["--replicate", str(directory / "replica")]
    process = subprocess.Popen(command, env=environment(None), stdout=subprocess.PIPE, text=True, cwd=directory)
    try:
        found = Server(_url_of(process), Family(process.pid))
        yield found
        found.connection.close()
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def _throughput(*, replicate: bool) -> float:
    with tempfile.TemporaryDirectory() as directory, _server(Path(directory), replicate=replicate) as server:
        return asyncio.run(run_worker(server.url, TASKS, coroutine, thread_count=50)).per_second


def _start_s() -> float:
    """Return the seconds that a coordinator needs to start after `kill -9`, on a file that has a replica."""
    with tempfile.TemporaryDirectory() as directory:
        with _server(Path(directory), replicate=True) as server:
            server.define("noop", simple())
            server.start("noop", 200)
            server.family.members()[0].kill()
        began = time.perf_counter()
        with _server(Path(directory), replicate=True):
            return time.perf_counter() - began


async def _load(url: str, database: Path, minutes: float) -> tuple[int, float]:
    """Keep the queue filled. Return the largest size of the log, and the tasks per second."""
    over, largest, done = threading.Event(), 0, 0

    async def count(n: int) -> dict[str, int]:
        nonlocal done
        done += 1
        return {"n": n}

    def fill() -> None:
        client = Client(url)
        client.define("noop", simple())
        while not over.wait(0.05):
            if client.running() < QUEUED:
                client.start("noop", 500)
        client.connection.close()

    thread = threading.Thread(target=fill)
    thread.start()
    began = time.monotonic()
    async with TaskHandlerAsyncIO(workers=[Worker("noop", count, thread_count=50)], configuration=Configuration(url)):
        while time.monotonic() - began < minutes * 60:
            await asyncio.sleep(SAMPLE_S)
            with suppress(OSError):
                largest = max(largest, Path(f"{database}-wal").stat().st_size)
        over.set()
        await asyncio.to_thread(thread.join)
    return largest, done / (time.monotonic() - began)


def main() -> None:
    """Measure, and print a line for each figure."""
    with_replica: list[float] = []
    without: list[float] = []
    for _ in range(ROUNDS):
        without.append(_throughput(replicate=False))
        with_replica.append(_throughput(replicate=True))
    on, off = statistics.median(with_replica), statistics.median(without)
    print(f"tasks/s with a replica {on:.0f}, without {off:.0f}: {(on / off - 1) * 100:+.1f} %")
    print(f"start on a file with a replica, after kill -9: {_start_s():.2f} s")
    minutes = float(os.environ.get("REPLICATION_MINUTES", "0.5"))
    with tempfile.TemporaryDirectory() as directory, _server(Path(directory), replicate=True) as server:
        largest, rate = asyncio.run(_load(server.url, Path(directory) / "bench.db", minutes))
    print(f"largest write-ahead log in {minutes:g} minutes at {rate:.0f} tasks/s: {largest / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
