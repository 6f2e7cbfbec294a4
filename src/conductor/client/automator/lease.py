"""Permission to speak for a task, and its loss.

A lease counts from the moment the poll was sent, on the worker's own monotonic clock, so it can only end earlier
here than on the server. One thread per process, with a connection of its own, sends heartbeats and watches
deadlines: an event loop that is blocked by a task does not lose the leases of the others.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from conductor.client.event.task_runner_events import TaskLeaseExtended, TaskLeaseLost
from conductor.client.http.async_rest import ConductorError
from conductor.wire import DEFAULT_RESPONSE_TIMEOUT_S

if TYPE_CHECKING:
    from conductor.client.automator.heartbeat import Heartbeat
    from conductor.client.automator.poll import Grant
    from conductor.client.context.task_context import TaskContext
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.clock import Clock

logger = logging.getLogger(__name__)

#: Heartbeats follow each other after this share of the response timeout, or a little sooner.
BEAT_SHARE = 1 / 3
#: A poll that took longer than this share of the response timeout leaves open how much of the lease is left.
DOUBT_SHARE = 1 / 4
#: A failed heartbeat is repeated after a tenth of what is left of the lease, within these bounds.
REPEAT_S, SOONEST_REPEAT_S = 1.0, 0.25
#: An event loop that has not answered for this long is reported as blocked.
BLOCKED_LOOP_S = 2.0


class Stop(Enum):
    """Why work on a task must stop before its function has returned."""

    LOST = "lease lost"
    TIMED_OUT = "timed out"
    SHUTDOWN = "worker shutting down"


class Lease:
    """One task in hand: whose it is, until when, and how to stop it."""

    def __init__(self, grant: Grant, context: TaskContext, config: ResolvedConfig, clock: Clock) -> None:
        task = grant.task
        self.task = task
        self.context = context
        self.config = config
        self.response_timeout_s = float(task.response_timeout_seconds or DEFAULT_RESPONSE_TIMEOUT_S)
        now = clock.monotonic()
        #: The poll was parked for long, and the task may be ours since then or since this moment. A heartbeat makes
        #: that certain; nothing runs before.
        self.doubtful = now - grant.sent_at > self.response_timeout_s * DOUBT_SHARE
        self.deadline = (now if self.doubtful else grant.sent_at) + self.response_timeout_s
        self._beating = bool(config.lease_extend_enabled or task.lease_id)
        self.beat_at = now if self.doubtful else grant.sent_at + self.next_beat_s()
        #: Heartbeats in a row without an answer.
        self.failed_beats = 0
        self.timeout_s = _timeout_of(grant)
        self.timeout_at = None if self.timeout_s is None else now + self.timeout_s
        self.stopped: Stop | None = None
        self.stop_reason = ""
        self.released = False
        #: The status that its report gives; None while there is none. What ended the task may then be our own report.
        self.reported_as: str | None = None
        self.slot = 0.0
        self._on_stop: Callable[[], None] | None = None
        self._on_certain: Callable[[], None] = lambda: None

    @property
    def lost(self) -> bool:
        """Whether the worker may no longer speak for the task."""
        return self.stopped is Stop.LOST

    def is_over(self) -> bool:
        """Whether there is nothing to hold any more: it was lost, or its task has its verdict."""
        return self.released or self.lost

    @property
    def judged_by_server(self) -> bool:
        """Whether a report was sent under a lease id: only the server knows if it counted, whatever our clock says."""
        return self.reported_as is not None and self.task.lease_id is not None

    @property
    def beating(self) -> bool:
        """Whether heartbeats are sent for it."""
        return self._beating or self.doubtful

    async def certain(self) -> None:
        """Wait until it is known that the task is ours, or that the work must stop."""
        if self.doubtful:
            known = asyncio.Event()
            self._on_certain = known.set
            self.on_stop(known.set)
            await known.wait()
            self.on_stop(None)

    def confirm(self) -> None:
        """A heartbeat was accepted; on the event loop."""
        if self.doubtful:
            self.doubtful = False
            self._on_certain()

    def next_beat_s(self) -> float:
        """Seconds to the next heartbeat: a third of the response timeout, shortened by chance so that fleets spread."""
        return self.response_timeout_s * BEAT_SHARE * random.uniform(0.8, 1.0)

    def watch_at(self) -> float:
        """When somebody must look at this lease next."""
        times = [self.deadline]
        if self.beating:
            times.append(self.beat_at)
        if self.timeout_at is not None:
            times.append(self.timeout_at)
        return min(times)

    def on_stop(self, callback: Callable[[], None] | None) -> None:
        """Call this on the event loop when the work must stop; at once if it must already."""
        self._on_stop = callback
        if callback is not None and self.stopped is not None:
            callback()

    def stop(self, why: Stop, reason: str) -> bool:
        """Stop the work, on the event loop. False if it had been stopped or released before."""
        if self.released or self.stopped is Stop.LOST or self.stopped is why:
            return False
        self.stopped = why
        self.stop_reason = reason
        self.context.cancel(reason)
        if self._on_stop is not None:
            self._on_stop()
        return True


def _timeout_of(grant: Grant) -> float | None:
    """The task's own execution timeout. ALERT_ONLY asks for an alert on the server, not for an end."""
    definition = grant.task.task_definition
    if definition is None or not definition.timeout_seconds or definition.timeout_policy == "ALERT_ONLY":
        return None
    return float(definition.timeout_seconds)


class LeaseKeeper:
    """Holds the leases of one process: heartbeats, deadlines, and the news of a loss."""

    def __init__(self, open_heartbeat: Callable[[], Heartbeat], events: SyncEventDispatcher, clock: Clock) -> None:
        self._open_heartbeat = open_heartbeat
        self._events = events
        self._clock = clock
        self._lock = threading.Lock()
        #: Leases by the time at which they need a look; times in a heap. A lease leaves in O(1) when its task ends.
        self._slots: dict[float, set[Lease]] = {}
        self._times: list[float] = []
        self._held = 0
        self._thread: threading.Thread | None = None
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._main_thread = 0
        self._watching: _Watch | None = None

    @contextmanager
    def hold(self, grant: Grant, context: TaskContext, config: ResolvedConfig) -> Iterator[Lease]:
        """Keep the task's lease for the block: until its verdict, not only while its function runs."""
        lease = Lease(grant, context, config, self._clock)
        self._start()
        with self._lock:
            self._held += 1
            self._put(lease)
        try:
            yield lease
        finally:
            with self._lock:
                self._held -= 1
                lease.released = True
                self._slots.get(lease.slot, set()).discard(lease)

    def close(self) -> None:
        """End the thread. Leases still held are no longer extended."""
        watch, thread = self._watching, self._thread
        if watch is not None:
            watch.close()
        if thread is not None:
            thread.join(timeout=5)
        self._thread = self._watching = None

    def _start(self) -> None:
        if self._thread is None:
            self._main_loop = asyncio.get_running_loop()
            self._main_thread = threading.get_ident()
            self._watching = _Watch(self)
            self._thread = threading.Thread(target=self._watching.run, name="conductor-leases", daemon=True)
            self._thread.start()

    def _put(self, lease: Lease) -> None:
        """With the lock held: note when the lease needs a look, and wake the thread if that is the nearest."""
        if lease.released:
            return
        at = lease.watch_at()
        # Fine steps for what is near, coarse ones for what is far: a busy worker has few distinct times.
        step = 0.05 if at - self._clock.monotonic() < 30 else 1.0
        lease.slot = math.floor(at / step) * step
        if lease.slot in self._slots:
            self._slots[lease.slot].add(lease)
            return
        self._slots[lease.slot] = {lease}
        heapq.heappush(self._times, lease.slot)
        if self._watching is not None:
            self._watching.nearer(lease.slot)

    def _due(self) -> list[Lease]:
        """The leases to look at now; the watch learns when the next is."""
        assert self._watching is not None  # noqa: S101
        now = self._clock.monotonic()
        due: list[Lease] = []
        with self._lock:
            while self._times and self._times[0] <= now:
                due.extend(self._slots.pop(heapq.heappop(self._times)))
            self._watching.until(self._times[0] if self._times else math.inf)
        return due

    def _again(self, lease: Lease) -> None:
        with self._lock:
            self._put(lease)

    def _on_loop(self, call: Callable[[], object]) -> None:
        assert self._main_loop is not None  # noqa: S101
        try:
            self._main_loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended

    def _lose(self, lease: Lease, reason: str) -> None:
        self._on_loop(lambda: self.lose(lease, reason))
        # Here too, for a `def` that looks while the loop is blocked; but second: what it then returns comes too late.
        lease.context.cancel(reason)

    def _expire(self, lease: Lease) -> None:
        """Its time is over by our clock."""
        reason = f"not extended for {lease.response_timeout_s:g} s, its response timeout"
        self._on_loop(lambda: None if lease.judged_by_server else self.lose(lease, reason))
        lease.context.cancel(reason)  # as in `_lose`

    def lose(self, lease: Lease, reason: str) -> None:
        """The lease is gone: stop the work and say so, on the event loop."""
        if not lease.stop(Stop.LOST, reason):
            return
        task = lease.task
        logger.warning(
            "Lost the lease of task %s (%s): %s; its result is discarded", task.task_id, task.task_type, reason
        )
        self._events.emit(
            TaskLeaseLost,
            lease.context.task_def_name,
            task.task_id,
            lease.config.worker_id,
            task.workflow_instance_id,
            reason,
        )

    def _extended(self, lease: Lease, sent_at: float) -> None:
        lease.deadline = max(lease.deadline, sent_at + lease.response_timeout_s)
        lease.beat_at = sent_at + lease.next_beat_s()
        if lease.doubtful:
            self._on_loop(lease.confirm)
        task, left = lease.task, lease.deadline - self._clock.monotonic()
        if self._events.has_listeners(TaskLeaseExtended):
            event = TaskLeaseExtended(
                lease.context.task_def_name, task.task_id, lease.config.worker_id, task.workflow_instance_id, left
            )
            self._on_loop(lambda: self._events.publish(event))


class _Watch:
    """The keeper's thread: an event loop of its own, asleep until the nearest lease needs a look."""

    def __init__(self, keeper: LeaseKeeper) -> None:
        self._keeper = keeper
        self._clock = keeper._clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._until: float = math.inf
        self._closing = False
        self._beats: set[asyncio.Task[None]] = set()
        self._heartbeat: Heartbeat | None = None

    def run(self) -> None:
        asyncio.run(self._watch())

    def until(self, at: float) -> None:
        """The nearest time known; called with the keeper's lock held."""
        self._until = at

    def nearer(self, at: float) -> None:
        """A lease needs a look at this time; called with the keeper's lock held, from any thread."""
        if at < self._until and self._loop is not None:
            self._until = at
            self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        self._closing = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:
                pass  # it has ended already

    async def _watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        guard = asyncio.create_task(self._guard_main_loop())
        try:
            while not self._closing:
                self._wake.clear()
                due = self._keeper._due()
                for lease in due:
                    self._look_at(lease)
                if not due:  # else look again: what was due has new times
                    left_s = self._until - self._clock.monotonic()
                    await self._clock.wait(self._wake, None if self._until == math.inf else left_s)
        finally:
            guard.cancel()
            for beat in self._beats:
                beat.cancel()
            await asyncio.gather(guard, *self._beats, return_exceptions=True)
            if self._heartbeat is not None:
                await self._heartbeat.close()

    def _look_at(self, lease: Lease) -> None:
        now = self._clock.monotonic()
        if lease.is_over():
            return
        if now >= lease.deadline:
            self._keeper._expire(lease)
            return
        if lease.timeout_at is not None and now >= lease.timeout_at:
            lease.timeout_at = None
            reason = f"the task ran longer than its timeout of {lease.timeout_s:g} s"
            self._keeper._on_loop(lambda: lease.stop(Stop.TIMED_OUT, reason))
            lease.context.cancel(reason)  # as in `_lose`
        if lease.beating and now >= lease.beat_at:
            lease.beat_at = math.inf  # until this one is answered
            beat = asyncio.ensure_future(self._beat(lease))
            self._beats.add(beat)
            beat.add_done_callback(self._beats.discard)
        self._keeper._again(lease)

    async def _beat(self, lease: Lease) -> None:
        """One heartbeat. Its failure says nothing about ownership: only the deadline ends a lease."""
        if self._heartbeat is None:
            self._heartbeat = self._keeper._open_heartbeat()
        if lease.is_over():  # meanwhile: this thread had to wait for its turn
            return
        sent_at = self._clock.monotonic()
        left_s = lease.deadline - sent_at
        try:
            # Half of what is left: a request that hangs leaves the time for another one.
            loss = await self._heartbeat.send(lease, timeout_s=max(0.05, left_s / 2))
        except (ConductorError, OSError) as error:
            if lease.is_over():
                return
            lease.failed_beats += 1
            level = logging.WARNING if lease.failed_beats == 1 else logging.DEBUG  # one line for an outage
            logger.log(level, "Heartbeat of task %s failed and is repeated: %s", lease.task.task_id, error)
            repeat_s = max(SOONEST_REPEAT_S, min(REPEAT_S, left_s / 10))
            lease.beat_at = self._clock.monotonic() + repeat_s * random.uniform(0.8, 1.0)
        else:
            if lease.is_over():
                return
            lease.failed_beats = 0
            if loss is None:
                self._keeper._extended(lease, sent_at)
            else:
                self._keeper._lose(lease, loss)
                return
        self._keeper._again(lease)

    async def _guard_main_loop(self) -> None:
        """Name the code that blocks the workers' event loop. Real time: this is about a real thread."""
        blocked = False
        while True:
            await asyncio.sleep(BLOCKED_LOOP_S / 2)
            if not self._keeper._held:
                continue
            was_blocked, blocked = blocked, not await self._main_loop_answers()
            if blocked and not was_blocked:
                self._report_blocked()

    async def _main_loop_answers(self) -> bool:
        answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._keeper._on_loop(lambda: loop.call_soon_threadsafe(answered.set))
        try:
            async with asyncio.timeout(BLOCKED_LOOP_S):
                return await answered.wait()
        except TimeoutError:
            return False

    def _report_blocked(self) -> None:
        frame = sys._current_frames().get(self._keeper._main_thread)
        stack = "".join(traceback.format_stack(frame, limit=12)) if frame else "(its stack cannot be read)"
        logger.warning(
            "The event loop has been blocked for %.0f s; nothing else runs meanwhile. Use an async library or a `def`. "
            "It is here:\n%s",
            BLOCKED_LOOP_S,
            stack,
        )
