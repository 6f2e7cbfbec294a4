"""Calling a worker's function: on the loop or in a thread. However it ends is one value; nothing is raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.automator.thread_pool import CallResult, ThreadPool
from conductor.client.context.task_context import CURRENT_CONTEXT
from conductor.client.event.task_runner_events import TaskExecutionCompleted, TaskExecutionFailure, TaskExecutionStarted
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.outcome import (
    TaskOutcome,
    came_from_user,
    hand_back,
    outcome_of_error,
    outcome_of_timeout,
    outcome_of_value,
    reason_of,
    trace_of,
)
from conductor.client.worker.worker import call_of, calls_coroutine

if TYPE_CHECKING:
    from conductor.client.automator.session import Session
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: What is taken for the pace of a worker whose tasks nobody has seen yet, in seconds, and what each further task counts
#: for: after some fifty short ones it is known to be quick, and one that is slow is noticed at once.
UNKNOWN_PACE_S, NEWEST_SHARE = 1.0, 0.1
#: How long a cancelled coroutine may clean up before its task is handed back at shutdown.
CLEAN_UP_S = 1.0


class Executor:
    """Runs the tasks of one worker: an `async def` where it is carried, a `def` in a thread of its own pool.

    It may be given more tasks than it has slots: they wait for one, in their order.
    """

    def __init__(self, worker: WorkerInterface, config: ResolvedConfig, session: Session) -> None:
        name, slots = worker.get_task_definition_name(), config.thread_count
        self._session = session
        self._events = session.events
        self._heard = session.events.heard
        self._clock = session.clock
        self._call = call_of(worker, strict=config.strict_schema, resources=session.resources)
        self._pool = (
            None
            if calls_coroutine(worker)
            else ThreadPool(slots, f"worker-{name}", session.clock.monotonic, self._begin)
        )
        #: Slots for functions that are awaited, and who waits for one; the others have their threads.
        self._free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: How long a function takes, lately and on average, in seconds.
        self.pace_s = UNKNOWN_PACE_S

    async def run(self, running: RunningTask) -> TaskOutcome | None:
        """Run the task's function until it has really returned. None: it was stopped meanwhile."""
        context, trace = running.context, running.trace
        error: BaseException | None = None
        token = CURRENT_CONTEXT.set(context)
        if trace is not None:
            trace.begin_execution()
        try:
            if self._pool is None:
                value, error = await self._awaited(self._call, running.task, running)
            else:
                value, error = await self._pool.submit(self._call, running)
            if type(value) is not dict and error is None and inspect.isawaitable(value) and running.stopped is None:
                value, error = await self._rest(value, running)
        finally:
            if trace is not None:
                trace.end_execution(error)
            CURRENT_CONTEXT.reset(token)
        if running.stopped is not None:
            return None
        running.on_stop = None
        took_s = running.took_s
        if self.pace_s < math.inf:
            self.pace_s += (took_s - self.pace_s) * NEWEST_SHARE
        context.closed = True
        if running.said is not None and running.said.under_way:
            await running.said.answered()
        outcome = outcome_of_value(value, context) if error is None else outcome_of_error(error, context)
        if outcome.cause is not None:
            self._tell_failure(running, outcome.cause)
        elif TaskExecutionCompleted in self._heard:
            self._events.emit(TaskExecutionCompleted, *running.about, took_s * 1000, len(outcome.output))
        return outcome

    def take_back(self, running: RunningTask) -> bool:
        """Do not begin with a task that waits for a slot, and is about to be stopped. False: it does not wait."""
        if self._pool is not None:
            return self._pool.take_back(running)
        return running.on_loop and not running.has_begun

    async def stopped(self, running: RunningTask) -> TaskOutcome | None:
        """What is to be said about a task that was stopped, whether its function goes on or not; if lost, nothing."""
        if running.stopped is Stop.LOST:
            return None
        if running.stopped is Stop.SHUTDOWN and running.on_loop:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLEAN_UP_S):
                    await running.returned.wait()
        running.context.closed = True
        if running.said is not None and running.said.under_way:
            await running.said.answered()
        if running.stopped is Stop.SHUTDOWN:
            return hand_back(running.context, reason=Stop.SHUTDOWN.value, callback_after_seconds=1)
        if running.stopped is Stop.NO_SLOT:
            return hand_back(running.context, reason=Stop.NO_SLOT.value, callback_after_seconds=0)
        outcome = outcome_of_timeout(running.stop_reason, running.context)
        running.took_s = self._clock.monotonic() - running.began
        if outcome.cause is not None:
            self._tell_failure(running, outcome.cause)
        return outcome

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.close()

    def _begin(self, running: RunningTask) -> None:
        running.has_begun = True
        running.began = self._clock.monotonic()
        if TaskExecutionStarted in self._heard:
            self._events.emit(TaskExecutionStarted, *running.about)

    async def _rest(self, value: Awaitable[Any], running: RunningTask) -> CallResult:
        """A function that returned an awaitable: the rest of it belongs on the loop.

        The thread of a `def` is free by then, so such a worker never gets more tasks than it has slots.
        """
        self.pace_s = math.inf
        return await self._awaited(_same, value, running)

    async def _awaited(self, call: Callable[[Any], Awaitable[Any]], argument: Any, running: RunningTask) -> CallResult:
        """Await it, and never raise: SystemExit from a task would end the event loop."""
        running.on_loop = True
        has_slot = False
        try:
            if self._free > 0:
                self._free -= 1
            else:
                await self._slot()
            has_slot = True
            if call is self._call:
                self._begin(running)
            return await call(argument), None
        except BaseException as error:
            if self._is_the_end(error, running):
                raise
            return None, error
        finally:
            running.on_loop = False
            if has_slot:
                running.took_s = self._clock.monotonic() - running.began
                self._leave_slot()

    async def _slot(self) -> None:
        """Wait for a slot, behind those who wait already."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except BaseException:
            if not waiting.cancelled():  # its turn had come
                self._leave_slot()
            raise

    def _leave_slot(self) -> None:
        """Hand it to who has waited longest."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free += 1

    def _is_the_end(self, error: BaseException, running: RunningTask) -> bool:
        """Whether it did not come from the function: everything on the loop is cancelled, or thrown away."""
        carrying = running.carried_by
        if isinstance(error, GeneratorExit):
            return _current_task() is not carrying
        cancelled = isinstance(error, asyncio.CancelledError) and carrying is not None and carrying.cancelling() > 0
        return cancelled and running.stopped is None and self._session.is_cancelled

    def _tell_failure(self, running: RunningTask, cause: BaseException) -> None:
        _log_failure(running, cause)
        self._events.emit(TaskExecutionFailure, *running.about, cause, running.took_s * 1000)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs any more
        return None


def _same(value: Awaitable[Any]) -> Awaitable[Any]:
    return value


def _log_failure(running: RunningTask, error: BaseException) -> None:
    # Texts, not the error itself: an exception may fail to give its message, or give one that no file can hold.
    reason = reason_of(error)
    trace = f"\n{trace_of(error).rstrip()}" if running.config.log_tracebacks and came_from_user(error) else ""
    if isinstance(error, NonRetryableException):
        logger.error("Task failed with terminal error (no retry): %s %s%s", reason, running.label, trace)
    else:
        text = "Task %s of '%s' failed: %s %s%s"
        logger.warning(text, running.task.task_id, running.about[0], reason, running.label, trace)
