"""Run a worker on a number of tasks, and measure wall time and CPU time until the last verdict."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks._server import fill
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateCompleted
from conductor.client.worker.worker import Worker

_numbers = itertools.count()


class Cost(NamedTuple):
    """The cost of a run per task."""

    wall_us: float
    cpu_us: float

    @property
    def per_second(self) -> float:
        return 1e6 / self.wall_us


class _Countdown(TaskRunnerEventsListener):
    def __init__(self, count: int) -> None:
        self._left = count
        self.over = asyncio.Event()

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self._left -= 1
        if self._left == 0:
            self.over.set()


async def coroutine(n: int) -> dict[str, int]:
    return {"n": n}


def function(n: int) -> dict[str, int]:
    return {"n": n}


async def run_worker(
    url: str,
    count: int,
    call: Any,
    *,
    thread_count: int,
    before: Callable[[], None] = lambda: None,
    **options: Any,
) -> Cost:
    """Run a whole worker on `count` queued tasks. `before` is called after the tasks are queued, before the worker."""
    name = f"bench_{next(_numbers)}"
    fill(url, name, count)
    countdown = _Countdown(count)
    handler_options = {key: options.pop(key) for key in list(options) if key.startswith("journal")}
    worker = Worker(name, call, thread_count=thread_count, **options)
    configuration = Configuration(url)
    before()
    wall, cpu = time.perf_counter(), time.process_time()
    async with TaskHandlerAsyncIO(
        workers=[worker], configuration=configuration, event_listeners=[countdown], **handler_options
    ):
        await countdown.over.wait()
        return Cost((time.perf_counter() - wall) / count * 1e6, (time.process_time() - cpu) / count * 1e6)
