"""The coordinator without HTTP: what the routes call. Every method returns after its effect is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from conductor.clock import Clock
from conductor.coordinator.definitions import Snapshots
from conductor.coordinator.errors import ApiError, bad_request
from conductor.coordinator.executions import Executions
from conductor.coordinator.poll_data import PollData
from conductor.coordinator.report import Outcome, Report
from conductor.coordinator.retention import KEEP_ALL, Limits, Retention
from conductor.coordinator.store import Notes, Store, StoreError, Tx
from conductor.coordinator.task_queue import TaskQueue
from conductor.coordinator.timers import DeadlineTimer
from conductor.coordinator.waiters import Waiter, Waiters
from conductor.wire import MAX_POLL_TIMEOUT_MS, Verdict

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Overdue tasks looked at in one transaction; more are taken by the next, so that nobody waits long behind them.
EXPIRED_PER_STEP = 200
#: After a failed step the timer tries again this much later.
RETRY_STEP_MS = 1000
LONG_POLL_REFUSED = "Long Poll Timeout value cannot be more than 5 seconds"


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll as it was asked."""

    task_type: str
    domain: str = ""
    worker_id: str | None = None
    count: int = 1
    timeout_ms: int = 100


class Core:
    """Rules, store, waiters and timer under one roof."""

    def __init__(self, store: Store, clock: Clock, keep: Limits = KEEP_ALL) -> None:
        self.store = store
        self.clock = clock
        self.snapshots = Snapshots()
        self.poll_data = PollData()
        self.queue = TaskQueue(self.snapshots)
        self.executions = Executions(self.queue, self.snapshots, self.poll_data)
        self.waiters = Waiters(clock)
        self._timer = DeadlineTimer(clock, self._tick_on_time)
        self._retention = Retention(store, clock, keep) if keep else None
        self._tasks: list[asyncio.Task[None]] = []
        self._watchers: dict[int, set[asyncio.Event]] = {}

    # -- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover: act on every deadline that passed while nobody looked, then watch the next."""
        loop = asyncio.get_running_loop()

        def committed(notes: Notes) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is parked any more
                loop.call_soon_threadsafe(self._committed, notes)

        self.store.on_commit = committed
        self._timer.notice(await self._tick_on_time())
        self._tasks.append(asyncio.create_task(self._timer.run(), name="coordinator-timer"))
        if self._retention is not None:
            self._tasks.append(asyncio.create_task(self._retention.run(), name="coordinator-retention"))

    def drain(self) -> None:
        """Answer every parked poll at once."""
        self.waiters.close()
        self._moved(*self._watchers)

    async def stop(self) -> None:
        """End what runs beside the requests."""
        self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _committed(self, notes: Notes) -> None:
        self.waiters.wake(notes.ready)
        self._timer.notice(notes.wake_ms)
        if notes.ended and self._retention is not None:
            self._retention.notice()
        self._moved(*notes.ended)

    def _moved(self, *workflows: int) -> None:
        for workflow in workflows:
            for event in self._watchers.get(workflow, ()):
                event.set()

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, tx: Tx) -> int | None:
        """Act on what is due; when to look again."""
        self.executions.expire(tx, EXPIRED_PER_STEP)
        self.queue.release_rate_limited(tx)
        nearest: int | None = tx.value("nearest wake")
        tx.notes.add_wake(nearest)
        return tx.notes.wake_ms

    async def _tick_on_time(self) -> int | None:
        try:
            return await self.store.write(self.tick)
        except StoreError as error:
            logger.error("deadlines could not be acted on: %s; trying again in %d ms", error, RETRY_STEP_MS)
        # Nothing may end the timer, or keep the coordinator from starting: all other workflows wait for it too.
        except Exception:
            logger.exception("deadlines could not be acted on; trying again in %d ms", RETRY_STEP_MS)
        return self.clock.wall_ms() + RETRY_STEP_MS

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def poll(self, poll: Poll, watch: Callable[[Callable[[], None]], Any] | None = None) -> list[dict[str, Any]]:
        """Lease tasks; park up to the timeout while there are none. `watch(gone)` tells when the client hangs up."""
        if poll.timeout_ms > MAX_POLL_TIMEOUT_MS:
            raise bad_request(LONG_POLL_REFUSED)
        self.poll_data.note(poll.task_type, poll.domain, poll.worker_id, self.clock.wall_ms())
        if poll.count <= 0:
            self.waiters.recall((poll.task_type, poll.domain), poll.worker_id)
            return []

        async def attempt() -> list[dict[str, Any]]:
            return await self.store.write(lambda tx: self.poll_now(tx, poll))

        if poll.timeout_ms <= 0:
            return await attempt()
        return await self._parked(poll, attempt, watch)

    def poll_now(self, tx: Tx, poll: Poll) -> list[dict[str, Any]]:
        """Lease what is ready, without waiting."""
        self.executions.expire(tx, EXPIRED_PER_STEP)
        return self.queue.poll(tx, poll.task_type, poll.domain, poll.worker_id, poll.count)

    async def _parked(
        self, poll: Poll, attempt: Callable[[], Any], watch: Callable[[Callable[[], None]], Any] | None
    ) -> list[dict[str, Any]]:
        waiter = Waiter(poll.worker_id)
        watcher = asyncio.ensure_future(watch(waiter.leave)) if watch is not None else None
        try:
            key = (poll.task_type, poll.domain)
            tasks = await self.waiters.wait(key, poll.timeout_ms / 1000, waiter, attempt, poll.count)
        finally:
            if watcher is not None:
                watcher.cancel()
        if waiter.gone and tasks:
            # Granted in the very moment the client left: nobody works on these, so nobody must wait for their leases.
            await self.store.write(lambda tx: self.queue.take_back(tx, [task["taskId"] for task in tasks]))
            return []
        return tasks

    async def report(self, report: Report) -> Outcome:
        """One report or heartbeat."""
        return await self.store.write(lambda tx: self.judge(tx, report))

    def judge(self, tx: Tx, report: Report) -> Outcome:
        """The verdict on one report or heartbeat, and what follows from it."""
        outcome = self._verdict(tx, report)
        if outcome.workflow is not None:
            self.executions.advance(tx, [outcome.workflow])
        return outcome

    def _verdict(self, tx: Tx, report: Report) -> Outcome:
        return self.queue.extend(tx, report) if report.extend_lease else self.queue.report(tx, report)

    async def report_and_poll(self, report: Report) -> tuple[Outcome, dict[str, Any] | None]:
        """A report, and the next task of the queue its task came from: one transaction, one answer."""
        return await self.store.write(lambda tx: self._report_and_poll(tx, report))

    def _report_and_poll(self, tx: Tx, report: Report) -> tuple[Outcome, dict[str, Any] | None]:
        outcome = self.judge(tx, report)
        if outcome.status >= 400 or outcome.ended_queue is None or report.extend_lease:
            return outcome, None
        task_type, domain = tx.row("queue of", outcome.ended_queue) or ("", "")
        found = self.poll_now(tx, Poll(task_type, domain, report.worker_id, 1, 0))
        return outcome, found[0] if found else None

    async def reports(self, reports: list[Report]) -> list[Outcome]:
        """Many at once: each is judged for itself, all in one transaction."""
        return await self.store.write(lambda tx: self.judge_all(tx, reports))

    def judge_all(self, tx: Tx, reports: list[Report]) -> list[Outcome]:
        """The verdicts on reports that came together, then what follows from them, once for each workflow."""
        outcomes = [self._one_of_many(tx, report) for report in reports]
        self.executions.advance(tx, [one.workflow for one in outcomes if one.workflow is not None])
        return outcomes

    def _one_of_many(self, tx: Tx, report: Report) -> Outcome:
        try:
            with tx.savepoint():
                return self._verdict(tx, report)
        except ApiError as error:
            return Outcome(report.task_id or "", error.verdict or Verdict.REJECTED, error.status, error.message)

    async def wait_for(self, workflow: int, look: Callable[[Tx], set[int]], timeout_s: float) -> bool:
        """Park until `look` names no workflow to wait for any more. Whether it was in time.

        It looks again after each commit that moves `workflow` or one of those it named.
        """
        moved, watched = asyncio.Event(), {workflow}
        self._watchers.setdefault(workflow, set()).add(moved)
        ends = self.clock.monotonic() + timeout_s
        try:
            while wanted := await self.store.write(look):
                if new := wanted - watched:
                    watched |= new
                    for one in new:
                        self._watchers.setdefault(one, set()).add(moved)
                    continue  # it may have moved before it was watched
                left_s = ends - self.clock.monotonic()
                if left_s <= 0 or self.waiters.closed or not await self.clock.wait(moved, left_s):
                    return False
                moved.clear()
        finally:
            for one in watched:
                self._unwatch(one, moved)
        return True

    def _unwatch(self, workflow: int, moved: asyncio.Event) -> None:
        self._watchers[workflow].discard(moved)
        if not self._watchers[workflow]:
            del self._watchers[workflow]

    # -- everything else ------------------------------------------------------------------------------------------

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run one change of the rules' modules."""
        return await self.store.write(fn)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run one query beside the writer."""
        return await self.store.read(fn)
