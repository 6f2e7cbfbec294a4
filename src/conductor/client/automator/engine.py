"""The engine of a worker: keeps its slots full, and executes and reports each task until the verdict.

`run` polls until `stop_polling`, and calls `process_task` for each task. A drain calls `wait_until_reported`, and after
the grace period `requeue_running` and `cancel_running`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from conductor.client.automator.executor import CLEAN_UP_S, Executor
from conductor.client.automator.journal import HeldTask
from conductor.client.automator.poller import Poller, PollTask
from conductor.client.automator.prefetch import PrefetchQueue
from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.automator.task_trace import find_queue_times, start_task_trace
from conductor.client.context.task_context import TaskContext
from conductor.client.event.task_runner_events import WorkerStarted, WorkerStopped, WorkerStopping
from conductor.client.worker.worker import find_start_warnings
from conductor.client.worker.worker_config import ResolvedConfig, format_start_line
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.client.automator.delivery import ReportAnswer
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.automator.session import Session
    from conductor.client.worker.outcome import TaskOutcome
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: The engine starts to poll after this time even if the registration is not finished, which then continues in the
#: background.
REGISTRATION_S = 5.0
#: An abandoned poll is cancelled if it is not answered within its poll timeout plus this time.
ABANDONED_POLL_GRACE_S = 2.0
#: If a function continues for this long after its task was stopped, a warning is logged.
STOP_NOTICE_S = 1.0


class Engine:
    """Runs one worker on the current event loop. The worker continues after any error in a task."""

    def __init__(self, worker: WorkerInterface, config: ResolvedConfig, session: Session) -> None:
        self.name = worker.get_task_definition_name()
        self.config = config
        self._worker = worker
        self._session = session
        self._events = session.events
        self._clock = session.clock
        self._journal = session.journal
        self._leases = session.leases
        self._isolation = session.isolation
        self._reporter = session.reporter
        self._executor = Executor(worker, config, session)
        self._poller = Poller(self.name, config, session)
        self._tracer = tracing.tracer
        #: Whether the worker takes no new tasks for now.
        self.paused = config.paused
        self._stopping = asyncio.Event()
        #: Set when a slot becomes free, and by pause, resume and stop.
        self._changed = asyncio.Event()
        session.isolation.on_open.append(self._changed.set)
        self._polling: PollTask | None = None
        self._running: set[RunningTask] = set()
        #: The number of tasks in `_running` whose result is being reported. They occupy no slot.
        self._reporting = 0
        #: Answers to reports that contain a next task. Those of one tick of the event loop are accepted together.
        self._answers_with_task: list[ReportAnswer] = []
        self._prefetched = PrefetchQueue(config, session, self._changed.set)
        self._background: set[asyncio.Task[None]] = set()
        #: Whether reports may request the next task: True in `run`, False in `run_once`.
        self._asks_with_reports = False
        #: True after the grace period: tasks that still arrive are requeued without being executed.
        self._grace_is_over = False
        #: The number of slots that are occupied by functions of stopped tasks.
        self.stuck = 0
        #: The number of unfinished tasks that were requeued at shutdown.
        self.requeued = 0

    @property
    def running_count(self) -> int:
        """The number of tasks that are being executed or reported."""
        return len(self._running)

    @property
    def is_polling(self) -> bool:
        """Whether a poll is in flight."""
        return self._polling is not None

    @property
    def slots_in_use(self) -> int:
        """The number of occupied slots."""
        return min(len(self._running), self.config.thread_count)

    def _count_free(self) -> int:
        """Return how many more tasks the worker may hold: its free slots and its free places for prefetched tasks."""
        free = self.config.thread_count - len(self._running) - len(self._answers_with_task)
        return free + self._prefetched.allowance() - self._prefetched.held if self.config.prefetch else free

    async def run(self) -> None:
        """Poll, execute and report until `stop_polling`."""
        if self._session.configuration.logs_worker_options:
            logger.info("%s", format_start_line(self.config, self.name, os.getpid()))
        for warning in find_start_warnings(self._worker, self.config):
            logger.warning("%s", warning)
        if self.config.register_task_def:
            from conductor.client.automator.registration import register

            registering = self._spawn(register(self._worker, self.config, self._session.client))
            await asyncio.wait({registering}, timeout=REGISTRATION_S)
        self._events.emit(WorkerStarted, self.name, self.config.worker_id, self.config.thread_count)
        self._asks_with_reports = True
        while not self._stopping.is_set():
            await self._poll_or_wait()

    async def run_once(self) -> int:
        """Poll once, execute the tasks, and wait until each has its verdict. Return the number of tasks."""
        grants = [] if self.paused else await self._poller.poll(self.config.thread_count)
        await asyncio.gather(*self._accept(grants))
        return len(grants)

    async def _poll_or_wait(self) -> None:
        free = self._count_free()
        if free <= 0 or self.paused or self._isolation.closed:
            # No timeout is needed: everything that allows another poll sets `_changed`.
            self._changed.clear()
            await self._changed.wait()
            return
        self._polling = PollTask(self._poller.poll(free))
        try:
            grants = await asyncio.shield(self._polling)
        finally:
            self._polling = None
        self._accept(grants)
        if self._poller.wait_s:
            await self._clock.wait(self._stopping, self._poller.wait_s)

    def _accept(self, grants: list[Grant]) -> list[asyncio.Task[None]]:
        """Add the tasks to the journal, so that another process requeues them if this one dies.

        Then start them, or hold them until a slot is free. Return the asyncio tasks that were started.
        """
        if not grants:
            return []
        if self._journal is not None:
            now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
            self._journal.add_tasks([HeldTask.of(grant, self.config.worker_id, now, now_ms) for grant in grants])
        if not self.config.prefetch:
            return [self._start(grant) for grant in grants]
        self._prefetched.on_polled(grants)
        started = self._start_prefetched()
        for grant in grants:
            if self._has_free_slot():
                started.append(self._start(grant))
            else:
                self._prefetched.put(grant)
        return started

    def _has_free_slot(self) -> bool:
        """With `prefetch`: return whether fewer functions run than the worker has slots."""
        return len(self._running) - self._reporting < self.config.thread_count

    def _start_prefetched(self) -> list[asyncio.Task[None]]:
        started = []
        while self._has_free_slot() and (grant := self._prefetched.take()) is not None:
            started.append(self._start(grant))
        return started

    def _start(self, grant: Grant) -> asyncio.Task[None]:
        context = TaskContext(grant.task, self.config.worker_id, self.config.task_log_level)
        running = RunningTask(grant, context, self.config, self._clock.monotonic(), self._on_stop)
        self._leases.hold(running)
        if self._grace_is_over:
            running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        self._running.add(running)
        loop = asyncio.get_running_loop()
        context.open_steps = lambda: (self._session.open_steps(running), loop, self._session.call_on_thread)
        running.processing = loop.create_task(self.process_task(running, grant))
        return running.processing

    async def process_task(self, running: RunningTask, grant: Grant) -> None:
        """Execute and report one task that was delivered, and wait for the verdict.

        The slot becomes free after the verdict, when the function has returned. With `prefetch`, the slot is free for a
        prefetched task as soon as the function has returned.
        """
        answer: ReportAnswer | None = None
        try:
            # Tasks of a Conductor server have the traceparent in their input.
            from_input = grant.task.input_data.pop(tracing.INPUT_KEY, None)
            if self._tracer is not None:
                waited_s = self._clock.monotonic() - grant.sent_at
                traceparent = grant.task.traceparent or from_input
                queued_ms = find_queue_times(grant.task)
                running.trace = start_task_trace(self._tracer, running.about, traceparent, waited_s, queued_ms)
            if running.is_doubtful:
                await running.wait_until_confirmed()
            if running.stopped is not None:
                await self._report_stop(running)
                return
            if grant.make_outcome is None:
                outcome = await self._executor.run(running)
                if running.ending is not None and running.returned is not None:
                    running.returned.set()
                    await asyncio.wait({running.ending})
            else:
                outcome = grant.make_outcome(running.context)
            if outcome is not None:
                self._reporting += 1
                try:
                    if self.config.prefetch:
                        self._prefetched.on_finished()
                        self._start_prefetched()
                    answer = await self._report(outcome, running, self._may_ask_next)
                finally:
                    self._reporting -= 1
                if running.context.durable is not None and running.has_completed():
                    running.context.durable.remove()
        except Exception:
            logger.exception("Executing or reporting a task of '%s' failed unexpectedly", self.name)
        finally:
            self._leases.release(running)
            running.context.open_steps = None  # breaks a reference cycle
            self._running.discard(running)
            if answer is not None and answer.next_task is not None:
                self._accept_soon(answer)
            self._changed.set()

    async def _report(
        self, outcome: TaskOutcome, running: RunningTask, may_ask_next: Callable[[], bool] | None = None
    ) -> ReportAnswer | None:
        with nullcontext() if running.trace is None else running.trace.start_report():
            return await self._reporter.send(outcome, running, may_ask_next)

    def _may_ask_next(self) -> bool:
        """Return whether a report may request the next task, which takes the place of the reported one."""
        wants_tasks = self._asks_with_reports and self._poller.may_ask_with_report and not self._isolation.closed
        return wants_tasks and self._count_free() >= 0

    def _accept_soon(self, answer: ReportAnswer) -> None:
        """Accept the tasks of all answers in this tick together, so that they share one write of the journal."""
        if not self._answers_with_task:
            asyncio.get_running_loop().call_soon(self._accept_answers)
        self._answers_with_task.append(answer)

    def _accept_answers(self) -> None:
        answers, self._answers_with_task = self._answers_with_task, []
        self._accept(self._poller.read_report_answers(answers))

    def _on_stop(self, running: RunningTask) -> None:
        """React to `RunningTask.stop`: interrupt the function, or remove the report of a lost task."""
        if running.report is not None:
            self._reporter.on_stop(running)
        elif running.is_executing and running.ending is None:
            self._executor.interrupt(running)
            running.returned = asyncio.Event()
            running.ending = self._spawn(self._end(running, running.returned))

    async def _end(self, running: RunningTask, returned: asyncio.Event) -> None:
        """Report a stopped task without waiting for its function, which may be slow to return or never return."""
        try:
            await self._report_stop(running)
        finally:
            self._leases.release(running)
        self._changed.set()
        if returned.is_set():
            return
        if running.stopped is not Stop.SHUTDOWN:
            await self._wait_for_return(running, returned)
        elif running.processing is not None and not running.is_awaited:
            # A thread that runs the function may continue, but the engine does not wait for it.
            running.processing.cancel()

    async def _report_stop(self, running: RunningTask) -> None:
        if running.stopped is Stop.SHUTDOWN:
            self.requeued += 1
        outcome = await self._executor.make_stop_outcome(running)
        if outcome is not None:
            await self._report(outcome, running)
        if self._journal is not None:
            self._journal.remove_task(running.task.task_id, running.task.poll_count)

    async def _wait_for_return(self, running: RunningTask, returned: asyncio.Event) -> None:
        """Keep the slot of a stopped task occupied while its function continues."""
        self.stuck += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_NOTICE_S):  # most functions notice the cancellation and return
                    await returned.wait()
                    return
            logger.warning(
                "Task was stopped (%s) but its function continues; its slot stays taken until it returns %s",
                running.stop_reason,
                running.label,
            )
            await returned.wait()
        finally:
            self.stuck -= 1

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def pause(self) -> None:
        """Take no new tasks; running tasks continue.

        A Conductor server may still answer a poll in flight with tasks.
        """
        self.paused = self._poller.is_quiet = True
        self._prefetched.requeue_all()
        self._recall_poll()

    def resume(self) -> None:
        """Take tasks again after `pause`."""
        self.paused = self._poller.is_quiet = False
        self._changed.set()

    def stop_polling(self) -> None:
        """Send no more polls. A poll in flight is not cancelled, because its answer may contain a task."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._poller.is_quiet = True
        self._prefetched.requeue_all()
        self._changed.set()
        self._events.emit(WorkerStopping, self.name, self.config.worker_id, len(self._running))
        self._recall_poll()

    def _recall_poll(self) -> None:
        if self._polling is not None and self._poller.is_parked and self._session.leasing:
            self._spawn(self._poller.recall(self._polling))

    def abandon_poll(self) -> bool:
        """Stop waiting for a poll that a Conductor server has parked. Tasks in its answer are requeued.

        Returns:
            False if no poll is parked, or if its answer must be awaited because it may grant leases.
        """
        if self._polling is None or not self._poller.is_parked or self._session.leasing:
            return False
        limit_s = self.config.idle_poll_timeout / 1000 + ABANDONED_POLL_GRACE_S
        return self._session.abandon_poll(self._polling, self.config.worker_id, limit_s)

    async def wait_until_reported(self) -> None:
        """Wait until every task is reported or lost."""
        while self._list_unreported() or self._answers_with_task or self._prefetched.held:
            self._changed.clear()
            await self._changed.wait()

    def _list_unreported(self) -> list[RunningTask]:
        """Return the running tasks without a verdict. A function that continues after the verdict does not count."""
        return [running for running in self._running if not running.is_over()]

    async def requeue_running(self) -> None:
        """After the grace period: stop and requeue every task that is not finished, and wait for the verdicts."""
        self._grace_is_over = True
        for running in list(self._running):
            if running.stopped is None:
                running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        await self.wait_until_reported()

    async def cancel_running(self) -> None:
        """Cancel the tasks that could not be requeued.

        Send no report: another process requeues them from the journal.
        """
        self._prefetched.journal_as_never_started()
        unreported = self._list_unreported()
        cancelled = [running.processing for running in unreported if running.processing is not None]
        for running in unreported:
            if running.report is None:  # otherwise the report stays in the journal
                running.stop(Stop.LOST, "worker stopped at once")
        for task in [*cancelled, *self._background]:
            task.cancel()
        if cancelled:
            await asyncio.wait(cancelled, timeout=CLEAN_UP_S)
        for running in unreported:
            self._leases.release(running)  # a `process_task` that was cancelled before it began has not done so
            if running.processing is not None and running.processing.done():
                self._running.discard(running)

    def close(self) -> None:
        """End the threads. Call this after the last task."""
        self._executor.close()

    def on_stopped(self) -> None:
        """Publish that this worker has stopped."""
        self._events.emit(WorkerStopped, self.name, self.config.worker_id, self.requeued)
