"""The rules of authority: who holds a task, until when, and whether what is said about it counts.

A poll grants a lease, a heartbeat extends it, a report consumes it, time ends it. An ended lease never comes back.
Everything here runs inside a transaction and knows no HTTP.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions import Snapshots
from conductor.coordinator.errors import not_found
from conductor.coordinator.report import Outcome, Report
from conductor.coordinator.store import Tx
from conductor.coordinator.task_row import WIDTH, TaskData, TaskOwner, TaskRow, task_json
from conductor.wire import LEASE_EXPIRES_AT, LEASE_ID, Verdict

logger = logging.getLogger(__name__)

LEASE_OVER = "the lease of this task has ended"
LEASE_ENDED = f"{LEASE_OVER}; its result was discarded"
OTHER_REPORT = "this lease was already reported with another report"


class Expired(NamedTuple):
    """A task whose time is over."""

    task: TaskRow
    reason: str
    #: its policy ends the whole workflow instead of trying again
    ends_workflow: bool


class TaskQueue:
    """Poll, heartbeat, report, expire."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    # -- poll → leases --------------------------------------------------------------------------------------------

    def poll(self, tx: Tx, task_type: str, domain: str, worker_id: str | None, count: int) -> list[dict[str, Any]]:
        """Lease up to `count` ready tasks of a queue, the highest priority first, then the longest ready."""
        limits = tx.row("task type limits", task_type)
        if limits is None or (queue := tx.value("queue", limits[0], domain)) is None:
            return []
        allowed = min(count, self.allowance(tx, limits))
        if allowed <= 0:
            return []
        return [
            self._grant(tx, found, worker_id, domain, limits[2]) for found in tx.rows("ready tasks", queue, allowed)
        ]

    def allowance(self, tx: Tx, limits: tuple[int, int, int, int]) -> int:
        """How many tasks of this type may start now: its concurrency and rate limits, exactly."""
        task_type, concurrent, rate, window_ms = limits
        allowed = 2**31
        if concurrent:
            allowed = concurrent - int(tx.value("in progress of type", task_type) or 0)
        if rate:
            tx.run("forget rate starts", task_type, tx.now_ms - window_ms)
            free = rate - int(tx.value("rate starts", task_type) or 0)
            if free <= 0:
                # The window opens when its oldest start that still counts leaves it: not earlier, not later.
                oldest = tx.value("rate start at", task_type, -free)
                tx.notes.add_wake(int(oldest or tx.now_ms) + window_ms)
            allowed = min(allowed, free)
        return allowed

    def _grant(self, tx: Tx, found: Any, worker_id: str | None, domain: str, rate: int) -> dict[str, Any]:
        row = TaskRow._make(found[:WIDTH])
        data = TaskData._make(found[WIDTH : WIDTH + 3])
        name, snapshot, correlation_id, priority = found[WIDTH + 3 :]
        held = row._replace(
            status="IN_PROGRESS",
            ready_ms=None,
            due_ms=None,
            callback_after_s=0,
            poll_count=row.poll_count + 1,
            lease_no=row.lease_no + 1,
            worker_id=worker_id,
            lease_ms=tx.now_ms + row.response_ms,
            started_ms=row.started_ms or tx.now_ms,
            updated_ms=tx.now_ms,
        )
        wake_ms = next_wake(held)
        tx.run("lease task", worker_id, held.lease_ms, wake_ms, held.started_ms, tx.now_ms, row.pk)
        tx.notes.add_wake(wake_ms)
        if rate:
            tx.run("add rate start", row.type, tx.now_ms)
        owner = TaskOwner(name, self._snapshots.get(tx, snapshot), correlation_id, priority)
        task = task_json(tx.ids, held, data, owner, domain)
        task[LEASE_ID] = tx.ids.lease(row.pk, held.lease_no)
        task[LEASE_EXPIRES_AT] = held.lease_ms
        return task

    # -- heartbeat ------------------------------------------------------------------------------------------------

    def extend(self, tx: Tx, report: Report) -> Outcome:
        """A heartbeat. It moves the end of an open lease; it never opens an ended one."""
        row = _find(tx, report)
        task_id = tx.ids.task(row.pk)
        if report.lease_id is None:
            if row.lease_ms is not None and tx.now_ms < row.lease_ms:
                self._extend(tx, row)
            elif not row.terminal:
                tx.run("touch task", tx.now_ms, row.pk)
            return Outcome(task_id, None)
        lease_no = tx.ids.lease_no(row.pk, report.lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _unknown_lease(task_id, report.lease_id)
        if not _holds(tx, row, lease_no):
            last = lease_no == row.lease_no  # nobody has held the task since
            return _ended_by(task_id, tx.row("report", row.pk, lease_no) if last else None)
        return Outcome(task_id, Verdict.COMMITTED, lease_expires_ms=self._extend(tx, row))

    def _extend(self, tx: Tx, row: TaskRow) -> int:
        lease_ms = max(row.lease_ms or 0, tx.now_ms + row.response_ms)
        wake_ms = next_wake(row._replace(lease_ms=lease_ms))
        tx.run("extend lease", lease_ms, wake_ms, tx.now_ms, row.pk)
        tx.notes.add_wake(wake_ms)
        return lease_ms

    # -- report → verdict -----------------------------------------------------------------------------------------

    def report(self, tx: Tx, report: Report) -> Outcome:
        """Judge a report and, if its author holds the task, make it true."""
        row = _find(tx, report)
        if report.lease_id is not None:
            return self._report_of_lease(tx, row, report)
        if row.terminal or _late_or_foreign(tx, row, report):
            return Outcome(tx.ids.task(row.pk), None, ended_queue=row.queue)
        if report.status is None:
            return Outcome(tx.ids.task(row.pk), None, 400, "a task update needs a status")
        return self._apply(tx, row, report, None)

    def _report_of_lease(self, tx: Tx, row: TaskRow, report: Report) -> Outcome:
        task_id, lease_id = tx.ids.task(row.pk), report.lease_id or ""
        lease_no = tx.ids.lease_no(row.pk, lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _unknown_lease(task_id, lease_id)
        if report.status is None:
            return Outcome(task_id, Verdict.REJECTED, 400, "a report needs a status")
        before = tx.row("report", row.pk, lease_no)
        if before is not None:
            return _repeated(task_id, report, before)
        verdict = Verdict.COMMITTED if _holds(tx, row, lease_no) else Verdict.CANCELLED
        tx.run("add report", row.pk, lease_no, report.key(), verdict)
        if verdict is Verdict.CANCELLED:
            return Outcome(task_id, verdict, 409, LEASE_ENDED)
        return self._apply(tx, row, report, verdict)

    def _apply(self, tx: Tx, row: TaskRow, report: Report, verdict: Verdict | None) -> Outcome:
        """The author is entitled: store what it says and end its lease."""
        task_id = tx.ids.task(row.pk)
        output = msgspec.json.encode(report.output_data or {})
        tx.run("set task result", output, report.reason, row.pk)
        self._keep_logs(tx, task_id, report)
        if row.lease_ms is not None:
            self._free_slot(tx, row)
        if report.status == "IN_PROGRESS":
            self._hand_back(tx, row, report)
            return Outcome(task_id, verdict)
        tx.run("end task", report.status, tx.now_ms, report.worker_id, row.pk)
        return Outcome(task_id, verdict, workflow=row.workflow, ended_queue=row.queue)

    def _hand_back(self, tx: Tx, row: TaskRow, report: Report) -> None:
        if row.queue is None:
            tx.run("hold task", tx.now_ms, report.worker_id, row.pk)
            return
        self.enqueue(tx, row, report.worker_id, max(0, report.callback_after_seconds or 0))

    def enqueue(self, tx: Tx, row: TaskRow, worker_id: str | None, delay_s: int) -> None:
        """Put a task back into its queue under the same id; whoever held it holds it no more."""
        due_ms = tx.now_ms + delay_s * 1000 if delay_s else None
        ready_ms = None if delay_s else tx.now_ms
        queued = row._replace(status="SCHEDULED", lease_ms=None, ready_ms=ready_ms, due_ms=due_ms)
        wake_ms = next_wake(queued)
        tx.run("requeue task", worker_id, delay_s, tx.now_ms, ready_ms, due_ms, wake_ms, row.pk)
        tx.notes.add_wake(wake_ms)
        if ready_ms is not None:
            self.announce(tx, row.queue)

    def _keep_logs(self, tx: Tx, task_id: str, report: Report) -> None:
        for entry in report.logs or ():
            tx.run("add log", task_id, entry.created_time or tx.now_ms, entry.log or entry.message or "")

    def take_back(self, tx: Tx, task_ids: list[str]) -> None:
        """Undo a grant that never reached its worker."""
        for task_id in task_ids:
            found = tx.row("task", tx.ids.task_pk(task_id) or 0)
            if found is not None and TaskRow._make(found).lease_ms is not None:
                row = TaskRow._make(found)
                self._free_slot(tx, row)
                self.enqueue(tx, row, row.worker_id, 0)

    def requeue_all(self, tx: Tx, task_type: str) -> int:
        """Every open task of a type becomes pollable now; how many."""
        limits = tx.row("task type limits", task_type)
        rows = [TaskRow._make(found) for found in tx.rows("open tasks of type", limits[0])] if limits else []
        for row in rows:
            self.enqueue(tx, row, row.worker_id, 0)
        return len(rows)

    def reset_callbacks(self, tx: Tx, workflow: int) -> None:
        """Tasks of a workflow that wait for their callback become pollable now."""
        for found in tx.rows("open tasks of workflow", workflow):
            row = TaskRow._make(found)
            if row.queue is not None and row.due_ms is not None:
                self.enqueue(tx, row, row.worker_id, 0)

    # -- ends -----------------------------------------------------------------------------------------------------

    def end(self, tx: Tx, row: TaskRow, status: str, reason: str | None) -> None:
        """End a task from this side."""
        tx.run("end task", status, tx.now_ms, row.worker_id, row.pk)
        if reason is not None:
            tx.run("set task reason", reason, row.pk)
        if row.lease_ms is not None:
            self._free_slot(tx, row)

    def announce(self, tx: Tx, queue: int | None) -> None:
        """A task of this queue can be polled once this transaction is committed."""
        found = tx.row("queue of", queue)
        if found is not None:
            tx.notes.add_ready(found[0], found[1])

    def _free_slot(self, tx: Tx, row: TaskRow) -> None:
        """Where a limit held others back, one of them may go on."""
        name = tx.value("limited type", row.type)
        if name is not None:
            for _, domain in tx.rows("queues of type", row.type):
                tx.notes.add_ready(name, domain)

    # -- time -----------------------------------------------------------------------------------------------------

    def due(self, tx: Tx, limit: int) -> list[TaskRow]:
        """The tasks whose moment has come."""
        return [TaskRow._make(found) for found in tx.rows("due tasks", tx.now_ms, limit)]

    def expire(self, tx: Tx, row: TaskRow) -> Expired | None:
        """Look at a task whose moment has come: promote it, or end it by the rule that applies."""
        task_def = self._task_def(tx, row)
        rule = _broken_rule(row, task_def.name, tx)
        if rule is None:
            self._promote(tx, row)
        elif rule.always_retried or task_def.timeout_policy != "ALERT_ONLY":
            ends = not rule.always_retried and task_def.timeout_policy == "TIME_OUT_WF"
            self.end(tx, row, "TIMED_OUT", rule.reason)
            return Expired(row, rule.reason, ends)
        else:
            logger.warning("task %s (%s): %s; its policy is ALERT_ONLY", tx.ids.task(row.pk), row.ref, rule.reason)
            tx.run("set wake", next_wake(row._replace(alerted=1)), 1, row.pk)
        return None

    def _task_def(self, tx: Tx, row: TaskRow) -> Any:
        snapshot = tx.value("snapshot of workflow", row.workflow)
        return self._snapshots.get(tx, int(snapshot or 0)).task_def(row.ref)

    def _promote(self, tx: Tx, row: TaskRow) -> None:
        if row.queue is None or row.due_ms is None or row.due_ms > tx.now_ms:
            return
        ready = row._replace(ready_ms=row.due_ms, due_ms=None)
        tx.run("promote task", ready.ready_ms, next_wake(ready), row.pk)
        tx.notes.add_wake(next_wake(ready))
        self.announce(tx, row.queue)

    def release_rate_limited(self, tx: Tx) -> None:
        """Where a rate window has opened, wake as many polls as may start."""
        for name, domain, queue, *limits in tx.rows("rate limited queues"):
            if tx.value("is ready", queue) is None:
                continue
            allowed = self.allowance(tx, (limits[0], limits[1], limits[2], limits[3]))
            if allowed > 0:
                tx.notes.add_ready(name, domain, allowed)


class _Rule(NamedTuple):
    reason: str
    always_retried: bool = False


def next_wake(row: TaskRow) -> int | None:
    """The nearest moment at which a rule must look at this task, or None."""
    moments = [at for at in (row.due_ms, row.lease_ms, *_timeouts(row)) if at is not None]
    return min(moments) if moments else None


def _timeouts(row: TaskRow) -> tuple[int | None, int | None, int | None]:
    """When the (total, task, poll) timeouts strike. One whose alert was given strikes no more."""
    if row.alerted or row.queue is None:
        return None, None, None
    return (
        row.first_scheduled_ms + row.total_ms if row.total_ms else None,
        row.started_ms + row.timeout_ms if row.timeout_ms and row.started_ms else None,
        row.ready_ms + row.poll_ms if row.poll_ms and row.ready_ms is not None else None,
    )


def _broken_rule(row: TaskRow, name: str, tx: Tx) -> _Rule | None:
    """The first rule, in Conductor's order, whose time is over."""
    now_ms, task_id = tx.now_ms, tx.ids.task(row.pk)
    total_at, task_at, poll_at = _timeouts(row)
    tail = f"exceeded for the taskId: {task_id} with Task Definition: {name}"
    if total_at is not None and now_ms >= total_at:
        return _Rule(f"totalTimeout: {row.total_ms // 1000} {tail}")
    if task_at is not None and now_ms >= task_at:
        return _Rule(f"Task timed out after {row.timeout_ms // 1000} seconds: timeout {tail}")
    if poll_at is not None and now_ms >= poll_at:
        return _Rule(f"pollTimeout: {row.poll_ms // 1000} {tail}")
    if row.lease_ms is not None and now_ms >= row.lease_ms:
        return _Rule(f"responseTimeout: {row.response_ms // 1000} {tail}", always_retried=True)
    return None


def _find(tx: Tx, report: Report) -> TaskRow:
    report.check()
    verdict = Verdict.REJECTED if report.lease_id else None
    workflow_known = tx.value("workflow exists", tx.ids.workflow_pk(report.workflow_instance_id) or 0)
    if workflow_known is None and not report.extend_lease:
        error = not_found(f"No such workflow found by id: {report.workflow_instance_id}")
        error.verdict = verdict
        raise error
    found = tx.row("task", tx.ids.task_pk(report.task_id) or 0)
    if found is None:
        error = not_found(f"No such task found by id: {report.task_id}")
        error.verdict = verdict
        raise error
    return TaskRow._make(found)


def _holds(tx: Tx, row: TaskRow, lease_no: int) -> bool:
    return lease_no == row.lease_no and row.lease_ms is not None and tx.now_ms < row.lease_ms


def _late_or_foreign(tx: Tx, row: TaskRow, report: Report) -> bool:
    """A client without leases is judged by what it can show: the task, and who it says it is."""
    if row.lease_ms is None:
        return False
    if tx.now_ms >= row.lease_ms:
        return True
    return bool(report.worker_id and row.worker_id) and report.worker_id != row.worker_id


def _unknown_lease(task_id: str, lease_id: str) -> Outcome:
    return Outcome(task_id, Verdict.REJECTED, 404, f"task {task_id} never had a lease {lease_id}")


def _ended_by(task_id: str, report: tuple[str, str] | None) -> Outcome:
    """A heartbeat for an ended lease. One that its own report ended was not lost: that report's answer was."""
    if report is not None and report[1] == Verdict.COMMITTED:
        return Outcome(task_id, Verdict.COMMITTED)
    return Outcome(task_id, Verdict.CANCELLED, 409, LEASE_OVER)


def _repeated(task_id: str, report: Report, before: tuple[str, str]) -> Outcome:
    report_id, verdict = before
    if report_id != report.key():
        return Outcome(task_id, Verdict.REJECTED, 409, OTHER_REPORT)
    if verdict == Verdict.COMMITTED:
        return Outcome(task_id, Verdict.COMMITTED)
    return Outcome(task_id, Verdict.CANCELLED, 409, LEASE_ENDED)
