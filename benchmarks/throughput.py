"""A task's cost in our worker, beside the least that any worker on the same HTTP client could cost."""

from __future__ import annotations

import asyncio
import statistics

from benchmarks._server import coordinator
from benchmarks._work import Cost, coroutine, function, run_bare, run_worker

TASKS = 3000
ROUNDS = 3


async def _measure(url: str) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {"bare loop, 50 in flight": [], "async def, 50": [], "def, 10 threads": []}
    for _ in range(ROUNDS):  # interleaved: what the machine does meanwhile, it does to all
        costs["bare loop, 50 in flight"].append(await run_bare(url, TASKS, in_flight=50))
        costs["async def, 50"].append(await run_worker(url, TASKS, coroutine, thread_count=50))
        costs["def, 10 threads"].append(await run_worker(url, TASKS, function, thread_count=10))
    return costs


def main() -> None:
    with coordinator() as url:
        costs = asyncio.run(_measure(url))
    base = statistics.median(cost.cpu_us for cost in costs["bare loop, 50 in flight"])
    print(f"{'worker':28} {'tasks/s':>9} {'CPU µs/task':>12} {'x bare':>7}")
    for name, runs in costs.items():
        cpu = statistics.median(cost.cpu_us for cost in runs)
        rate = statistics.median(cost.per_second for cost in runs)
        print(f"{name:28} {rate:9.0f} {cpu:12.0f} {cpu / base:7.2f}")


if __name__ == "__main__":
    main()
