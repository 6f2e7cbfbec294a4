"""The authority over tasks: poll, report and heartbeat. Each coroutine returns after its changes are on disk.

The rules are in `tasks/task_queue.py`; this module adds parked polls, deadlines and the decisions that follow from a
report.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from conductor.common.clock import Clock
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.limits import EXPIRED_PER_STEP
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.server_metrics import (
    HEARTBEATS_TOTAL,
    NO_QUEUE,
    NO_VERDICT,
    POLLS_TOTAL,
    REPORTS_TOTAL,
    Tally,
)
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.statements import QUEUE_OF
from conductor.coordinator.store.transaction import Notes, PolledQueue, Tx
from conductor.coordinator.store.writer import Store
from conductor.coordinator.tasks.parked_polls import ParkedPoll, ParkedPolls
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.views.waiting_facts import PollRecord, PollRecords
from conductor.coordinator.views.workers import WorkerPolls
from conductor.coordinator.workflows.deadlines import Deadlines
from conductor.coordinator.workflows.executions import Executions
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import MAX_POLL_TIMEOUT_MS

LONG_POLL_REJECTED = "Long Poll Timeout value cannot be more than 5 seconds"

#: Registers a function that is called when the client has disconnected.
OnDisconnect = Callable[[Callable[[], None]], None]
#: Raises an ApiError if the key of the client does not allow a report, given the type and the operator of its task.
TaskCheck = Callable[[Report, str, str], None]


@dataclass(frozen=True, slots=True)
class Poll:
    """A worker's request for tasks."""

    task_type: str
    domain: str = ""
    worker_id: str | None = None
    count: int = 1
    timeout_ms: int = 100
    #: Facts that the worker sends with the poll: its number of slots (0: unknown), and its SDK.
    slots: int = 0
    client: str = ""


class TaskAuthority:
    """Decides which worker holds a task, and whether a report counts."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        queue: TaskQueue,
        executions: Executions,
        deadlines: Deadlines,
        poll_data: PollData,
        counts: Tally,
    ) -> None:
        self._store = store
        self._clock = clock
        self._queue = queue
        self._executions = executions
        self._deadlines = deadlines
        self._counts = counts
        self._started_ms = clock.wall_ms()
        self.poll_data = poll_data
        self.parked = ParkedPolls(clock)

    # -- polling --------------------------------------------------------------------------------------------------

    async def poll(self, poll: Poll, on_disconnect: OnDisconnect | None = None) -> list[JsonObject]:
        """Lease tasks and return them. While the queue has no ready task, park the poll, at most until its timeout.

        Args:
            poll: The poll.
            on_disconnect: Registers a function that is called when the client disconnects.

        Raises:
            ApiError: The timeout is longer than `MAX_POLL_TIMEOUT_MS`.
        """
        if poll.timeout_ms > MAX_POLL_TIMEOUT_MS:
            raise bad_request(LONG_POLL_REJECTED)
        self._note_poll(PolledQueue(poll.task_type, poll.domain, poll.worker_id), poll.slots, poll.client)
        key = (poll.task_type, poll.domain)
        if poll.count <= 0:
            self.parked.cancel_of_worker(key, poll.worker_id)
            return []

        def poll_once() -> Awaitable[list[JsonObject]]:
            return self._store.write(lambda tx: self.poll_now(tx, poll), work=0)

        if poll.timeout_ms <= 0:
            return await poll_once()
        parked = ParkedPoll(poll.worker_id, poll.count)
        if on_disconnect is not None:
            on_disconnect(parked.cancel)
        tasks = await self.parked.park(key, poll.timeout_ms / 1000, parked, poll_once)
        if parked.is_cancelled and tasks:
            # The client disconnected while the tasks were leased, so no worker received them.
            await self.undo_grants([task["taskId"] for task in tasks])
            return []
        return tasks

    def poll_now(self, tx: Tx, poll: Poll) -> list[JsonObject]:
        """Lease ready tasks without waiting, and return them.

        The result is empty for a queue of the coordinator's own workers, because clients may not poll these queues.
        """
        if poll.domain.startswith(SYSTEM_DOMAIN):
            return []
        self.apply_deadlines(tx)
        return self._grant(tx, poll.task_type, poll.domain, poll.worker_id, poll.count)

    def poll_system_tasks(self, tx: Tx, task_type: str, domain: str, worker_id: str, count: int) -> list[JsonObject]:
        """Lease tasks for one of the coordinator's own workers, and return them."""
        return self._grant(tx, task_type, domain, worker_id, count)

    def apply_deadlines(self, tx: Tx) -> None:
        """Apply the deadlines that have passed: delayed tasks become ready, and overdue tasks end."""
        self._deadlines.apply(tx, EXPIRED_PER_STEP)

    async def undo_grants(self, task_ids: list[str]) -> None:
        """Requeue tasks whose leases never reached their worker."""
        await self._store.write(lambda tx: self._queue.undo_grants(tx, task_ids))

    def requeue(self, tx: Tx, row: TaskRow) -> None:
        """Requeue a task, whether or not a worker holds it."""
        self._queue.requeue(tx, row)

    def requeue_batch(self, tx: Tx, task_type: str, after: int) -> list[int]:
        """Requeue the next open tasks of a type. Return their keys; an empty list means done."""
        return self._queue.requeue_batch(tx, task_type=task_type, after=after)

    def reset_callbacks(self, tx: Tx, workflow: int) -> None:
        """Make each task of a workflow pollable now if it waits for its callback time."""
        self._queue.reset_callbacks(tx, workflow)

    def list_polls(self) -> PollRecords:
        """Return, for each queue, its last poll and the number of its parked polls."""
        parked = self.parked.count_by_queue()
        known = {key: PollRecord(last.worker_id, last.at_ms, parked.get(key, 0)) for key, last in self.poll_data}
        return PollRecords(known, self._started_ms)

    def list_workers(self) -> WorkerPolls:
        """Return the last poll of each worker for each queue."""
        return self.poll_data.copy_workers()

    def _note_poll(self, polled: PolledQueue, slots: int = 0, client: str = "") -> None:
        now_ms = self._clock.wall_ms()
        self.poll_data.note(*polled, now_ms)
        self.poll_data.note_worker((polled.worker_id, polled.task_type, polled.domain), now_ms, slots, client)
        self._counts.add((POLLS_TOTAL.name, polled.task_type))

    # -- parked polls and commits ---------------------------------------------------------------------------------

    def grant_to_parked(self, tx: Tx) -> None:
        """Lease tasks that became ready in this transaction to parked polls. Called on the writer thread."""
        if not self.parked:
            return
        for (task_type, domain), count in list(tx.notes.ready.items()):
            left = count
            while left > 0 and (parked := self.parked.claim((task_type, domain))) is not None:
                # Note the claimed poll first. If `poll_now` fails, the poll is then answered without tasks.
                tx.notes.grants.append((parked, []))
                granted = self.poll_now(tx, Poll(task_type, domain, parked.worker_id, parked.count, 0))
                tx.notes.grants[-1] = parked, granted
                left -= len(granted) or left
            if left < count:  # subtract, because `poll_now` may have made further tasks ready
                tx.notes.ready[task_type, domain] -= count - max(0, left)

    def after_commit(self, notes: Notes) -> None:
        """Answer parked polls with the tasks that were leased for them, and wake polls for the other ready tasks."""
        for parked, granted in notes.grants:
            parked.finish_grant(granted)
        if notes.ready and self.parked:
            self.parked.wake(notes.ready)
        for polled in notes.polled:
            self._note_poll(polled)

    # -- reports --------------------------------------------------------------------------------------------------

    def judge(
        self, tx: Tx, reports: Sequence[Report], wanted: int = 0, check: TaskCheck | None = None
    ) -> list[Outcome]:
        """Judge reports and heartbeats that came together, and act on them.

        Each report is judged on its own, but each workflow is decided only once.

        Args:
            tx: The transaction.
            reports: The reports and heartbeats.
            wanted: How many reports, from the first, request another task. Their senders are granted one task each.
            check: Raises an ApiError for a report on a task that the client's key does not allow.

        Returns:
            The verdicts, in the order of the reports.
        """
        if len(reports) > 1:
            pks = [tx.ids.workflow_pk(report.workflow_instance_id) for report in reports]
            tx.cache.load(tx, [pk for pk in pks if pk is not None])
        outcomes = [self._judge_one(tx, report, check) for report in reports]
        changed: list[int] = []
        for outcome in outcomes:
            if outcome.expired is not None:
                changed += self._deadlines.apply_timeout(tx, outcome.expired)
            if outcome.workflow is not None:
                changed.append(outcome.workflow)
            if outcome.new_waits:
                changed += self._executions.begin_waits(tx, outcome.new_waits)
        self._executions.advance(tx, changed)
        if wanted or any(outcome.is_repeated for outcome in outcomes):
            outcomes = self._queue.grant_next(tx, reports, outcomes, wanted, self._poll_for_reports)
        return outcomes

    def _judge_one(self, tx: Tx, report: Report, check: TaskCheck | None) -> Outcome:
        try:
            if check is not None:
                check(report, *self._queue.type_and_operator(tx, report))
            if not report.extend_lease:
                return self._queue.report(tx, report)  # also counts the verdict for the metrics
            found = self._queue.judge_heartbeat(tx, report)
        except ApiError as error:  # nothing was changed before the error, so the other reports can take effect
            found = Outcome(report.task_id or "", error.verdict, error.status, error.message, error=error)
        counted = (HEARTBEATS_TOTAL.name,) if report.extend_lease else (REPORTS_TOTAL.name, NO_QUEUE)
        tx.notes.count((*counted, found.verdict or NO_VERDICT))
        return found

    def _poll_for_reports(
        self, tx: Tx, task_type: str, domain: str, worker_id: str | None, reported: list[int]
    ) -> list[JsonObject]:
        tx.notes.polled.append(PolledQueue(task_type, domain, worker_id))
        self.apply_deadlines(tx)
        return self._grant(tx, task_type, domain, worker_id, len(reported), reported)

    def _grant(
        self,
        tx: Tx,
        task_type: str,
        domain: str,
        worker_id: str | None,
        count: int,
        reported: Sequence[int] = (),
    ) -> list[JsonObject]:
        """Lease tasks and return them. Lease none if a newer coordinator has taken over."""
        if self._store.fence.reason is not None:
            return []
        return self._queue.poll(tx, task_type, domain, worker_id, count, reported)

    def judge_and_poll(
        self, tx: Tx, report: Report, check: TaskCheck | None = None
    ) -> tuple[Outcome, JsonObject | None]:
        """Judge a report, and lease the next task from the queue of the reported task.

        Return the outcome and the task; None if there is no task.
        """
        (outcome,) = self.judge(tx, [report], check=check)
        if outcome.status >= 400 or outcome.ended_queue is None or report.extend_lease:
            return outcome, None
        queue = tx.cached_first(QUEUE_OF, outcome.ended_queue)
        if queue is None:
            return outcome, None
        found = self.poll_now(tx, Poll(queue.task_type, queue.domain, report.worker_id, 1, 0))
        return outcome, found[0] if found else None

    def remove_from_queue(self, tx: Tx, report: Report) -> bool:
        """Remove an unfinished task from its queue. Return False if its worker had lost the lease."""
        return self._queue.remove_from_queue(tx, report)
