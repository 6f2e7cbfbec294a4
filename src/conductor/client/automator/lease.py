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
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from conductor.client.automator.blocked_loop import LoopGuard
from conductor.client.automator.progress import NEWS_S, Said
from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.event.task_runner_events import TaskLeaseExtended, TaskLeaseLost
from conductor.client.http.async_rest import ConductorError

if TYPE_CHECKING:
    from conductor.client.automator.heartbeat import Heartbeat
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.context.task_context import TaskContext
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: A failed heartbeat is repeated after a tenth of what is left of the lease, within these bounds.
REPEAT_S, SOONEST_REPEAT_S = 1.0, 0.25
#: Log lines that a plain server did not take are tried again after this long, and this many are sent at once.
REPEAT_LOGS_S, MAX_LOG_REQUESTS = 10.0, 100


class LeaseKeeper:
    """Keeps the leases of one process. `hold`, `release`, `close`: on the workers' event loop; the rest on its thread.

    The thread has an event loop of its own and sleeps until the nearest lease needs a look.
    """

    def __init__(self, open_heartbeat: Callable[[], Heartbeat], events: SyncEventDispatcher, clock: Clock) -> None:
        self._open_heartbeat = open_heartbeat
        self._heartbeat: Heartbeat | None = None
        self._beats: set[asyncio.Task[None]] = set()
        self._events = events
        self._clock = clock
        #: For the four below: both threads use them.
        self._lock = threading.Lock()
        #: Tasks by the time at which they need a look; times in a heap. A task leaves in O(1) when it has its verdict.
        self._slots: dict[float, set[RunningTask]] = {}
        self._times: list[float] = []
        self._held: dict[RunningTask, float] = {}
        self._asleep_until = math.inf
        self._workers_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._closing = False
        #: Work that waits to be started on the thread.
        self._requested: deque[Coroutine[object, object, None]] = deque()

    def hold(self, grant: Grant, context: TaskContext, config: ResolvedConfig) -> RunningTask:
        """Keep the task's lease until `release`: until its verdict, not only while its function runs."""
        now = self._clock.monotonic()
        running = RunningTask(grant, context, config, now)
        if self._thread is None:
            self._start()
        with self._lock:
            self._put(running, running.look_at(), now)
        context.on_news = partial(self._bring_news_forward, running)
        return running

    def release(self, running: RunningTask) -> None:
        """Keep it no longer; a second time changes nothing."""
        running.context.on_news = None
        with self._lock:
            running.released = True
            slot = self._slots.get(self._held.pop(running, math.inf))
            if slot is not None:
                slot.discard(running)

    def close(self) -> None:
        """End the thread. Leases still held are no longer extended."""
        self._closing = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:
                pass  # it has ended already
        if self._thread is not None:
            self._thread.join(timeout=5)

    def run_on_thread(self, work: Coroutine[object, object, None]) -> None:
        """Run something on the thread of the leases, which a blocked event loop does not stop."""
        self._requested.append(work)
        if self._thread is None:
            self._start()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def call_on_loop(self, call: Callable[[], object]) -> None:
        """Call something on the workers' event loop, from the thread of the leases."""
        self._on_workers_loop(call)

    async def requeue(self, reports: list[bytes], level: int = logging.WARNING) -> bool:
        """Send reports that return tasks, on the thread of the leases. False: they must be sent again.

        A failure is logged with `level`.
        """
        try:
            await self._connection().requeue(reports)
        except (ConductorError, OSError) as error:
            logger.log(level, "Requeue failed and is repeated: tasks=%d error=%r", len(reports), str(error))
            return False
        return True

    def _start(self) -> None:
        self._workers_loop = asyncio.get_running_loop()
        guard = LoopGuard()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._watch(guard)), name="conductor-leases", daemon=True
        )
        self._thread.start()

    def _bring_news_forward(self, running: RunningTask) -> None:
        """The task has something to say; called on its own thread, once until that is looked at."""
        with self._lock:
            if running.released or running.context.closed:
                return
            news = running.news
            if news.at == math.inf:
                news.at = self._clock.monotonic() + NEWS_S
            self._slots.get(self._held[running], set()).discard(running)
            self._put(running, running.look_at(), self._clock.monotonic())

    def _put(self, running: RunningTask, at: float, now: float) -> None:
        """With the lock held: note when the task needs a look, and wake the thread if that is the nearest."""
        # Fine steps for what is near, coarse ones for what is far: a busy worker has few distinct times.
        step = 0.05 if at - now < 30 else 1.0
        slot = math.floor(at / step) * step
        if slot <= now:  # it was looked at a little early: the next look is at the very time
            slot = at
        self._held[running] = slot
        if slot in self._slots:
            self._slots[slot].add(running)
            return
        self._slots[slot] = {running}
        heapq.heappush(self._times, slot)
        if slot < self._asleep_until and self._loop is not None:
            self._asleep_until = slot
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _watch(self, guard: LoopGuard) -> None:
        self._loop = asyncio.get_running_loop()
        guarding = asyncio.create_task(guard.run(lambda: bool(self._held)))
        try:
            while not self._closing:
                self._wake.clear()
                while self._requested:
                    self._go(self._requested.popleft())
                due = self._due()
                for running in due:
                    self._look_at(running)
                if not due:  # else look again: what was due has new times
                    until = self._asleep_until
                    await self._clock.wait(self._wake, None if until == math.inf else until - self._clock.monotonic())
        finally:
            guarding.cancel()
            while self._requested:
                self._requested.popleft().close()
            for beat in self._beats:
                beat.cancel()
            await asyncio.gather(guarding, *self._beats, return_exceptions=True)
            if self._heartbeat is not None:
                await self._heartbeat.close()

    def _due(self) -> list[RunningTask]:
        """The tasks to look at now."""
        now = self._clock.monotonic()
        due: list[RunningTask] = []
        with self._lock:
            while self._times and self._times[0] <= now:
                due.extend(self._slots.pop(heapq.heappop(self._times)))
            self._asleep_until = self._times[0] if self._times else math.inf
        return due

    def _look_at(self, running: RunningTask) -> None:
        if running.is_over():
            return
        now = self._clock.monotonic()
        if now >= running.deadline:
            self._expire(running)
            return
        if running.timeout_at is not None and now >= running.timeout_at:
            running.timeout_at = None
            reason = f"the task ran longer than its timeout of {running.timeout_s:g} s"
            self._on_workers_loop(lambda: running.stop(Stop.TIMED_OUT, reason))
            running.context.cancel(reason)  # as in `_lose`
        has_news = running.said is not None and now >= running.said.at and running.may_tell
        if running.beating and (now >= running.beat_at or (has_news and running.task.lease_id is not None)):
            running.beat_at = math.inf  # until this one is answered
            self._go(self._beat(running))
        elif has_news and running.news.begin():
            self._go(self._send_logs(running))
        self._look_again(running)

    def _go(self, work: Coroutine[object, object, None]) -> None:
        going = asyncio.ensure_future(work)
        self._beats.add(going)
        going.add_done_callback(self._beats.discard)

    def _look_again(self, running: RunningTask) -> None:
        with self._lock:
            if not running.released:
                self._slots.get(self._held[running], set()).discard(running)
                self._put(running, running.look_at(), self._clock.monotonic())

    def _connection(self) -> Heartbeat:
        if self._heartbeat is None:
            self._heartbeat = self._open_heartbeat()
        return self._heartbeat

    async def _send_logs(self, running: RunningTask) -> None:
        """What a task has said so far, to a plain server: its log lines, one by one."""
        news, again_s = running.news, NEWS_S
        try:
            for line in news.lines()[:MAX_LOG_REQUESTS]:
                if running.is_over() or running.context.closed:
                    break
                await self._connection().log(running, line.log)
                news.heard(Said([line], None))
                news.failed = False
        except (ConductorError, OSError) as error:
            again_s = REPEAT_LOGS_S
            level = logging.DEBUG if news.failed else logging.WARNING  # one line for an outage
            logger.log(level, "Log lines could not be sent and are sent again: %s %s", error, running.label)
            news.failed = True
        except Exception as error:  # whatever a user's code has put into the list of logs
            news.refused(f"{type(error).__name__}: {error}")
        finally:
            news.end()
        if news.more():
            news.at = self._clock.monotonic() + again_s
        self._look_again(running)

    async def _beat(self, running: RunningTask) -> None:
        """One heartbeat. Its failure says nothing about ownership: only the deadline ends a lease."""
        heartbeat = self._connection()
        if running.is_over():  # meanwhile: this thread had to wait for its turn
            return
        sent_at = self._clock.monotonic()
        left_s = running.deadline - sent_at
        try:
            # Half of what is left: a request that hangs leaves the time for another one.
            loss = await heartbeat.send(running, timeout_s=max(0.05, left_s / 2))
        except Exception as error:  # whatever it is: a task without its next heartbeat would be lost
            self._on_failed_beat(running, error, left_s)
        else:
            if running.is_over():
                return
            running.failed_beats = 0
            if loss is not None:
                self._lose(running, loss)
                return
            self._extend(running, sent_at)
        self._look_again(running)

    def _on_failed_beat(self, running: RunningTask, error: Exception, left_s: float) -> None:
        if running.is_over():
            return
        running.failed_beats += 1
        level = logging.WARNING if running.failed_beats == 1 else logging.DEBUG  # one line for an outage
        logger.log(
            level, "Heartbeat of task %s failed and is repeated: %s %s", running.task.task_id, error, running.label
        )
        repeat_s = max(SOONEST_REPEAT_S, min(REPEAT_S, left_s / 10))
        running.beat_at = self._clock.monotonic() + repeat_s * random.uniform(0.8, 1.0)

    def _extend(self, running: RunningTask, sent_at: float) -> None:
        running.deadline = max(running.deadline, sent_at + running.response_timeout_s)
        running.beat_at = sent_at + running.next_beat_s()
        if running.said is not None and running.said.at == math.inf and running.said.more():
            running.said.at = self._clock.monotonic() + NEWS_S  # there were too many for one heartbeat
        if running.doubtful:
            self._on_workers_loop(running.confirm)
        if self._events.has_listeners(TaskLeaseExtended):
            event = TaskLeaseExtended(*running.about, running.deadline - self._clock.monotonic())
            self._on_workers_loop(lambda: self._events.publish(event))

    def _expire(self, running: RunningTask) -> None:
        """Stop the work: the lease has ended by our clock. A report that exists by then is left to the server."""
        reason = f"not extended for {running.response_timeout_s:g} s, its response timeout"
        self._on_workers_loop(lambda: None if running.reported_as is not None else self._on_loss(running, reason))
        running.context.cancel(reason)  # as in `_lose`

    def _lose(self, running: RunningTask, reason: str) -> None:
        self._on_workers_loop(lambda: self._on_loss(running, reason))
        # Here too, for a `def` that looks while the loop is blocked; but second: what it then returns comes too late.
        running.context.cancel(reason)

    def _on_loss(self, running: RunningTask, reason: str) -> None:
        """The lease is gone: stop the work and say so, on the workers' event loop."""
        if not running.stop(Stop.LOST, reason):
            return
        text = "Lost the lease of task %s (%s): %s; its result is discarded %s"
        logger.warning(text, running.task.task_id, running.task.task_type, reason, running.label)
        self._events.emit(TaskLeaseLost, *running.about, reason)

    def _on_workers_loop(self, call: Callable[[], object]) -> None:
        assert self._workers_loop is not None  # noqa: S101
        try:
            self._workers_loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended
