"""Calling a worker's function: on the loop or in a thread. Every ending becomes one value; nothing is raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from conductor.client.automator.lease import Lease, Stop
from conductor.client.automator.thread_pool import Given, ThreadPool
from conductor.client.context.task_context import task_context
from conductor.client.event.task_runner_events import TaskExecutionCompleted, TaskExecutionFailure, TaskExecutionStarted
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.outcome import Ending, call_of, ending_of_error, ending_of_value, handed_back, reason_of
from conductor.client.worker.worker import calls_coroutine

if TYPE_CHECKING:
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.client.worker.worker_interface import WorkerInterface
    from conductor.clock import Clock

logger = logging.getLogger(__name__)

#: How long a cancelled coroutine may clean up before its task is handed back at shutdown.
CLEAN_UP_S = 1.0


class Executor:
    """Runs the tasks of one worker: an `async def` on the event loop, a `def` in a thread of its own pool."""

    def __init__(
        self, worker: WorkerInterface, config: ResolvedConfig, events: SyncEventDispatcher, clock: Clock
    ) -> None:
        self._name = worker.get_task_definition_name()
        self._call = call_of(worker, strict=config.strict_schema)
        self._pool = None if calls_coroutine(worker) else ThreadPool(config.thread_count, f"worker-{self._name}")
        self._worker_id = config.worker_id
        self._events = events
        self._clock = clock

    async def run(self, lease: Lease) -> Execution:
        """Run the task to its end, or until it must be stopped."""
        if lease.stopped is not None:  # before it has begun
            return await Execution(lease, _nothing_to_run()).settled()
        task = lease.task
        about = (self._name, task.task_id, self._worker_id, task.workflow_instance_id)
        self._events.emit(TaskExecutionStarted, *about)
        started = self._clock.monotonic()
        with task_context(lease.context):
            execution = await self._work(lease)
        ending = execution.ending
        took_ms = (self._clock.monotonic() - started) * 1000
        if ending is None or lease.stopped is Stop.SHUTDOWN:
            return execution
        if ending.cause is None:
            self._events.emit(TaskExecutionCompleted, *about, took_ms, len(ending.output))
        else:
            _log_failure(lease, ending.cause)
            self._events.emit(TaskExecutionFailure, *about, ending.cause, took_ms)
        return execution

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.close()

    async def _work(self, lease: Lease) -> Execution:
        if self._pool is None:
            execution = Execution(lease, asyncio.ensure_future(_awaited(self._call, lease.task)))
        else:
            execution = Execution(lease, self._pool.submit(lambda: self._call(lease.task)))
        await execution.ended()
        if execution.given is not None and inspect.isawaitable(execution.given[0]):
            # A `def` that returned an awaitable: the rest of it belongs on the loop.
            execution = Execution(lease, asyncio.ensure_future(_awaited(_same, execution.given[0])))
            await execution.ended()
        return await execution.settled()


class Execution:
    """A function at work for a lease: until it returns, or is told to stop, whichever comes first."""

    def __init__(self, lease: Lease, running: asyncio.Future[Given]) -> None:
        self._lease = lease
        self._running = running
        self._over: asyncio.Future[None] = running.get_loop().create_future()
        #: What the function gave, when it came to its own end.
        self.given: Given | None = None
        #: What is to be reported; None when there is nothing to say.
        self.ending: Ending | None = None

    @property
    def returned(self) -> bool:
        """Whether the function is really over; a `def` cannot be stopped and may go on."""
        return self._running.done()

    async def ended(self) -> None:
        """Wait for the function, or for the order to stop it."""
        self._running.add_done_callback(self._finish)
        self._lease.on_stop(self._stop)
        try:
            await self._over
        finally:
            self._lease.on_stop(None)
        if self._lease.stopped is None and not self._running.cancelled():
            self.given = self._running.result()

    async def settled(self) -> Execution:
        """Turn what happened into what is reported."""
        lease, context = self._lease, self._lease.context
        if lease.stopped is None and self.given is not None:
            value, error = self.given
            self.ending = ending_of_value(value, context) if error is None else ending_of_error(error, context)
        elif lease.stopped is Stop.TIMED_OUT:
            self.ending = ending_of_error(TimeoutError(lease.stop_reason), context)
        elif lease.stopped is Stop.SHUTDOWN:
            if isinstance(self._running, asyncio.Task):
                await asyncio.wait({self._running}, timeout=CLEAN_UP_S)
            self.ending = handed_back(context, reason=Stop.SHUTDOWN.value, callback_after_seconds=1)
        return self

    async def function_over(self) -> None:
        """Wait until the function has really returned, and not for its outcome."""
        if not self._running.done():
            await asyncio.wait({self._running})

    def _stop(self) -> None:
        if isinstance(self._running, asyncio.Task):
            self._running.cancel()
        self._finish(None)

    def _finish(self, _: object) -> None:
        if not self._over.done():
            self._over.set_result(None)


def _nothing_to_run() -> asyncio.Future[Given]:
    over: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
    over.set_result((None, None))
    return over


async def _awaited(call: Callable[[Any], Awaitable[Any]], argument: Any) -> Given:
    """Await it, and never raise: SystemExit from a task would end the event loop."""
    working = asyncio.current_task()
    try:
        return await call(argument), None
    except BaseException as error:
        if isinstance(error, GeneratorExit) and _current_task() is not working:
            raise  # not the function's own: this coroutine is being thrown away
        return None, error


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs any more
        return None


def _same(value: Awaitable[Any]) -> Awaitable[Any]:
    return value


def _log_failure(lease: Lease, error: BaseException) -> None:
    reason = reason_of(error)  # not the error itself: an exception may fail to give its message
    if isinstance(error, NonRetryableException):
        logger.error("Task failed with terminal error (no retry): %s", reason)
    else:
        logger.warning("Task %s of '%s' failed: %s", lease.task.task_id, lease.context.task_def_name, reason)
