"""Ten workers as existing programs have them: `python _compared_program.py URL [asyncio]`.

The program runs unchanged under conductor-python and conductor-worker. Only conductor-worker has `asyncio`, which runs
all workers in one process.
"""

import asyncio
import logging
import sys
from typing import Any

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_task import worker_task

WORKERS = 10


def function(n: int) -> dict[str, Any]:
    return {"n": n}


async def coroutine(n: int) -> dict[str, Any]:
    return {"n": n}


async def in_one_process(configuration: Configuration) -> None:
    """Run all workers on one event loop."""
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO

    async with TaskHandlerAsyncIO(configuration=configuration) as handler:
        await handler.wait()


for number in range(WORKERS):
    worker_task(task_definition_name=f"compared_{number}", thread_count=10)(coroutine if number % 2 else function)

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    configuration = Configuration(server_api_url=sys.argv[1])
    if "asyncio" in sys.argv:
        asyncio.run(in_one_process(configuration))
    else:
        with TaskHandler(configuration=configuration) as handler:
            handler.start_processes()
            handler.join_processes()
