"""The workers under chaos, as a program: `python workers.py URL LOG together|apart`.

`together` runs both in one process, `apart` each in a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import deque
from typing import Any

from execution_log import ExecutionLog
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

execution_log = ExecutionLog(sys.argv[2])


class Executions:
    """Which execution an event is about: a task that was handed back may run again before the verdict on that is here.

    Events name tasks, not leases. Those about one task come in the order of its executions, nearly always.
    """

    def __init__(self) -> None:
        self._open: dict[str, deque[dict[str, Any]]] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._lost: dict[tuple[str, str], dict[str, Any]] = {}

    def begin(self, task_id: str, about: dict[str, Any]) -> None:
        """Register one more execution, with the lease and the token in `about`."""
        self._open.setdefault(task_id, deque()).append(about)

    def judged(self, task_id: str, reason: str | None) -> dict[str, Any]:
        """There is a verdict on the first of them; or on one that was lost before, for the same reason."""
        return self._lost.pop((task_id, reason or ""), None) or self._over(task_id)

    def lost(self, task_id: str, reason: str) -> dict[str, Any]:
        """The lease of the first of them is lost; that may be said once more, as a verdict."""
        found = self._lost[task_id, reason] = self._over(task_id)
        return found

    def at_hand(self, task_id: str) -> dict[str, Any]:
        """The first of them, which goes on."""
        return self._open[task_id][0] if self._open.get(task_id) else self._last.get(task_id, {})

    def _over(self, task_id: str) -> dict[str, Any]:
        found = self.at_hand(task_id)
        if self._open.get(task_id):
            self._open[task_id].popleft()
        self._last[task_id] = found
        return found


in_hand = Executions()


def begin(plan: dict[str, Any]) -> tuple[Work, str]:
    context = get_task_context()
    lease = context.task.lease_id
    work = Work(execution_log, plan, task=context.task_id, lease=lease)
    in_hand.begin(context.task_id, {"lease": lease, "token": work.token})
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
    time.sleep(plan.get("blocks", 0))  # noqa: ASYNC251 (some plans block the event loop on purpose)
    await asyncio.sleep(work.half_s)
    work.effect()
    await asyncio.sleep(work.half_s)
    return work.ended()


class Told(TaskRunnerEventsListener):
    """Writes down what the worker was told."""

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        about = in_hand.judged(event.task_id, event.reason)
        execution_log.write("verdict", task=event.task_id, verdict=event.verdict, reason=event.reason, **about)

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        execution_log.write(
            "lost", task=event.task_id, reason=event.reason, **in_hand.lost(event.task_id, event.reason)
        )

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        execution_log.write("given up", task=event.task_id, journaled=event.journaled, **in_hand.at_hand(event.task_id))


def stamp_requests() -> None:
    """Add the sender and the time to every request, so that requests in flight differ from later ones."""
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
