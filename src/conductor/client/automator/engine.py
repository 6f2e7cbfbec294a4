"""The engine of a worker: keeps its slots full, and carries each task from its delivery to its verdict."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from conductor import tracing
from conductor.client.automator.execute import CLEAN_UP_S, UNKNOWN_PACE_S, Executor
from conductor.client.automator.journal import Taken
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
        self._journal = session.journal
        self._leases = session.leases
        self._reporter = session.reporter
        self._executor = Executor(worker, self.config, session)
        self._poller = Poller(self.name, self.config, session)
        self._paused = self.config.paused
        self._tracer = tracing.tracer
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()  # a slot came free, or pause, resume, stop
        self._polling: asyncio.Task[list[Grant]] | None = None
        self._in_hand: set[RunningTask] = set()
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
        return len([running for running in self._in_hand if not running.awaits_verdict])

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
        await asyncio.gather(*self._take(grants))
        return len(grants)

    async def _turn(self) -> None:
        """One poll, or one wait for a reason to poll."""
        free = self._poller.room(self._unfinished(), len(self._in_hand), self._executor.pace_s)
        if free <= 0 or self._paused:
            # No timer here: at capacity nothing happens until something has ended.
            self._changed.clear()
            await self._changed.wait()
            return
        self._take(await self._poll(free))
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

    def _take(self, grants: list[Grant]) -> list[asyncio.Task[None]]:
        """Carry what a poll has brought. It is noted on disk first: should this process die, somebody gives it back."""
        if not grants:
            return []
        config, loop = self.config, asyncio.get_running_loop()
        if self._journal is not None:
            now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
            self._journal.take([Taken.of(grant, config.worker_id, now, now_ms) for grant in grants])
        carrying = []
        for grant in grants:
            context = TaskContext(grant.task, config.worker_id, config.task_log_level)
            running = self._leases.hold(grant, context, config)
            self._in_hand.add(running)
            running.carried_by = loop.create_task(self.carry(running, grant))
            carrying.append(running.carried_by)
        return carrying

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
                waited = [running for running in self._in_hand if running.began <= until]
                late = [running for running in waited if self._executor.take_back(running)]
                if late:
                    self._executor.pace_s = UNKNOWN_PACE_S
                    text = "%d tasks of '%s' were taken ahead, found no free slot, and are handed back"
                    logger.warning(text, len(late), self.name)
                for running in late:
                    running.stop(Stop.NO_SLOT, Stop.NO_SLOT.value)
        finally:
            self._watching = None

    async def carry(self, running: RunningTask, grant: Grant) -> None:
        """One task, from its delivery to its verdict. The slot is free when the function has really returned."""
        try:
            traceparent = _taken_out(grant.task)
            if self._tracer is not None:
                waited_s = self._clock.monotonic() - grant.sent_at
                running.trace = begin_trace(self._tracer, running.about, traceparent, waited_s)
            if running.doubtful:
                await running.certain()
            if running.stopped is not None:
                await self._end_early(running)
                return
            if grant.instead is None:
                running.on_stop = self._stop
                outcome = await self._executor.run(running)
                if running.ending is not None:
                    running.returned.set()
                    await asyncio.wait({running.ending})
            else:
                outcome = grant.instead(running.context)
            if outcome is not None:
                # The function has returned. A coordinator is asked for more while the report is under way.
                running.awaits_verdict = self._session.leasing
                self._changed.set()
                await self._report(outcome, running)
        except Exception:
            logger.exception("A task of '%s' could not be carried to its end", self.name)
        finally:
            self._leases.release(running)
            self._in_hand.discard(running)
            self._changed.set()

    async def _report(self, outcome: TaskOutcome, running: RunningTask) -> None:
        with nullcontext() if running.trace is None else running.trace.report():
            await self._reporter.send(outcome, running)

    def _stop(self, running: RunningTask) -> None:
        """The work must stop. Its function may be slow to obey, or never do it: the last word is said beside it."""
        if running.on_loop and running.carried_by is not None:
            running.carried_by.cancel()
        else:
            self._executor.take_back(running)
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

    def _unsaid(self) -> list[RunningTask]:
        """What is in hand and has no verdict yet. A function that goes on after that is nobody's any more."""
        return [running for running in self._in_hand if not running.is_over()]

    async def hand_back(self) -> None:
        """The time is over: give back what has not returned, and wait for the answers to that."""
        for running in list(self._in_hand):
            if running.stopped is None:
                running.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        await self.finish()

    async def leave(self) -> None:
        """Break off what is still in hand, and say nothing about it: the journal knows it."""
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
        if self._watching is not None:
            self._watching.cancel()
        self._executor.close()

    def stopped(self) -> None:
        """Say that this worker has stopped."""
        self._events.emit(WorkerStopped, self.name, self.config.worker_id, self.handed_back)


def _taken_out(task: Task) -> object:
    """The trace that a task belongs to. Where a plain server carries it in the input, no function sees it there."""
    inside = task.input_data.pop(tracing.INPUT_KEY, None)
    return task.traceparent or inside
