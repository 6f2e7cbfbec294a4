"""The coordinator without HTTP: poll, report, wait. What is awaited returns after its effect is on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conductor.common.clock import Clock
from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.definitions.event_handlers import publish_event
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.events.event_actions import EventActions
from conductor.coordinator.events.event_handler_loop import EventHandlerLoop
from conductor.coordinator.limits import (
    EVENTS_PER_STEP,
    EXPIRED_PER_STEP,
    MAX_DRY_RUNS,
    RUNS_PER_STEP,
    WAIT_FOR_SCRIPTS_S,
)
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.schedules.schedule_runner import ScheduleRunner
from conductor.coordinator.server_metrics import (
    HEARTBEATS_TOTAL,
    NO_QUEUE,
    NO_VERDICT,
    POLLS_TOTAL,
    REPORTS_TOTAL,
    RequestTimes,
    Tally,
)
from conductor.coordinator.settings.secrets import Secrets
from conductor.coordinator.store.retention import KEEP_ALL, Limits, Retention
from conductor.coordinator.store.statements import NEAREST_WAKE, QUEUE_OF
from conductor.coordinator.store.transaction import EndedWorkflow, Notes, PolledQueue, Tx
from conductor.coordinator.store.write_probe import Probe
from conductor.coordinator.store.writer import Store, StoreError
from conductor.coordinator.tasks.deadline_timer import DeadlineTimer
from conductor.coordinator.tasks.parked_polls import Waiter, Waiters
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.views.waiting_facts import PollRecord, PollRecords
from conductor.coordinator.workflows.deadlines import Deadlines
from conductor.coordinator.workflows.effects import FOREVER_MS
from conductor.coordinator.workflows.executions import Executions
from conductor.protocol.wire import MAX_POLL_TIMEOUT_MS

logger = logging.getLogger(__name__)

#: After a failed step the timer tries again this much later.
RETRY_STEP_MS = 1000
#: Takes what is to be called when a client has gone.
WhenGone = Callable[[Callable[[], None]], None]
LONG_POLL_REFUSED = "Long Poll Timeout value cannot be more than 5 seconds"


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll as it was asked."""

    task_type: str
    domain: str = ""
    worker_id: str | None = None
    count: int = 1
    timeout_ms: int = 100


def _log_end(ended: EndedWorkflow) -> None:
    level = logging.WARNING if ended.status in ("FAILED", "TIMED_OUT") else logging.INFO
    about = {"workflow_id": ended.workflow_id, "workflow_type": ended.name, "status": ended.status}
    why = f": {' '.join(ended.reason.split())}" if ended.reason else ""
    logger.log(level, "Workflow %s (%s) ended as %s%s", ended.workflow_id, ended.name, ended.status, why, extra=about)


def _nobody(*_: Any) -> None:
    """Nobody wants to know."""


class Core:
    """Rules, store, waiters and timer under one roof."""

    def __init__(self, store: Store, clock: Clock, keep: Limits = KEEP_ALL) -> None:
        self.store = store
        #: Run one change in a transaction; returns after its commit.
        self.write = store.write
        #: Run one query beside the writer.
        self.read = store.read
        #: Run one that may take long, such as a search.
        self.read_long = store.read_long
        #: Whether the writer writes.
        self.probe = Probe(store)
        self.clock = clock
        self.keep = keep
        self.started_ms = clock.wall_ms()
        #: What is counted on the event loop, for the metrics; what is committed is counted in `store.counts`.
        self.counts = Tally()
        self.request_times = RequestTimes()
        self.snapshots = Snapshots()
        self.poll_data = PollData()
        self.secrets = Secrets(store.salt)
        store.call(self.secrets.load)
        self.queue = TaskQueue(self.snapshots, self.secrets)
        self.executions = Executions(self.queue, self.snapshots, self.poll_data)
        self.deadlines = Deadlines(self.executions, self.queue, self.snapshots)
        self.schedule_runs = ScheduleRunner(self.executions)
        self.events = EventHandlerLoop(EventActions(self.executions, self.judge))
        self.waiters = Waiters(clock)
        #: So many tests of workflows run at once.
        self.trials = asyncio.Semaphore(MAX_DRY_RUNS)
        #: Bulk starts run one after another, so that a poll waits for one turn of one of them at most.
        self.bulk_starts = asyncio.Semaphore(1)
        self._timer = DeadlineTimer(clock, self._tick_on_time)
        self._retention = Retention(store, clock, keep) if keep else None
        self._tasks: list[asyncio.Task[None]] = []
        self._watchers: dict[int, set[asyncio.Event]] = {}
        #: Told of every queue of the coordinator's own workers in which a task has become ready: (type, domain).
        self.on_system_task: Callable[[str, str], None] = _nobody

    # -- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Watch deadlines. Those that passed while nobody looked are acted on at once, beside the first requests."""
        self.store.before_commit = self._grant_to_parked
        self.store.on_commit, self.store.notify_loop = self._committed, asyncio.get_running_loop()
        self._timer.notice(self.clock.wall_ms())
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

    def _grant_to_parked(self, tx: Tx) -> None:
        """On the writer's thread: what has become ready is leased to those who wait for it, in the same transaction."""
        if not self.waiters.lines:
            return
        notes = tx.notes
        for (task_type, domain), count in list(notes.ready.items()):
            left = count
            while left > 0 and (waiter := self.waiters.claim((task_type, domain))) is not None:
                notes.grants.append((waiter, []))  # it is told in any case
                granted = self.poll_now(tx, Poll(task_type, domain, waiter.worker_id, waiter.wanted, 0))
                notes.grants[-1] = waiter, granted
                left -= len(granted) or left
            if left < count:  # meanwhile more may have become ready
                notes.ready[task_type, domain] -= count - left

    def _committed(self, notes: Notes) -> None:
        for waiter, granted in notes.grants:
            waiter.give(granted)
        if notes.ready:
            if self.waiters.lines:
                self.waiters.wake(notes.ready)
            for task_type, domain in notes.ready:
                if domain.startswith(SYSTEM_DOMAIN):
                    self.on_system_task(task_type, domain)
        for task_type, domain, worker_id in notes.polled:
            self._note_poll(task_type, domain, worker_id)
        if notes.wake_at_ms is not None:
            self._timer.notice(notes.wake_at_ms)
        self._timer.look()
        for ended in notes.ended:
            _log_end(ended)
        if notes.has_ended and self._retention is not None:
            self._retention.notice()
        if self._watchers:
            self._moved(*notes.changed_workflows)

    def _moved(self, *workflows: int) -> None:
        for workflow in workflows:
            for event in self._watchers.get(workflow, ()):
                event.set()

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, tx: Tx) -> int | None:
        """Act on what is due; when to look again."""
        self.deadlines.expire(tx, EXPIRED_PER_STEP)
        self.executions.terminate_some(tx, EXPIRED_PER_STEP)
        self.queue.release_rate_limited(tx)
        self.schedule_runs.start_due(tx, RUNS_PER_STEP)
        self.events.handle(tx, EVENTS_PER_STEP)
        nearest: int | None = tx.first(NEAREST_WAKE)
        tx.notes.add_wake(nearest)
        tx.cache.nothing_due_before_ms = FOREVER_MS if nearest is None else nearest
        return tx.notes.wake_at_ms

    async def _tick_on_time(self) -> int | None:
        try:
            return await self.write(self.tick)
        except StoreError as error:
            logger.error("deadlines could not be acted on: %s; trying again in %d ms", error, RETRY_STEP_MS)
        # Nothing may end the timer, or keep the coordinator from starting: all other workflows wait for it too.
        except Exception:
            logger.exception("deadlines could not be acted on; trying again in %d ms", RETRY_STEP_MS)
        return self.clock.wall_ms() + RETRY_STEP_MS

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def poll(self, poll: Poll, when_gone: WhenGone | None = None) -> list[dict[str, Any]]:
        """Lease tasks; park up to the timeout while there are none. `when_gone(tell)`: have `tell` called when the
        client hangs up."""
        if poll.timeout_ms > MAX_POLL_TIMEOUT_MS:
            raise bad_request(LONG_POLL_REFUSED)
        self._note_poll(poll.task_type, poll.domain, poll.worker_id)
        if poll.count <= 0:
            self.waiters.recall((poll.task_type, poll.domain), poll.worker_id)
            return []

        async def attempt() -> list[dict[str, Any]]:
            return await self.write(lambda tx: self.poll_now(tx, poll), work=0)

        if poll.timeout_ms <= 0:
            return await attempt()
        return await self._parked(poll, attempt, when_gone)

    def _note_poll(self, task_type: str, domain: str, worker_id: str | None) -> None:
        self.poll_data.note(task_type, domain, worker_id, self.clock.wall_ms())
        self.counts.add((POLLS_TOTAL.name, task_type))

    def poll_now(self, tx: Tx, poll: Poll) -> list[dict[str, Any]]:
        """Lease what is ready, without waiting. What is for the coordinator's own workers is for nobody else."""
        if poll.domain.startswith(SYSTEM_DOMAIN):
            return []
        self.deadlines.expire(tx, EXPIRED_PER_STEP)
        return self.queue.poll(tx, poll.task_type, poll.domain, poll.worker_id, poll.count)

    async def _parked(self, poll: Poll, attempt: Callable[[], Any], when_gone: WhenGone | None) -> list[dict[str, Any]]:
        waiter = Waiter(poll.worker_id, poll.count)
        if when_gone is not None:
            when_gone(waiter.leave)
        key = (poll.task_type, poll.domain)
        tasks = await self.waiters.wait(key, poll.timeout_ms / 1000, waiter, attempt)
        if waiter.gone and tasks:
            # Granted in the very moment the client left: nobody works on these, so nobody must wait for their leases.
            await self.write(lambda tx: self.queue.undo_grants(tx, [task["taskId"] for task in tasks]))
            return []
        return tasks

    def publish_event(self, tx: Tx, name: str, payload: dict[str, Any]) -> None:
        """A workflow has published an event, such as `conductor:orders:paid`: its handlers are told, once."""
        publish_event(tx, name, payload)

    def polls(self) -> PollRecords:
        """Who polls which queue, and how many polls are parked there."""
        parked = self.waiters.parked()
        known = {key: PollRecord(last.worker_id, last.at_ms, parked.get(key, 0)) for key, last in self.poll_data}
        return PollRecords(known, self.started_ms)

    def judge(self, tx: Tx, reports: Sequence[Report], wanted: int = 0) -> list[Outcome]:
        """Return the verdicts on reports and heartbeats that came together, after acting on them.

        Each is judged for itself; each workflow is decided on once. The authors of the first `wanted` reports are
        granted one more task each, in the same transaction.
        """
        if len(reports) > 1:
            pks = [tx.ids.workflow_pk(report.workflow_instance_id) for report in reports]
            tx.cache.load(tx, [pk for pk in pks if pk is not None])
        outcomes = [self._verdict(tx, report) for report in reports]
        moved: list[int] = []
        for outcome in outcomes:
            if outcome.expired is not None:
                moved += self.deadlines.timed_out(tx, outcome.expired)
            if outcome.workflow is not None:
                moved.append(outcome.workflow)
        self.executions.advance(tx, moved)
        if wanted or any(outcome.is_repeated for outcome in outcomes):
            outcomes = self.queue.grant_next(tx, reports, outcomes, wanted, self._poll_for_next)
        return outcomes

    def _poll_for_next(
        self, tx: Tx, task_type: str, domain: str, worker_id: str | None, reported: list[int]
    ) -> list[dict[str, Any]]:
        tx.notes.polled.append(PolledQueue(task_type, domain, worker_id))
        self.deadlines.expire(tx, EXPIRED_PER_STEP)
        return self.queue.poll(tx, task_type, domain, worker_id, len(reported), reported)

    def _verdict(self, tx: Tx, report: Report) -> Outcome:
        try:
            if not report.extend_lease:
                return self.queue.report(tx, report)  # counted there, by its queue
            found = self.queue.extend(tx, report)
        except ApiError as error:  # nothing was changed: a report is judged before it has an effect
            found = Outcome(report.task_id or "", error.verdict, error.status, error.message, error=error)
        counted = (HEARTBEATS_TOTAL.name,) if report.extend_lease else (REPORTS_TOTAL.name, NO_QUEUE)
        tx.notes.count((*counted, found.verdict or NO_VERDICT))
        return found

    def judge_and_poll(self, tx: Tx, report: Report) -> tuple[Outcome, dict[str, Any] | None]:
        """A report, and the next task of the queue its task came from: one transaction, one answer."""
        (outcome,) = self.judge(tx, [report])
        if outcome.status >= 400 or outcome.ended_queue is None or report.extend_lease:
            return outcome, None
        queue = tx.cached_first(QUEUE_OF, outcome.ended_queue)
        if queue is None:
            return outcome, None
        found = self.poll_now(tx, Poll(queue.task_type, queue.domain, report.worker_id, 1, 0))
        return outcome, found[0] if found else None

    async def wait_for(self, workflow: int, look: Callable[[Tx], set[int]], timeout_s: float) -> bool:
        """Park until `look` names no workflow to wait for any more. Whether it was in time.

        It looks again after each commit that moves `workflow` or one of those it named.
        """
        moved, watched = asyncio.Event(), {workflow}
        self._watchers.setdefault(workflow, set()).add(moved)
        ends = self.clock.monotonic() + timeout_s
        try:
            while wanted := await self.write(look):
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

    async def wait_for_scripts(self, workflow: int) -> bool:
        """Park until no script of a workflow is queued or running. Return whether that was within half a second.

        Conductor evaluates scripts before it answers. A script runs in a process of its own here, after the commit.
        """

        def look(tx: Tx) -> set[int]:
            return {workflow} if self.executions.waits_for_script(tx, workflow) else set()

        return await self.wait_for(workflow, look, WAIT_FOR_SCRIPTS_S)

    def _unwatch(self, workflow: int, moved: asyncio.Event) -> None:
        self._watchers[workflow].discard(moved)
        if not self._watchers[workflow]:
            del self._watchers[workflow]
