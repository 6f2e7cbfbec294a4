"""Compare a program of ten workers under conductor-python 2.0.0 and this package: memory, idle CPU, CPU per task.

Each round runs each kind of program once on a new coordinator. conductor-python runs in an environment under .cache/.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec

from benchmarks._compared_program import WORKERS
from benchmarks._processes import running
from benchmarks._server import server
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from tests.integration.other_sdks import conductor_python

PROGRAM = Path(__file__).with_name("_compared_program.py")
ROUNDS = 3
#: The tasks of one round belong to workflows with one branch per worker.
WORKFLOWS = 300
SETTLE_S, IDLE_S = 5.0, 10.0
START_S, WORK_S = 60.0, 300.0
RUNNING = "/workflow/search?size=0&query=status%3DRUNNING"


class Figures(NamedTuple):
    """The figures of one kind of program in one round."""

    processes: float
    memory_mb: float
    idle_cpu: float
    idle_server_cpu: float
    task_cpu_us: float
    tasks_per_s: float


#: The names of the printed rows, in the order of the fields of `Figures`, and their number of decimal digits.
ROWS = (
    ("processes", 0),
    ("memory, MB (PSS)", 0),
    ("idle: CPU, ms a second", 1),
    ("idle: the server's CPU, ms a second", 1),
    ("CPU of a task, µs", 0),
    ("tasks a second", 0),
)


def _measure(python: Path, *flags: str) -> Figures:
    with server() as found:
        url, server_family = found.url, found.family
        with running([str(python), str(PROGRAM), url, *flags], quiet=False) as family:
            _until_all_poll(url)
            time.sleep(SETTLE_S)
            idle, idle_server = family.cpu_s(), server_family.cpu_s()
            time.sleep(IDLE_S)
            idle, idle_server = family.cpu_s() - idle, server_family.cpu_s() - idle_server
            busy, began = family.cpu_s(), time.perf_counter()
            asyncio.run(_work(url))
            wall, busy = time.perf_counter() - began, family.cpu_s() - busy
            tasks = WORKFLOWS * WORKERS
            return Figures(
                processes=len(family.members()),
                memory_mb=family.memory_mb(),
                idle_cpu=idle / IDLE_S * 1e3,
                idle_server_cpu=idle_server / IDLE_S * 1e3,
                task_cpu_us=busy / tasks * 1e6,
                tasks_per_s=tasks / wall,
            )


def _until_all_poll(url: str) -> None:
    deadline = time.monotonic() + START_S
    while len(httpx.get(f"{url}/tasks/queue/polldata/all").json()) < WORKERS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all of the {WORKERS} workers have polled in {START_S} s")
        time.sleep(0.1)


async def _work(url: str) -> None:
    """Start all workflows and wait until the last has ended."""
    client = AsyncApiClient(Configuration(url))
    branches = [
        [{"name": f"compared_{number}", "taskReferenceName": f"ref_{number}", "inputParameters": {"n": number}}]
        for number in range(WORKERS)
    ]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}
    join = {
        "name": "join",
        "taskReferenceName": "join",
        "type": "JOIN",
        "joinOn": [b[0]["taskReferenceName"] for b in branches],
    }
    body = msgspec.json.encode({"name": "compared", "version": 1, "schemaVersion": 2, "tasks": [fork, join]})
    await client.call("POST", "/metadata/workflow", body=body)
    await asyncio.gather(*(client.call("POST", "/workflow/compared", body=b"{}") for _ in range(WORKFLOWS)))
    async with asyncio.timeout(WORK_S):
        while b'"totalHits":0' not in (await client.call("GET", RUNNING)).body:
            await asyncio.sleep(0.2)
    await client.close()


def main() -> None:
    """Run each kind of program in each round, and print the medians side by side."""
    ours, theirs = Path(sys.executable), conductor_python()
    kinds: dict[str, tuple[Path, list[str]]] = {
        "conductor-python 2.0.0": (theirs, []),
        "the same on conductor-worker": (ours, []),
        "all in one process": (ours, ["asyncio"]),
    }
    runs: dict[str, list[Figures]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, (python, flags) in kinds.items():
            runs[name].append(_measure(python, *flags))
    print(f"{WORKERS} workers, {WORKFLOWS * WORKERS} tasks, medians of {ROUNDS} rounds")
    print(f"{'':38}" + "".join(f"{name:>30}" for name in kinds))
    for index, (row, digits) in enumerate(ROWS):
        values = [statistics.median(figures[index] for figures in runs[name]) for name in kinds]
        print(f"{row:38}" + "".join(f"{value:30,.{digits}f}" for value in values))


if __name__ == "__main__":
    main()
