"""Calls a worker's function, on the event loop or on a thread, and turns its result or error into an outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.automator.thread_pool import ThreadPool
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
    make_suspended_outcome,
    make_timeout_outcome,
)
from conductor.client.worker.worker import make_call, runs_coroutine

if TYPE_CHECKING:
    from conductor.client.automator.session import Session
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: At shutdown, a cancelled coroutine has this long to clean up before its task is requeued.
CLEAN_UP_S = 1.0


class Executor:
    """Executes the tasks of one worker: an `async def` on the event loop, a `def` on a thread pool of its own.

    The engine never passes in more tasks than the worker has slots.
    """

    def __init__(self, worker: WorkerInterface, config: ResolvedConfig, session: Session) -> None:
        self._session = session
        self._events = session.events
        self._clock = session.clock
        self._isolation = session.isolation
        self._call = make_call(worker, strict=config.strict_schema, resources=session.resources)
        self._poison_limit = config.poison_limit
        self._marks = session.journal.marks if session.journal is not None else None
        self._pool: ThreadPool | None = None
        if not runs_coroutine(worker):
            name = f"worker-{worker.get_task_definition_name()}"
            self._pool = ThreadPool(config.thread_count, name, session.clock.monotonic)

    async def run(self, running: RunningTask) -> TaskOutcome | None:
        """Execute a task as soon as `Isolation` lets it begin.

        Returns:
            The outcome, after the function has returned; None if the task was stopped before.
        """
        running.is_executing = running.is_awaited = True
        try:
            return await self._isolation.run(self._execute, running)
        finally:
            running.is_executing = running.is_awaited = False

    async def _execute(self, running: RunningTask) -> TaskOutcome | None:
        context, trace = running.context, running.trace
        error: BaseException | None = None
        token = CURRENT_CONTEXT.set(context)
        if trace is not None:
            trace.start_execution()
        running.has_begun = True
        running.began = self._clock.monotonic()
        self._events.emit(TaskExecutionStarted, *running.about)
        try:
            if self._pool is None:
                value, error = await self._await(self._call, running.task, running)
            else:
                running.is_awaited = False
                function = self._call if self._marks is None else self._call_marked
                running.call = self._pool.submit(function, running.task)
                value, error, running.took_s = await running.call
            # A `def` may return an awaitable. A dict is excluded first, because `isawaitable` is slow.
            if type(value) is not dict and error is None and inspect.isawaitable(value) and running.stopped is None:
                value, error = await self._await(_return_unchanged, value, running)
        finally:
            if context.durable is not None and context.durable.is_suspended:
                error = None  # `Suspended` is not a failure
            if trace is not None:
                trace.end_execution(error)
            CURRENT_CONTEXT.reset(token)
        if running.stopped is not None:
            return None
        running.is_executing = False
        await self._close_context(running)
        if context.durable is not None:
            return await self._end_steps(value, error, running)
        return self._make_outcome(value, error, running)

    async def _end_steps(self, value: Any, error: BaseException | None, running: RunningTask) -> TaskOutcome:
        """Return the outcome of a function that has used durable steps."""
        context, run = running.context, running.context.durable
        run.close()
        if run.is_killed:
            return make_requeue_outcome(context, reason="the test has killed the worker", callback_after_seconds=0)
        if run.is_suspended:
            try:
                steps, callback_s = await run.suspend()
            except Exception as failure:  # for example, the disk is full
                return self._make_outcome(None, failure, running)
            outcome = make_suspended_outcome(context, steps, callback_s)
            self._events.emit(TaskExecutionCompleted, *running.about, running.took_s * 1000, len(outcome.output))
            return outcome
        outcome = self._make_outcome(value, error, running)
        if error is not None:
            outcome.result.forget_steps = await run.forget_failures(error) or None
            return outcome
        if forgotten := run.list_not_begun():
            logger.warning(
                "The function did not await durable operations, so they did not run; write `await` before them: %s %s",
                ", ".join(forgotten[:10]),
                running.label,
            )
        if unused := run.list_unused():
            logger.warning(
                "The function ended without reaching recorded steps, so its code may have changed: steps=%s %s",
                ", ".join(unused[:10]),
                running.label,
            )
        return outcome

    def _make_outcome(self, value: Any, error: BaseException | None, running: RunningTask) -> TaskOutcome:
        context = running.context
        outcome = make_outcome(value, context) if error is None else make_error_outcome(error, context)
        if outcome.cause is not None:
            self._on_failure(running, outcome.cause)
        else:
            self._events.emit(TaskExecutionCompleted, *running.about, running.took_s * 1000, len(outcome.output))
        return outcome

    def _call_marked(self, task: Any) -> Any:
        """Call the function on a thread and return its value. The task has an execution mark during the call."""
        assert self._marks is not None  # noqa: S101
        slot = self._marks.begin(task.task_id, self._poison_limit)
        try:
            return self._call(task)
        finally:
            self._marks.end(slot)

    async def _await(
        self, call: Callable[[Any], Awaitable[Any]], argument: Any, running: RunningTask
    ) -> tuple[Any, BaseException | None]:
        """Await the call while its task has an execution mark. Return the value and the error of the call.

        The error is returned and not raised, because a raised SystemExit would end the event loop.
        """
        running.is_awaited = True
        slot = None if self._marks is None else self._marks.begin(running.task.task_id, self._poison_limit)
        try:
            return await call(argument), None
        except BaseException as error:
            if self._ends_the_loop(error, running):
                raise
            return None, error
        finally:
            if self._marks is not None:
                self._marks.end(slot)
            running.is_awaited = False
            running.took_s = self._clock.monotonic() - running.began

    def _ends_the_loop(self, error: BaseException, running: RunningTask) -> bool:
        """Return whether the error was raised because the event loop ends, and not by the function."""
        if isinstance(error, GeneratorExit):
            try:
                return asyncio.current_task() is not running.processing
            except RuntimeError:  # no loop is running any more
                return running.processing is not None
        task = running.processing
        is_cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
        return is_cancelled and running.stopped is None and self._session.is_cancelled

    async def _close_context(self, running: RunningTask) -> None:
        """Stop sending progress, and wait for an update in flight, so that the report is sent last."""
        running.context.closed = True
        if running.progress.in_flight:
            await running.progress.wait_for_answer()

    def interrupt(self, running: RunningTask) -> None:
        """Interrupt the function of a stopped task. A function that already runs on a thread cannot be interrupted."""
        if running.context.durable is not None:
            running.context.durable.close()
        if running.is_awaited and running.processing is not None:
            running.processing.cancel()
        elif self._pool is not None and running.call is not None:
            self._pool.withdraw(running.call)

    async def make_stop_outcome(self, running: RunningTask) -> TaskOutcome | None:
        """Return the outcome to report for a stopped task, whose function may still run; None if the task is lost."""
        if running.stopped is Stop.LOST:
            return None
        if running.stopped is Stop.SHUTDOWN and running.is_awaited and running.returned is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLEAN_UP_S):
                    await running.returned.wait()
        await self._close_context(running)
        if running.stopped is Stop.SHUTDOWN:
            never_started = not running.has_begun
            return make_requeue_outcome(
                running.context, reason=Stop.SHUTDOWN.value, callback_after_seconds=1, never_started=never_started
            )
        outcome = make_timeout_outcome(running.stop_reason, running.context)
        running.took_s = self._clock.monotonic() - running.began
        if outcome.cause is not None:
            self._on_failure(running, outcome.cause)
        return outcome

    def _on_failure(self, running: RunningTask, error: BaseException) -> None:
        # `format_reason` is needed because `str(error)` may raise, or return text that cannot be encoded.
        reason = format_reason(error)
        trace = (
            f"\n{format_trace(error).rstrip()}" if running.config.log_tracebacks and is_from_user_code(error) else ""
        )
        if isinstance(error, NonRetryableException):
            logger.error("Task failed with terminal error (no retry): %s %s%s", reason, running.label, trace)
        else:
            logger.warning("Task failed: %s %s%s", reason, running.label, trace)
        self._events.emit(TaskExecutionFailure, *running.about, error, running.took_s * 1000)

    def close(self) -> None:
        """End the idle threads. Busy threads end after their call."""
        if self._pool is not None:
            self._pool.close()


def _return_unchanged(value: Awaitable[Any]) -> Awaitable[Any]:
    return value
