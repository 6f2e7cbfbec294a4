"""The engine of a worker: keeps its slots full, and carries each task from its delivery to its verdict."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from conductor import tracing
from conductor.client.automator.execute import CLEAN_UP_S, UNKNOWN_PACE_S, Executor
from conductor.client.automator.poll import Poller
from conductor.client.automator.running_task import Stop
from conductor.client.automator.task_trace import begin_trace
from conductor.client.context.task_context import TaskContext
from conductor.client.event.task_runner_events import WorkerStarted, WorkerStopped, WorkerStopping
from conductor.client.worker.worker import start_warnings
from conductor.client.worker.worker_config import ResolvedConfig, start_line

if TYPE_CHECKING:
    from conductor.client.automator.grant import Grant
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.automator.session import Session
    from conductor.client.http.models.task import Task
    from conductor.client.worker.outcome import TaskOutcome
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: A task that was taken ahead and has no slot after this long is given back: others may have one.
LONGEST_AHEAD_S = 1.0
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
        self._executor = Executor(worker, self.config, session)
        self._poller = Poller(self.name, self.config, session)
        self._paused = self.config.paused
        self._tracer = tracing.tracer
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()  # a slot came free, or pause, resume, stop
        self._polling: asyncio.Task[list[Grant]] | None = None
        self._in_hand: dict[asyncio.Task[None], RunningTask | None] = {}
        self._side: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
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
        """Slots that are taken: by what is executed, or by what was executed and could not be reported."""
        return min(self._unfinished(), self.config.thread_count)

    def _unfinished(self) -> int:
        """Of what is in hand, what leaves no room for another: all but those that wait for their first answer."""
        return sum(running is None or not running.awaits_verdict for running in self._in_hand.values())

    @property
    def paused(self) -> bool:
        """Whether the worker takes no new tasks for now."""
        return self._paused

    async def run(self) -> None:
        """Poll, execute, report, until told to drain; then finish what is in hand."""
        logger.info("%s", start_line(self.config, self.name, os.getpid()))
        for warning in start_warnings(self._worker, self.config):
            logger.warning("%s", warning)
        if self.config.register_task_def:
            await self._register()
        self._events.emit(WorkerStarted, self.name, self.config.worker_id, self.config.thread_count)
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
        self._session.take(grants, self.config.worker_id)
        await asyncio.gather(*(self.carry(grant) for grant in grants))
        return len(grants)

    async def _turn(self) -> None:
        """One poll, or one wait for a reason to poll."""
        free = self._poller.room(self._unfinished(), len(self._in_hand), self._executor.pace_s)
        if free <= 0 or self._paused:
            # No timer here: at capacity nothing happens until something has ended.
            self._changed.clear()
            await self._changed.wait()
            return
        grants = await self._poll(free)
        self._session.take(grants, self.config.worker_id)
        for grant in grants:
            self._take(grant)
        if self._watching is None and self._takes_ahead():
            self._watching = self._aside(self._watch_waiting())
        if self._poller.wait_s:
            await self._clock.wait(self._stopping, self._poller.wait_s)

    async def _poll(self, free: int) -> list[Grant]:
        self._polling = asyncio.ensure_future(self._poller.poll(free))
        try:
            return await asyncio.shield(self._polling)
        finally:
            self._polling = None

    def _take(self, grant: Grant) -> None:
        carrying = asyncio.get_running_loop().create_task(self.carry(grant))
        self._in_hand[carrying] = None
        carrying.add_done_callback(self._put_down)

    def _takes_ahead(self) -> bool:
        """Whether there is more to execute than there are slots."""
        slots = self.config.thread_count
        return len(self._in_hand) > slots and self._unfinished() > slots

    async def _watch_waiting(self) -> None:
        """Functions that were quick may hang from one moment to the next: then what waits behind them is not ours."""
        try:
            while self._takes_ahead():
                await self._clock.sleep(LONGEST_AHEAD_S)
                until = self._clock.monotonic() - LONGEST_AHEAD_S
                for running in list(self._in_hand.values()):
                    if running is not None and running.began <= until and self._executor.take_back(running):
                        self._executor.pace_s = UNKNOWN_PACE_S
                        running.stop(Stop.NO_SLOT, Stop.NO_SLOT.value)
        finally:
            self._watching = None

    def _put_down(self, carrying: asyncio.Task[None]) -> None:
        self._in_hand.pop(carrying, None)
        self._changed.set()
        if not carrying.cancelled() and (error := carrying.exception()) is not None:
            logger.error("A task of '%s' could not be carried to its end", self.name, exc_info=error)

    async def carry(self, grant: Grant) -> None:
        """One task, from its delivery to its verdict. The slot is free when the function has really returned."""
        context = TaskContext(grant.task, self.config.worker_id, self.config.task_log_level)
        running = self._session.leases.hold(grant, context, self.config)
        traceparent = _taken_out(grant.task)
        if self._tracer is not None:
            waited_s = self._clock.monotonic() - grant.sent_at
            running.trace = begin_trace(self._tracer, running.about, traceparent, waited_s)
        try:
            self._note(running)
            if running.doubtful:
                await running.certain()
            if running.stopped is not None:
                await self._end_early(running)
                return
            outcome = await self._execute(running) if grant.instead is None else grant.instead(context)
            if outcome is not None:
                self._free_slot(running)
                await self._report(outcome, running)
        finally:
            self._session.leases.release(running)
        self._session.put_down(grant.task)

    async def _report(self, outcome: TaskOutcome, running: RunningTask) -> None:
        if running.trace is None:
            await self._session.reporter.send(outcome, running)
            return
        with running.trace.report():
            await self._session.reporter.send(outcome, running)

    def _note(self, running: RunningTask) -> None:
        running.carried_by = asyncio.current_task()
        if running.carried_by in self._in_hand:
            self._in_hand[running.carried_by] = running

    async def _execute(self, running: RunningTask) -> TaskOutcome | None:
        running.on_stop = partial(self._stop, running)
        outcome = await self._executor.run(running)
        if running.ending is not None:
            running.returned.set()
            await asyncio.wait({running.ending})
        return outcome

    def _free_slot(self, running: RunningTask) -> None:
        """The function has returned. A coordinator is asked for more while the report is under way."""
        running.awaits_verdict = self._session.leasing
        self._changed.set()

    def _stop(self, running: RunningTask) -> None:
        """The work must stop. Its function may be slow to obey, or never do it: the last word is said beside it."""
        if running.on_loop and running.carried_by is not None:
            running.carried_by.cancel()
        running.returned = asyncio.Event()
        running.ending = self._aside(self._end_beside(running))
        self._executor.take_back(running)

    async def _end_beside(self, running: RunningTask) -> None:
        try:
            await self._end_early(running)
        finally:
            self._session.leases.release(running)
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
        self._changed.set()
        self._events.emit(WorkerStopping, self.name, self.config.worker_id, len(self._in_hand))
        self._recall()

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
        while self._unsaid():
            self._changed.clear()
            await self._changed.wait()

    def _unsaid(self) -> list[asyncio.Task[None]]:
        """What is in hand and has no verdict yet. A function that goes on after that is nobody's any more."""
        return [carrying for carrying, running in self._in_hand.items() if running is None or not running.is_over()]

    async def hand_back(self) -> None:
        """The time is over: give back what has not returned, and wait for the answers to that."""
        await asyncio.sleep(0)  # what was taken in this very moment gets its lease first
        for running in self._in_hand.values():
            if running is not None and running.stopped is None:
                running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        await self.finish()

    async def leave(self) -> None:
        """Break off what is still in hand, and say nothing about it: the journal knows it."""
        unsaid = self._unsaid()
        for carrying in unsaid:
            running = self._in_hand[carrying]
            if running is not None:
                running.stop(Stop.LOST, "worker stopped at once")
            carrying.cancel()
        for speaking in self._side:
            speaking.cancel()
        if unsaid:
            await asyncio.wait(unsaid, timeout=CLEAN_UP_S)

    def close(self) -> None:
        """Let go of the threads, after the last task."""
        if self._watching is not None:
            self._watching.cancel()
        self._executor.close()

    def stopped(self) -> None:
        """Say that this worker has stopped."""
        self._events.emit(WorkerStopped, self.name, self.config.worker_id, self.handed_back)


def _taken_out(task: Task) -> object:
    """The trace that a task belongs to. Where a plain server carries it in the input, no function sees it there."""
    given = task.input_data
    inside = given.pop(tracing.INPUT_KEY, None) if given and tracing.INPUT_KEY in given else None
    return task.traceparent or inside
