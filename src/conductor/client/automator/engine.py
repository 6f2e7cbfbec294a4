"""The engine of a worker: keeps its slots full, and carries each task from its lease to its verdict."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from conductor.client.automator.execute import CLEAN_UP_S, Executor
from conductor.client.automator.lease import Stop
from conductor.client.automator.poll import Poller
from conductor.client.context.task_context import TaskContext
from conductor.client.event.task_runner_events import WorkerStarted, WorkerStopped, WorkerStopping
from conductor.client.worker.worker import given_options
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config, start_line

if TYPE_CHECKING:
    from conductor.client.automator.execute import Execution
    from conductor.client.automator.lease import Lease
    from conductor.client.automator.poll import Grant
    from conductor.client.automator.session import Session
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: A registration that takes longer goes on in the background.
REGISTRATION_S = 5.0
#: A poll that was recalled and goes on is recalled again after this long.
RECALL_AGAIN_S = 0.5


class Engine:
    """Runs one worker on the current event loop. `run()` until `drain()`; nothing a task does ends it."""

    def __init__(self, worker: WorkerInterface, session: Session, config: ResolvedConfig | None = None) -> None:
        self.name = worker.get_task_definition_name()
        self.config = config or resolve_worker_config(self.name, given_options(worker))
        self._worker = worker
        self._session = session
        self._events = session.events
        self._clock = session.clock
        self._executor = Executor(worker, self.config, session.events, session.clock)
        self._poller = Poller(
            self.name,
            self.config,
            api=session.api,
            parked_api=session.parked_api,
            parking=session.parking,
            on_features=session.learn,
            events=session.events,
            clock=session.clock,
        )
        self._paused = self.config.paused
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()  # a slot came free, or pause, resume, stop
        self._polling: asyncio.Task[list[Grant]] | None = None
        self._in_hand: dict[asyncio.Task[None], Lease | None] = {}
        self._side: set[asyncio.Future[None]] = set()
        #: Slots held by functions that go on although they were stopped.
        self.stuck = 0
        #: Tasks that were given back unfinished at the end.
        self.handed_back = 0

    @property
    def in_hand(self) -> int:
        """Tasks that are being executed or reported."""
        return len(self._in_hand)

    @property
    def paused(self) -> bool:
        """Whether the worker takes no new tasks for now."""
        return self._paused

    async def run(self) -> None:
        """Poll, execute, report, until told to drain; then finish what is in hand."""
        logger.info("%s", start_line(self.config, self.name, os.getpid()))
        if self.config.register_task_def:
            await self._register()
        self._events.emit(WorkerStarted, self.name, self.config.worker_id, self.config.thread_count)
        while not self._stopping.is_set():
            await self._turn()

    async def _register(self) -> None:
        """Before the first poll, but a server that does not answer holds no worker up."""
        from conductor.client.automator.registration import register

        registering = asyncio.ensure_future(register(self._worker, self.config, self._session.client))
        self._side.add(registering)
        registering.add_done_callback(self._side.discard)
        await asyncio.wait({registering}, timeout=REGISTRATION_S)

    async def run_once(self) -> int:
        """One poll, its tasks carried to their verdicts. Returns how many there were."""
        grants = [] if self._paused else await self._poller.poll(self.config.thread_count)
        await asyncio.gather(*(self.carry(grant) for grant in grants))
        return len(grants)

    async def _turn(self) -> None:
        """One poll, or one wait for a reason to poll."""
        free = self.config.thread_count - len(self._in_hand)
        if free <= 0 or self._paused:
            # No timer here: at capacity nothing happens until something has ended.
            self._changed.clear()
            await self._changed.wait()
            return
        for grant in await self._poll(free):
            self._take(grant)
        if self._poller.wait_s:
            await self._clock.wait(self._stopping, self._poller.wait_s)

    async def _poll(self, free: int) -> list[Grant]:
        self._polling = asyncio.ensure_future(self._poller.poll(free))
        try:
            return await self._polling
        finally:
            self._polling = None

    def _take(self, grant: Grant) -> None:
        carrying = asyncio.ensure_future(self.carry(grant))
        self._in_hand[carrying] = None
        carrying.add_done_callback(self._put_down)

    def _put_down(self, carrying: asyncio.Task[None]) -> None:
        self._in_hand.pop(carrying, None)
        self._changed.set()
        if not carrying.cancelled() and (error := carrying.exception()) is not None:
            logger.error("A task of '%s' could not be carried to its end", self.name, exc_info=error)

    async def carry(self, grant: Grant) -> None:
        """One task, from its lease to its verdict. The slot is free when the function has really returned."""
        context = TaskContext(grant.task, self.config.worker_id, self.config.task_log_level)
        with self._session.leases.hold(grant, context, self.config) as lease:
            self._note(lease)
            await lease.certain()
            execution = await self._executor.run(lease)
            if lease.stopped is Stop.SHUTDOWN:
                self.handed_back += 1
            if execution.ending is not None:
                await self._session.reporter.send(execution.ending, lease)
        if not execution.returned and lease.stopped is not Stop.SHUTDOWN:
            await self._outlast(execution, lease)

    def _note(self, lease: Lease) -> None:
        carrying = asyncio.current_task()
        if carrying in self._in_hand:
            self._in_hand[carrying] = lease

    async def _outlast(self, execution: Execution, lease: Lease) -> None:
        """A function that goes on although nobody waits for it any more keeps its slot."""
        self.stuck += 1
        logger.warning(
            "Task %s of '%s' was stopped (%s) but its function goes on; its slot stays taken until it returns",
            lease.task.task_id,
            self.name,
            lease.stop_reason,
        )
        try:
            await execution.function_over()
        finally:
            self.stuck -= 1

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

    def _recall(self) -> None:
        """A poll that only waits for work ends now, where the server knows how."""
        if self._polling is not None and self._poller.parked and self._session.recalls_polls:
            recalling = asyncio.ensure_future(self._recall_until_over(self._polling))
            self._side.add(recalling)
            recalling.add_done_callback(self._side.discard)

    async def _recall_until_over(self, polling: asyncio.Task[list[Grant]]) -> None:
        """Again and again: the poll may still be on its way, and come to the server after its recall."""
        while not polling.done():
            await self._poller.recall()
            await asyncio.wait({polling}, timeout=RECALL_AGAIN_S)

    async def finish(self) -> None:
        """Wait until nothing is in hand any more."""
        while self._in_hand:
            await asyncio.wait(self._in_hand)

    async def hand_back(self) -> None:
        """The time is over: give back what has not returned, and wait for the answers to that."""
        await asyncio.sleep(0)  # what was taken in this very moment gets its lease first
        for lease in self._in_hand.values():
            if lease is not None and lease.stopped is None:
                lease.stop(Stop.SHUTDOWN, Stop.SHUTDOWN.value)
        reporting = [carrying for carrying, lease in self._in_hand.items() if lease is None or not lease.lost]
        if reporting:
            await asyncio.wait(reporting)

    async def leave(self) -> None:
        """Break off what is in hand, and say nothing about it."""
        for carrying, lease in list(self._in_hand.items()):
            if lease is not None:
                lease.stop(Stop.LOST, "worker stopped at once")
            carrying.cancel()
        if self._in_hand:
            await asyncio.wait(self._in_hand, timeout=CLEAN_UP_S)

    def close(self) -> None:
        """Let go of the threads, after the last task."""
        self._executor.close()

    def stopped(self) -> None:
        """Say that this worker is over."""
        self._events.emit(WorkerStopped, self.name, self.config.worker_id, self.handed_back)
