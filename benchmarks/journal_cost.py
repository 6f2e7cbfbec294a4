"""The cost of the result journal and the heartbeats: runs with both alternate with runs without either."""

from __future__ import annotations

import asyncio
import statistics

from benchmarks._server import coordinator
from benchmarks._work import Cost, coroutine, run_worker

TASKS = 3000
ROUNDS = 5


async def _measure(url: str) -> tuple[list[Cost], list[Cost]]:
    on: list[Cost] = []
    off: list[Cost] = []
    for _ in range(ROUNDS):
        on.append(await run_worker(url, TASKS, coroutine, thread_count=50, lease_extend_enabled=True))
        off.append(await run_worker(url, TASKS, coroutine, thread_count=50, journal_enabled=False))
    return on, off


def main() -> None:
    with coordinator() as url:
        on, off = asyncio.run(_measure(url))
    with_both = statistics.median(cost.per_second for cost in on)
    with_none = statistics.median(cost.per_second for cost in off)
    cpu_on, cpu_off = (statistics.median(cost.cpu_us for cost in runs) for runs in (on, off))
    print(f"journal and heartbeats on:  {with_both:7.0f} tasks/s  {cpu_on:6.0f} µs CPU a task")
    print(f"journal off:                {with_none:7.0f} tasks/s  {cpu_off:6.0f} µs CPU a task")
    print(f"cost: {(1 - with_both / with_none) * 100:.1f} % of throughput, {(cpu_on / cpu_off - 1) * 100:.1f} % of CPU")


if __name__ == "__main__":
    main()
