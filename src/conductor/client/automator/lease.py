"""Keeps the leases of running tasks: heartbeats, deadlines, and the loss of a lease.

A lease counts from the moment the poll was sent, on the worker's own monotonic clock. The lease therefore never ends
later at the worker than on the server. One thread per process, the lease thread, watches deadlines and sends heartbeats
over a connection of its own. So if a task blocks the event loop, the other tasks keep their leases.
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
from conductor.client.automator.progress import UPDATE_DELAY_S, ProgressUpdate
from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.event.task_runner_events import TaskLeaseExtended, TaskLeaseLost
from conductor.client.http.async_rest import ConductorError

if TYPE_CHECKING:
    from conductor.client.automator.heartbeat import Heartbeat
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: A failed heartbeat is repeated after a tenth of the remaining lease, within these bounds.
MIN_REPEAT_S, MAX_REPEAT_S = 0.25, 1.0
#: Log lines that a Conductor server did not accept are sent again after this time.
REPEAT_LOGS_S = 10.0
#: At most this many log lines of a task are sent to a Conductor server in one round, with one request each.
MAX_LOG_REQUESTS = 100


class LeaseKeeper:
    """Keeps the leases of one process.

    `hold`, `release`, `run_on_thread` and `close` are called on the workers' event loop. Other methods run on the lease
    thread, unless their docstring names another one. That thread has an event loop of its own and sleeps until the next
    task must be checked.
    """

    def __init__(self, open_heartbeat: Callable[[], Heartbeat], events: SyncEventDispatcher, clock: Clock) -> None:
        self._open_heartbeat = open_heartbeat
        self._heartbeat: Heartbeat | None = None
        self._events = events
        self._clock = clock
        #: Protects the schedule of the tasks: the next four fields, which both threads use.
        self._lock = threading.Lock()
        #: The tasks by the time of their next check, a heap of these times, and the time of each task. `release` takes
        #: O(1).
        self._tasks_at: dict[float, set[RunningTask]] = {}
        self._times: list[float] = []
        self._time_of: dict[RunningTask, float] = {}
        self._asleep_until = math.inf
        self._workers_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._closing = False
        #: Coroutines that wait to be started on the lease thread, and those that run there.
        self._requested: deque[Coroutine[object, object, None]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    def hold(self, running: RunningTask) -> None:
        """Keep the task's lease until `release`, which follows the verdict and not the return of the function."""
        if self._thread is None:
            self._start_thread()
        with self._lock:
            self._schedule(running)
        running.context.on_news = partial(self._on_progress, running)

    def release(self, running: RunningTask) -> None:
        """Stop keeping the lease. A second call is a no-op."""
        running.context.on_news = None
        with self._lock:
            running.released = True
            tasks = self._tasks_at.get(self._time_of.pop(running, math.inf))
            if tasks is not None:
                tasks.discard(running)

    def close(self) -> None:
        """End the lease thread. Leases that are still held are no longer extended."""
        self._closing = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:
                pass  # the loop is closed: the thread has ended
        if self._thread is not None:
            self._thread.join(timeout=5)

    def run_on_thread(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine on the lease thread, so that it continues while the workers' event loop is blocked."""
        self._requested.append(work)
        if self._thread is None:
            self._start_thread()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def call_on_workers_loop(self, call: Callable[[], object]) -> None:
        """Call a function on the workers' event loop."""
        assert self._workers_loop is not None  # noqa: S101
        try:
            self._workers_loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed: the workers have ended

    async def requeue(self, reports: list[bytes], level: int = logging.WARNING) -> bool:
        """Send reports that requeue tasks.

        Args:
            reports: Encoded reports.
            level: The log level of a failure.

        Returns:
            False if the request failed and must be repeated.
        """
        try:
            await self._connect().requeue(reports)
        except (ConductorError, OSError) as error:
            logger.log(level, "Requeue failed and will be repeated: tasks=%d error=%r", len(reports), str(error))
            return False
        return True

    def _start_thread(self) -> None:
        self._workers_loop = asyncio.get_running_loop()
        guard = LoopGuard()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(guard)), name="conductor-leases", daemon=True
        )
        self._thread.start()

    async def _run(self, guard: LoopGuard) -> None:
        self._loop = asyncio.get_running_loop()
        guarding = asyncio.create_task(guard.run(lambda: bool(self._time_of)))
        try:
            while not self._closing:
                self._wake.clear()
                while self._requested:
                    self._spawn(self._requested.popleft())
                due = self._take_due()
                for running in due:
                    self._check(running)
                if not due:  # the checks have changed the schedule, so look again before sleeping
                    until = self._asleep_until
                    await self._clock.wait(self._wake, None if until == math.inf else until - self._clock.monotonic())
        finally:
            guarding.cancel()
            while self._requested:
                self._requested.popleft().close()
            for task in self._running:
                task.cancel()
            await asyncio.gather(guarding, *self._running, return_exceptions=True)
            if self._heartbeat is not None:
                await self._heartbeat.close()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _connect(self) -> Heartbeat:
        if self._heartbeat is None:
            self._heartbeat = self._open_heartbeat()
        return self._heartbeat

    def _schedule(self, running: RunningTask) -> None:
        """With the lock held, schedule the next check of the task. Wake the thread if that check is the earliest."""
        now, at = self._clock.monotonic(), running.next_check_at()
        # Times are rounded down so that many tasks share one time. Distant times are rounded more than near ones.
        step = 0.05 if at - now < 30 else 1.0
        rounded = math.floor(at / step) * step
        if rounded <= now:  # the rounded time has passed: check exactly at the due time
            rounded = at
        self._time_of[running] = rounded
        if rounded in self._tasks_at:
            self._tasks_at[rounded].add(running)
            return
        self._tasks_at[rounded] = {running}
        heapq.heappush(self._times, rounded)
        if rounded < self._asleep_until and self._loop is not None:
            self._asleep_until = rounded
            self._loop.call_soon_threadsafe(self._wake.set)

    def _reschedule(self, running: RunningTask) -> None:
        with self._lock:
            if not running.released:
                self._tasks_at.get(self._time_of[running], set()).discard(running)
                self._schedule(running)

    def _on_progress(self, running: RunningTask) -> None:
        """Schedule an update with the task's new output and log lines. Runs on the task's thread, once per update."""
        if running.context.closed:
            return
        if running.progress.send_at == math.inf:
            running.progress.send_at = self._clock.monotonic() + UPDATE_DELAY_S
        self._reschedule(running)

    def _take_due(self) -> list[RunningTask]:
        now = self._clock.monotonic()
        due: list[RunningTask] = []
        with self._lock:
            while self._times and self._times[0] <= now:
                due.extend(self._tasks_at.pop(heapq.heappop(self._times)))
            self._asleep_until = self._times[0] if self._times else math.inf
        return due

    def _check(self, running: RunningTask) -> None:
        if running.is_over():
            return
        now = self._clock.monotonic()
        if now >= running.deadline:
            self._expire(running)
            return
        if running.timeout_at is not None and now >= running.timeout_at:
            running.timeout_at = None
            reason = f"the task ran longer than its timeout of {running.timeout_s:g} s"
            self.call_on_workers_loop(lambda: running.stop(Stop.TIMED_OUT, reason))
            running.context.cancel(reason)  # cancel on this thread, too; `_lose` explains why
        has_progress = now >= running.progress.send_at and running.can_send_progress()
        carries_progress = has_progress and running.task.lease_id is not None
        if running.sends_heartbeats and (now >= running.heartbeat_at or carries_progress):
            running.heartbeat_at = math.inf  # send no other heartbeat until this one is answered
            self._spawn(self._send_heartbeat(running))
        elif has_progress and running.progress.begin():
            self._spawn(self._send_logs(running))
        self._reschedule(running)

    async def _send_heartbeat(self, running: RunningTask) -> None:
        """Send one heartbeat. A failure does not end the lease: only the deadline, or the server's answer, does."""
        if running.is_over():  # the lease may have ended before this coroutine began
            return
        sent_at = self._clock.monotonic()
        left_s = running.deadline - sent_at
        try:
            heartbeat = self._connect()
            # The timeout is half of the remaining lease, so that a request that hangs leaves time for another one.
            loss = await heartbeat.send(running, timeout_s=max(0.05, left_s / 2))
        except Exception as error:  # any error must lead to the next heartbeat, or the lease would be lost
            self._on_failed_heartbeat(running, error, left_s)
        else:
            if running.is_over():
                return
            running.failed_heartbeats = 0
            if loss is not None:
                self._lose(running, loss)
                return
            self._extend(running, sent_at)
        self._reschedule(running)

    def _on_failed_heartbeat(self, running: RunningTask, error: Exception, left_s: float) -> None:
        if running.is_over():
            return
        running.failed_heartbeats += 1
        level = logging.WARNING if running.failed_heartbeats == 1 else logging.DEBUG  # one warning per outage
        logger.log(level, "Heartbeat failed and is repeated: %s %s", error, running.label)
        repeat_s = max(MIN_REPEAT_S, min(MAX_REPEAT_S, left_s / 10))
        running.heartbeat_at = self._clock.monotonic() + repeat_s * random.uniform(0.8, 1.0)

    def _extend(self, running: RunningTask, sent_at: float) -> None:
        running.deadline = max(running.deadline, sent_at + running.response_timeout_s)
        running.heartbeat_at = sent_at + running.next_heartbeat_s()
        progress = running.progress
        if progress.send_at == math.inf and progress.has_more_lines():
            progress.send_at = self._clock.monotonic() + UPDATE_DELAY_S  # one heartbeat could not carry all lines
        if running.is_doubtful:
            self.call_on_workers_loop(running.confirm)
        if self._events.has_listeners(TaskLeaseExtended):
            event = TaskLeaseExtended(*running.about, running.deadline - self._clock.monotonic())
            self.call_on_workers_loop(lambda: self._events.publish(event))

    def _expire(self, running: RunningTask) -> None:
        """Stop a task whose lease has ended by the worker's clock.

        If the task already has a report, the report is still sent, and the server decides whether it counts.
        """
        reason = f"not extended for {running.response_timeout_s:g} s, its response timeout"
        self.call_on_workers_loop(lambda: None if running.report is not None else self._on_loss(running, reason))
        running.context.cancel(reason)  # cancel on this thread, too; `_lose` explains why

    def _lose(self, running: RunningTask, reason: str) -> None:
        self.call_on_workers_loop(lambda: self._on_loss(running, reason))
        # Cancel on this thread, too, so that a `def` notices the loss in its context while the event loop is blocked.
        # This comes second, so that the loop has queued the call above before the function can return.
        running.context.cancel(reason)

    def _on_loss(self, running: RunningTask, reason: str) -> None:
        """Stop the work on a task whose lease is lost. Called on the workers' event loop."""
        if not running.stop(Stop.LOST, reason):
            return
        logger.warning("Lost the lease of the task, so its result is discarded: %s %s", reason, running.label)
        self._events.emit(TaskLeaseLost, *running.about, reason)

    async def _send_logs(self, running: RunningTask) -> None:
        """Send the unsent log lines to a Conductor server, one by one."""
        progress, again_s = running.progress, UPDATE_DELAY_S
        try:
            for line in progress.next_lines()[:MAX_LOG_REQUESTS]:
                if running.is_over() or running.context.closed:
                    break
                await self._connect().log(running, line.log)
                progress.on_received(ProgressUpdate([line], None))
                progress.has_failed = False
        except (ConductorError, OSError) as error:
            again_s = REPEAT_LOGS_S
            level = logging.DEBUG if progress.has_failed else logging.WARNING  # one warning per outage
            logger.log(level, "Log lines could not be sent and are sent again: %s %s", error, running.label)
            progress.has_failed = True
        except Exception as error:  # a user's code may have put anything into the list of logs
            progress.on_rejected(f"{type(error).__name__}: {error}")
        finally:
            progress.end()
        if progress.has_more_lines():
            progress.send_at = self._clock.monotonic() + again_s
        self._reschedule(running)
