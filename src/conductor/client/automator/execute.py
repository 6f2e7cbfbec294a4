"""Calling a worker's function: on the loop or in a thread. However it ends is one value; nothing is raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.automator.thread_pool import CallResult, ThreadPool
from conductor.client.context.task_context import task_context
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
    from conductor.client.automator.task_trace import TaskTrace
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: How long a cancelled coroutine may clean up before its task is handed back at shutdown.
CLEAN_UP_S = 1.0


class Executor:
    """Runs the tasks of one worker: an `async def` where it is carried, a `def` in a thread of its own pool."""

    def __init__(self, worker: WorkerInterface, config: ResolvedConfig, session: Session) -> None:
        name = worker.get_task_definition_name()
        self._call = call_of(worker, strict=config.strict_schema, resources=session.resources)
        self._pool = None if calls_coroutine(worker) else ThreadPool(config.thread_count, f"worker-{name}")
        self._session = session
        self._events = session.events
        self._clock = session.clock

    async def run(self, running: RunningTask) -> TaskOutcome | None:
        """Run the task's function until it has really returned. None: it was stopped meanwhile."""
        self._events.emit(TaskExecutionStarted, *running.about)
        running.began = self._clock.monotonic()
        with task_context(running.context):
            if running.trace is None:
                value, error = await self._result(running)
            else:
                value, error = await self._traced(running.trace, running)
        if running.stopped is not None:
            return None
        running.on_stop = None
        if running.news.close():
            await running.news.answered()
        context = running.context
        outcome = outcome_of_value(value, context) if error is None else outcome_of_error(error, context)
        self._tell(running, outcome)
        return outcome

    async def stopped(self, running: RunningTask) -> TaskOutcome | None:
        """What is to be said about a task that was stopped, whether its function goes on or not; if lost, nothing."""
        if running.stopped is Stop.LOST:
            return None
        if running.stopped is Stop.SHUTDOWN and running.on_loop:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLEAN_UP_S):
                    await running.returned.wait()
        if running.news.close():
            await running.news.answered()
        if running.stopped is Stop.SHUTDOWN:
            return hand_back(running.context, reason=Stop.SHUTDOWN.value, callback_after_seconds=1)
        outcome = outcome_of_timeout(running.stop_reason, running.context)
        self._tell(running, outcome)
        return outcome

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.close()

    async def _traced(self, trace: TaskTrace, running: RunningTask) -> CallResult:
        error: BaseException | None = None
        trace.begin_execution()
        try:
            value, error = await self._result(running)
        finally:
            trace.end_execution(error)
        return value, error

    async def _result(self, running: RunningTask) -> CallResult:
        if self._pool is None:
            value, error = await self._awaited(self._call, running.task, running)
        else:
            value, error = await self._pool.submit(self._call, running.task)
        if error is None and inspect.isawaitable(value) and running.stopped is None:
            # A function that returned an awaitable: the rest of it belongs on the loop.
            return await self._awaited(_same, value, running)
        return value, error

    async def _awaited(self, call: Callable[[Any], Awaitable[Any]], argument: Any, running: RunningTask) -> CallResult:
        """Await it, and never raise: SystemExit from a task would end the event loop."""
        running.on_loop = True
        try:
            return await call(argument), None
        except BaseException as error:
            if self._is_the_end(error, running):
                raise
            return None, error
        finally:
            running.on_loop = False

    def _is_the_end(self, error: BaseException, running: RunningTask) -> bool:
        """Whether it did not come from the function: everything on the loop is cancelled, or thrown away."""
        carrying = running.carried_by
        if isinstance(error, GeneratorExit):
            return _current_task() is not carrying
        cancelled = isinstance(error, asyncio.CancelledError) and carrying is not None and carrying.cancelling() > 0
        return cancelled and running.stopped is None and self._session.is_cancelled

    def _tell(self, running: RunningTask, outcome: TaskOutcome) -> None:
        took_ms = (self._clock.monotonic() - running.began) * 1000
        if outcome.cause is None:
            self._events.emit(TaskExecutionCompleted, *running.about, took_ms, len(outcome.output))
        else:
            _log_failure(running, outcome.cause)
            self._events.emit(TaskExecutionFailure, *running.about, outcome.cause, took_ms)


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
