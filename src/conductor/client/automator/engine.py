"""The engine of a worker: keeps its slots full, and carries each task from its delivery to its verdict."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from conductor.client.automator.executor import CLEAN_UP_S, Executor
from conductor.client.automator.journal import Taken
from conductor.client.automator.poller import Poller
from conductor.client.automator.prefetch import Prefetched
from conductor.client.automator.running_task import Stop
from conductor.client.automator.task_trace import start_task_trace
from conductor.client.context.task_context import TaskContext
from conductor.client.event.task_runner_events import WorkerStarted, WorkerStopped, WorkerStopping
from conductor.client.worker.worker import find_start_warnings
from conductor.client.worker.worker_config import ResolvedConfig, format_start_line
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.client.automator.delivery import ReportAnswer
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.automator.session import Session
    from conductor.client.http.models.task import Task
    from conductor.client.worker.outcome import TaskOutcome
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: A registration that takes longer goes on in the background.
REGISTRATION_S = 5.0
#: A poll that was recalled and goes on is recalled again after this long.
RECALL_AGAIN_S = 0.5
#: A poll that is left behind may take this much longer than it asked for.
LAST_POLL_S = 2.0


class Engine:
    """Runs one worker on the current event loop. `run()` until `drain()`; nothing a task does ends it."""

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
        self._executor = Executor(worker, self.config, session)
        self._poller = Poller(self.name, self.config, session)
        self._paused = self.config.paused
        self._tracer = tracing.tracer
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()  # a slot came free, or pause, resume, stop
        session.isolation.on_open.append(self._changed.set)
        self._polling: asyncio.Task[list[Grant]] | None = None
        #: Tasks that execute or are reported.
        self._in_hand: set[RunningTask] = set()
        #: Answers to reports in this tick of the event loop that bring a task each.
        self._arrived: list[ReportAnswer] = []
        #: Tasks that wait for a slot; None without `prefetch`.
        self._prefetched = Prefetched(config, session, self._changed.set) if config.prefetch else None
        #: Of the tasks in hand, those whose function has returned; counted with `prefetch` only.
        self._reporting = 0
        self._side: set[asyncio.Task[None]] = set()
        #: Whether reports ask for the next task: `run` does, `run_once` does not.
        self._reports_ask = False
        #: Whether the time of the stop is over: tasks that still come are handed back, and not begun.
        self._hands_back = False
        #: Slots held by functions that go on although they were stopped.
        self.stuck = 0
        #: Tasks that were given back unfinished at the end.
        self.handed_back = 0

    @property
    def in_hand(self) -> int:
        """Tasks that are being executed or reported."""
        return len(self._in_hand)

    @property
    def polling(self) -> bool:
        """Whether a poll is under way that may still bring something."""
        return self._polling is not None

    @property
    def slots_in_use(self) -> int:
        """Slots that are taken by tasks that execute or are reported."""
        return min(len(self._in_hand), self.config.thread_count)

    def _free(self) -> int:
        """Return how many more tasks the worker may hold: as many as it has free slots, unless it prefetches."""
        free = self.config.thread_count - len(self._in_hand) - len(self._arrived)
        if self._prefetched is not None:
            free += self._prefetched.allowance() - self._prefetched.held
        return free

    @property
    def paused(self) -> bool:
        """Whether the worker takes no new tasks for now."""
        return self._paused

    async def run(self) -> None:
        """Poll, execute, report, until told to drain; then finish what is in hand."""
        logger.info("%s", format_start_line(self.config, self.name, os.getpid()))
        for warning in find_start_warnings(self._worker, self.config):
            logger.warning("%s", warning)
        if self.config.register_task_def:
            await self._register()
        self._events.emit(WorkerStarted, self.name, self.config.worker_id, self.config.thread_count)
        self._reports_ask = True
        while not self._stopping.is_set():
            await self._turn()

    async def _register(self) -> None:
        """Before the first poll, but a server that does not answer holds no worker up."""
        from conductor.client.automator.registration import register

        registering = self._aside(register(self._worker, self.config, self._session.client))
        await asyncio.wait({registering}, timeout=REGISTRATION_S)

    async def run_once(self) -> int:
        """One poll, its tasks carried to their verdicts. Returns how many there were."""
        grants = [] if self._paused else await self._poller.poll(self.config.thread_count)
        await asyncio.gather(*self._accept(grants))
        return len(grants)

    async def _turn(self) -> None:
        """One poll, or one wait for a reason to poll."""
        free = self._free()
        if free <= 0 or self._paused or self._isolation.closed:
            # No timer here: at capacity nothing happens until something has ended.
            self._changed.clear()
            await self._changed.wait()
            return
        self._accept(await self._poll(free))
        if self._poller.wait_s:
            await self._clock.wait(self._stopping, self._poller.wait_s)

    async def _poll(self, free: int) -> list[Grant]:
        self._polling = asyncio.ensure_future(self._poller.poll(free))
        try:
            return await asyncio.shield(self._polling)
        finally:
            self._polling = None

    def _accept(self, grants: list[Grant]) -> list[asyncio.Task[None]]:
        """Start the tasks of an answer. They are in the journal first: if this process dies, another returns them."""
        if not grants:
            return []
        if self._journal is not None:
            now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
            self._journal.take([Taken.of(grant, self.config.worker_id, now, now_ms) for grant in grants])
        if self._prefetched is None:
            return [self._start(grant) for grant in grants]
        self._prefetched.notice(grants)
        started = self._fill_slots(self._prefetched)
        for grant in grants:
            if self._has_free_slot():
                started.append(self._start(grant))
            else:
                self._prefetched.put(grant)
        return started

    def _has_free_slot(self) -> bool:
        """With `prefetch`: whether fewer functions run than the worker has slots."""
        return len(self._in_hand) - self._reporting < self.config.thread_count

    def _start(self, grant: Grant) -> asyncio.Task[None]:
        context = TaskContext(grant.task, self.config.worker_id, self.config.task_log_level)
        running = self._leases.hold(grant, context, self.config)
        if self._hands_back:
            running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        self._in_hand.add(running)
        running.carried_by = asyncio.get_running_loop().create_task(self.carry(running, grant))
        return running.carried_by

    def _fill_slots(self, prefetched: Prefetched) -> list[asyncio.Task[None]]:
        """Start waiting tasks while slots are free."""
        started = []
        while self._has_free_slot() and (grant := prefetched.take()) is not None:
            started.append(self._start(grant))
        return started

    async def carry(self, running: RunningTask, grant: Grant) -> None:
        """Take one task from its delivery to its verdict. Its slot is free after both verdict and function."""
        answer: ReportAnswer | None = None
        try:
            traceparent = _pop_traceparent(grant.task)
            if self._tracer is not None:
                waited_s = self._clock.monotonic() - grant.sent_at
                running.trace = start_task_trace(self._tracer, running.about, traceparent, waited_s)
            if running.doubtful:
                await running.certain()
            if running.stopped is not None:
                await self._end_early(running)
                return
            if grant.instead is None:
                running.on_stop = self._stop
                outcome = await self._isolation.run(self._executor.run, running)
                if running.ending is not None:
                    running.returned.set()
                    await asyncio.wait({running.ending})
            else:
                outcome = grant.instead(running.context)
            if outcome is not None:
                if self._prefetched is None:
                    answer = await self._report(outcome, running, self._asks_next)
                else:
                    answer = await self._report_beside(outcome, running, self._prefetched)
        except Exception:
            logger.exception("A task of '%s' could not be carried to its end", self.name)
        finally:
            self._leases.release(running)
            self._in_hand.discard(running)
            if answer is not None and answer.next_task is not None:
                self._arrive(answer)
            self._changed.set()

    async def _report(
        self, outcome: TaskOutcome, running: RunningTask, asks_next: Callable[[], bool] | None = None
    ) -> ReportAnswer | None:
        with nullcontext() if running.trace is None else running.trace.start_report():
            return await self._reporter.send(outcome, running, asks_next)

    async def _report_beside(
        self, outcome: TaskOutcome, running: RunningTask, prefetched: Prefetched
    ) -> ReportAnswer | None:
        """Report a task while a waiting one takes its slot."""
        prefetched.on_finished()
        self._reporting += 1
        self._fill_slots(prefetched)
        try:
            return await self._report(outcome, running, self._asks_next)
        finally:
            self._reporting -= 1

    def _asks_next(self) -> bool:
        """Whether a report may bring the next task: this worker polls, and the task takes the place of the reported."""
        polls = self._reports_ask and self._poller.may_ask_with_report and not self._isolation.closed
        return polls and self._free() >= 0

    def _arrive(self, answer: ReportAnswer) -> None:
        """Accept the task that came with a verdict, together with others of this tick: one write of the journal."""
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._accept_arrived)
        self._arrived.append(answer)

    def _accept_arrived(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._accept(self._poller.grants_of_reports(arrived))

    def _stop(self, running: RunningTask) -> None:
        """The work must stop. Its function may be slow to obey, or never do it: the last word is said beside it."""
        if running.on_loop and running.carried_by is not None:
            running.carried_by.cancel()
        else:
            self._executor.withdraw(running)
        running.returned = asyncio.Event()
        running.ending = self._aside(self._end_beside(running))

    async def _end_beside(self, running: RunningTask) -> None:
        try:
            await self._end_early(running)
        finally:
            self._leases.release(running)
        self._changed.set()
        if running.returned.is_set():
            return
        if running.stopped is not Stop.SHUTDOWN:
            await self._outlast(running)
        elif running.carried_by is not None and not running.on_loop:
            running.carried_by.cancel()  # its thread may go on, but nobody waits for it

    async def _end_early(self, running: RunningTask) -> None:
        """The last word on a task that was stopped."""
        if running.stopped is Stop.SHUTDOWN:
            self.handed_back += 1
        outcome = await self._executor.stopped(running)
        if outcome is not None:
            await self._report(outcome, running)
        self._session.put_down(running.task)

    async def _outlast(self, running: RunningTask) -> None:
        """A function that goes on although nobody waits for it any more keeps its slot."""
        self.stuck += 1
        logger.warning(
            "Task %s of '%s' was stopped (%s) but its function goes on; its slot stays taken until it returns %s",
            running.task.task_id,
            self.name,
            running.stop_reason,
            running.label,
        )
        try:
            await running.returned.wait()
        finally:
            self.stuck -= 1

    def _aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        going = asyncio.ensure_future(work)
        self._side.add(going)
        going.add_done_callback(self._side.discard)
        return going

    def pause(self) -> None:
        """Take no new tasks; those in hand go on. A poll under way on a plain server may still bring some."""
        self._paused = self._poller.quiet = True
        self._requeue_waiting()
        self._recall()

    def resume(self) -> None:
        """Take tasks again."""
        self._paused = self._poller.quiet = False
        self._changed.set()

    def stop_polling(self) -> None:
        """No poll from here on. A poll under way is waited for: breaking it off could lose a task."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._poller.quiet = True
        self._requeue_waiting()
        self._changed.set()
        self._events.emit(WorkerStopping, self.name, self.config.worker_id, len(self._in_hand))
        self._recall()

    def _requeue_waiting(self) -> None:
        if self._prefetched is not None:
            self._prefetched.requeue_all()

    def leave_poll(self) -> bool:
        """Wait no more for a poll that only waits for work, where the server cannot be asked to end it.

        What it may still bring is handed back. False: there is no such poll, or it must be waited for.
        """
        if self._polling is None or not self._poller.parked or self._session.leasing:
            return False
        limit_s = self.config.idle_poll_timeout / 1000 + LAST_POLL_S
        return self._session.leave_behind(self._polling, self.config.worker_id, limit_s)

    def _recall(self) -> None:
        """A poll that only waits for work ends now, where the server knows how."""
        if self._polling is not None and self._poller.parked and self._session.leasing:
            self._aside(self._recall_until_answered(self._polling))

    async def _recall_until_answered(self, polling: asyncio.Task[list[Grant]]) -> None:
        """Again and again: the poll may still be on its way, and come to the server after its recall."""
        while not polling.done():
            await self._poller.recall()
            await asyncio.wait({polling}, timeout=RECALL_AGAIN_S)

    async def finish(self) -> None:
        """Wait until nothing is in hand any more of which there is something to say."""
        while self._unsaid() or self._arrived or (self._prefetched is not None and self._prefetched.held):
            self._changed.clear()
            await self._changed.wait()

    def _unsaid(self) -> list[RunningTask]:
        """What is in hand and has no verdict yet. A function that goes on after that is nobody's any more."""
        return [running for running in self._in_hand if not running.is_over()]

    async def hand_back(self) -> None:
        """The time is over: give back what has not returned, and wait for the answers to that."""
        self._hands_back = True
        for running in list(self._in_hand):
            if running.stopped is None:
                running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        await self.finish()

    async def leave(self) -> None:
        """Break off what is still in hand, and say nothing about it: the journal knows it."""
        if self._prefetched is not None:
            self._prefetched.leave()
        unsaid = self._unsaid()
        carrying = [running.carried_by for running in unsaid if running.carried_by is not None]
        for running in unsaid:
            running.stop(Stop.LOST, "worker stopped at once")
        for task in carrying:
            task.cancel()
        for speaking in self._side:
            speaking.cancel()
        if carrying:
            await asyncio.wait(carrying, timeout=CLEAN_UP_S)
        for running in unsaid:
            self._leases.release(running)  # where it was broken off before it began, nobody has
            if running.carried_by is not None and running.carried_by.done():
                self._in_hand.discard(running)

    def close(self) -> None:
        """Let go of the threads, after the last task."""
        self._executor.close()

    def stopped(self) -> None:
        """Say that this worker has stopped."""
        self._events.emit(WorkerStopped, self.name, self.config.worker_id, self.handed_back)


def _pop_traceparent(task: Task) -> object:
    """Return the traceparent of a task. Remove it from the input, where a Conductor server carries it."""
    from_input = task.input_data.pop(tracing.INPUT_KEY, None)
    return task.traceparent or from_input
