"""A worker that does nothing, unchanged under conductor-python and conductor-worker.

`python conductor_noop.py URL async|def THREADS`
"""

import logging
import sys

import progress

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_task import worker_task


def function(n: int) -> dict:
    progress.task(n)
    return {"n": n}


async def coroutine(n: int) -> dict:
    progress.task(n)
    return {"n": n}


worker_task(task_definition_name="noop", thread_count=int(sys.argv[3]))(
    coroutine if sys.argv[2] == "async" else function
)

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    with TaskHandler(configuration=Configuration(server_api_url=sys.argv[1])) as handler:
        handler.start_processes()
        handler.join_processes()
