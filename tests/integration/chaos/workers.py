"""The workers under chaos, as a program: `python workers.py URL LEDGER together|apart`.

`together` runs both in one process, `apart` each in a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any

from ledger import Ledger
from work import Work

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    TaskLeaseLost,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    TaskUpdateFailure,
)
from conductor.client.http.async_rest import AsyncRESTClientObject, Call, Response
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker_task import worker_task

ledger = Ledger(sys.argv[2])
#: The lease and token under which this process last worked on a task.
in_hand: dict[str, dict[str, Any]] = {}


def begin(plan: dict[str, Any]) -> tuple[Work, str]:
    context = get_task_context()
    lease = context.task.lease_id
    work = Work(ledger, plan, task=context.task_id, lease=lease)
    in_hand[context.task_id] = {"lease": lease, "token": work.token}
    ending = work.ending(context.retry_count, context.poll_count)
    if ending == "fail":
        raise RuntimeError("planned failure")
    if ending == "refuse":
        raise NonRetryableException("planned refusal")
    return work, ending


@worker_task(task_definition_name="chaos_sync", thread_count=12)
def work_in_a_thread(plan: dict[str, Any]) -> object:
    context = get_task_context()
    work, ending = begin(plan)
    if ending == "later":
        return TaskInProgress(callback_after_seconds=1)
    context.wait_cancelled(work.half_s)
    context.raise_if_cancelled()
    work.effect()
    context.wait_cancelled(work.half_s)
    return work.ended()


@worker_task(task_definition_name="chaos_async", thread_count=25)
async def work_on_the_loop(plan: dict[str, Any]) -> object:
    work, ending = begin(plan)
    if ending == "later":
        return TaskInProgress(callback_after_seconds=0)
    await asyncio.sleep(work.half_s)
    work.effect()
    await asyncio.sleep(work.half_s)
    return work.ended()


class Told(TaskRunnerEventsListener):
    """Writes down what the worker was told."""

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        ledger.write(
            "verdict", task=event.task_id, verdict=event.verdict, reason=event.reason, **in_hand.get(event.task_id, {})
        )

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        ledger.write("lost", task=event.task_id, reason=event.reason, **in_hand.get(event.task_id, {}))

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        ledger.write("given up", task=event.task_id, journaled=event.journaled, **in_hand.get(event.task_id, {}))


def stamp_requests() -> None:
    """Every request says who sent it and when, so that what was under way is told from what came after."""
    send = AsyncRESTClientObject.send

    async def stamped(self: AsyncRESTClientObject, call: Call) -> Response:
        stamp = {"x-chaos-sent": f"{os.getpid()}-{time.monotonic_ns()}"}
        return await send(self, call._replace(headers={**(call.headers or {}), **stamp}))

    AsyncRESTClientObject.send = stamped  # type: ignore[method-assign]


stamp_requests()


async def together(configuration: Configuration) -> None:
    async with TaskHandlerAsyncIO(configuration=configuration, event_listeners=[Told()]) as handler:
        await handler.wait()


def apart(configuration: Configuration) -> None:
    with TaskHandler(configuration=configuration, event_listeners=[Told()]) as handler:
        handler.start_processes()
        handler.join_processes()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")
    if sys.argv[3] == "together":
        asyncio.run(together(Configuration(sys.argv[1])))
    else:
        apart(Configuration(sys.argv[1]))
