"""Workers of conductor-python, one of each kind: `python python_workers.py URL`."""

import asyncio
import sys
import time

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker_task import worker_task


@worker_task(task_definition_name="first", thread_count=10)
def first(n: int) -> dict:
    return {"doubled": 2 * n}


@worker_task(task_definition_name="second", thread_count=10)
async def second(doubled: int) -> dict:
    await asyncio.sleep(0.01)
    return {"sum": doubled + 1}


@worker_task(task_definition_name="flaky")
def flaky(failures: int) -> dict:
    context = get_task_context()
    if context.get_retry_count() < failures:
        raise RuntimeError(f"failure {context.get_retry_count()}")
    return {"attempts": context.get_retry_count() + 1}


@worker_task(task_definition_name="flaky_async")
async def flaky_async(failures: int) -> dict:
    context = get_task_context()
    if context.get_retry_count() < failures:
        raise RuntimeError(f"failure {context.get_retry_count()}")
    return {"attempts": context.get_retry_count() + 1}


@worker_task(task_definition_name="doomed")
def doomed() -> dict:
    raise NonRetryableException("no such order")


@worker_task(task_definition_name="patient")
def patient(rounds: int) -> object:
    polls = get_task_context().get_poll_count()
    if polls < rounds:
        return TaskInProgress(callback_after_seconds=1, output={"polls": polls})
    return {"polls": polls}


@worker_task(task_definition_name="painted", domain="blue")
def painted_blue() -> dict:
    return {"colour": "blue"}


@worker_task(task_definition_name="long", lease_extend_enabled=True)
def long(seconds: float) -> dict:
    time.sleep(seconds)
    return {"slept": seconds}


@worker_task(task_definition_name="long_async", lease_extend_enabled=True)
async def long_async(seconds: float) -> dict:
    await asyncio.sleep(seconds)
    return {"slept": seconds}


@worker_task(task_definition_name="late", thread_count=1)
def late(seconds: float) -> dict:
    time.sleep(seconds)
    return {"slept": seconds}


@worker_task(task_definition_name="talkative")
def talkative() -> dict:
    get_task_context().add_log("one")
    get_task_context().add_log("two")
    return {}


if __name__ == "__main__":
    with TaskHandler(configuration=Configuration(server_api_url=sys.argv[1])) as handler:
        handler.start_processes()
        handler.join_processes()
