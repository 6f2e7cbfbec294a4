"""Calling a worker's function: on the loop or in a thread. However it ends is one value; nothing is raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.automator.thread_pool import CallResult, ThreadPool
from conductor.client.context.task_context import CURRENT_CONTEXT
from conductor.client.event.task_runner_events import TaskExecutionCompleted, TaskExecutionFailure, TaskExecutionStarted
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.outcome import (
    TaskOutcome,
    format_reason,
    format_trace,
    is_from_user_code,
    make_error_outcome,
    make_outcome,
    make_requeue_outcome,
    make_timeout_outcome,
)
from conductor.client.worker.worker import make_call, runs_coroutine

if TYPE_CHECKING:
    from conductor.client.automator.session import Session
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: How long a cancelled coroutine may clean up before its task is handed back at shutdown.
CLEAN_UP_S = 1.0


class Executor:
    """Runs the tasks of one worker: an `async def` where it is carried, a `def` in a thread of its own pool.

    The engine never gives it more tasks than the worker has slots.
    """

    def __init__(self, worker: WorkerInterface, config: ResolvedConfig, session: Session) -> None:
        name, slots = worker.get_task_definition_name(), config.thread_count
        self._session = session
        self._events = session.events
        self._heard = session.events.heard
        self._clock = session.clock
        self._call = make_call(worker, strict=config.strict_schema, resources=session.resources)
        self._poison_limit = config.poison_limit
        self._marks = session.journal.marks if session.journal is not None else None
        if self._marks is not None:
            noted = self._marks.around_coroutine if runs_coroutine(worker) else self._marks.around
            self._call = noted(self._call, config.poison_limit)
        self._pool = (
            None
            if runs_coroutine(worker)
            else ThreadPool(slots, f"worker-{name}", session.clock.monotonic, self._begin)
        )

    async def run(self, running: RunningTask) -> TaskOutcome | None:
        """Run the task's function until it has really returned. None: it was stopped meanwhile."""
        context, trace = running.context, running.trace
        error: BaseException | None = None
        token = CURRENT_CONTEXT.set(context)
        if trace is not None:
            trace.start_execution()
        try:
            if self._pool is None:
                value, error = await self._awaited(self._call, running.task, running)
            else:
                value, error = await self._pool.submit(self._call, running)
            if type(value) is not dict and error is None and inspect.isawaitable(value) and running.stopped is None:
                value, error = await self._awaited(self._rest_of(running), value, running)
        finally:
            if trace is not None:
                trace.end_execution(error)
            CURRENT_CONTEXT.reset(token)
        if running.stopped is not None:
            return None
        running.on_stop = None
        took_s = running.took_s
        context.closed = True
        if running.said is not None and running.said.under_way:
            await running.said.answered()
        outcome = make_outcome(value, context) if error is None else make_error_outcome(error, context)
        if outcome.cause is not None:
            self._tell_failure(running, outcome.cause)
        elif TaskExecutionCompleted in self._heard:
            self._events.emit(TaskExecutionCompleted, *running.about, took_s * 1000, len(outcome.output))
        return outcome

    def withdraw(self, running: RunningTask) -> None:
        """Do not call the function of a task that is about to be stopped, if no thread has taken it yet."""
        if self._pool is not None:
            self._pool.withdraw(running)

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
            never_started = not running.has_begun
            return make_requeue_outcome(
                running.context, reason=Stop.SHUTDOWN.value, callback_after_seconds=1, never_started=never_started
            )
        outcome = make_timeout_outcome(running.stop_reason, running.context)
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

    def _rest_of(self, running: RunningTask) -> Callable[[Any], Awaitable[Any]]:
        """Return what awaits the rest of a function that has returned an awaitable."""
        if self._marks is None:
            return _same
        return partial(self._marks.await_noted, task_id=running.task.task_id, poison_limit=self._poison_limit)

    async def _awaited(self, call: Callable[[Any], Awaitable[Any]], argument: Any, running: RunningTask) -> CallResult:
        """Await it, and never raise: SystemExit from a task would end the event loop."""
        running.on_loop = True
        try:
            if call is self._call:
                self._begin(running)
            return await call(argument), None
        except BaseException as error:
            if self._is_the_end(error, running):
                raise
            return None, error
        finally:
            running.on_loop = False
            running.took_s = self._clock.monotonic() - running.began

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
    reason = format_reason(error)
    trace = f"\n{format_trace(error).rstrip()}" if running.config.log_tracebacks and is_from_user_code(error) else ""
    if isinstance(error, NonRetryableException):
        logger.error("Task failed with terminal error (no retry): %s %s%s", reason, running.label, trace)
    else:
        text = "Task %s of '%s' failed: %s %s%s"
        logger.warning(text, running.task.task_id, running.about[0], reason, running.label, trace)
