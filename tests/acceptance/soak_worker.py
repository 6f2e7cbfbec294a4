"""The worker of the soak: every kind of task, until SIGTERM. Usage: soak_worker.py URL PREFIX."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from typing import Any

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker


def plain(number: int) -> dict[str, int]:
    """A `def`, with a line of log."""
    get_task_context().add_log(f"number {number}")
    return {"number": number}


async def quick(number: int) -> dict[str, int]:
    """An `async def`."""
    await asyncio.sleep(0.01)
    return {"number": number}


async def flaky(number: int) -> dict[str, int]:
    """Fails the first time; one in ten fails for good."""
    if number % 10 == 0:
        raise NonRetryableException("a round number")
    if get_task_context().retry_count == 0:
        raise ValueError("the first time")
    return {"number": number}


def patient(number: int) -> Any:
    """Hands itself back twice."""
    rounds = get_task_context().poll_count
    return {"rounds": rounds} if rounds > 2 else TaskInProgress(1, output={"rounds": rounds})


async def long(number: int) -> dict[str, int]:
    """Outlives its response timeout; some are terminated on the way."""
    await asyncio.sleep(6)
    return {"number": number}


def blocking(number: int) -> dict[str, int]:
    """A `def` that looks whether it is still wanted."""
    context, until = get_task_context(), time.monotonic() + 4
    while time.monotonic() < until:
        context.wait_cancelled(0.5)
        context.raise_if_cancelled()
    return {"number": number}


def large(text: str) -> dict[str, str]:
    """A lot of text, there and back."""
    return {"text": text[::-1]}


#: How many tasks of each kind at once.
SLOTS = 20
KINDS = {work.__name__: work for work in (plain, quick, flaky, patient, long, blocking, large)}
#: Each slot of a `def` has a thread, made when it is first needed: a busy minute needs more of them than a quiet one.
MAX_THREADS_OF_SLOTS = SLOTS * sum(not inspect.iscoroutinefunction(work) for work in KINDS.values())


async def main(url: str, prefix: str) -> None:
    """Run until SIGTERM."""
    workers = [Worker(f"{prefix}_{name}", work, thread_count=SLOTS) for name, work in KINDS.items()]
    async with TaskHandlerAsyncIO(workers=workers, configuration=Configuration(url)) as handler:
        await handler.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
