"""The memory of many workers in one process, compared with one process per worker."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psutil

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub


async def job(n: int) -> dict[str, Any]:
    return {"n": n}


def _workers(count: int) -> list[Worker]:
    return [Worker(f"job_{number}", job) for number in range(count)]


async def _one_process(server: ConductorStub, count: int) -> float:
    async with TaskHandlerAsyncIO(workers=_workers(count), configuration=Configuration(server.url)):
        for number in range(count):
            server.add_task(f"job_{number}", {"n": number})
        await server.until_results(len(server.results) + 1)
        await server.until(lambda: len({poll.path for poll in server.polls()}) >= count, timeout=60)
        return float(psutil.Process().memory_info().rss) / 1e6


def _process_each(server: ConductorStub, count: int) -> tuple[float, int]:
    with TaskHandler(workers=_workers(count), configuration=Configuration(server.url, log_level="WARNING")) as handler:
        handler.start_processes()
        seen = len(server.results)
        for number in range(count):
            server.add_task(f"job_{number}", {"n": number})
        server.wait_results(seen + count, timeout=120)
        family = [psutil.Process(process.pid) for process in handler.processes]
        return sum(member.memory_full_info().uss for member in family) / 1e6, len(family)


def main() -> None:
    with ConductorStub() as server:
        before = psutil.Process(os.getpid()).memory_info().rss / 1e6
        for count in (1, 10, 100):
            print(f"{count:4} workers in one process: RSS {asyncio.run(_one_process(server, count)):6.1f} MB")
        print(f"     (the process before the first worker, test server included: {before:.1f} MB)")
        total, processes = _process_each(server, 10)
        print(f"  10 workers in {processes} processes: {total:6.1f} MB of their own together")


if __name__ == "__main__":
    main()
