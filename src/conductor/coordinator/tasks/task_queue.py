"""The rules of authority: who holds a task, until when, and whether what is said about it counts.

A poll grants a lease, a heartbeat extends it, a report consumes it, time ends it. An ended lease never comes back.
Everything here runs inside a transaction and knows no HTTP. A report is judged before anything is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from conductor.coordinator.definitions.definition_snapshots import Snapshots, SnapshotTask
from conductor.coordinator.definitions.task_defs import TaskDef
from conductor.coordinator.definitions.workflow_plan import OPERATORS_WITH_SCRIPTS, SYSTEM_DOMAIN
from conductor.coordinator.limits import REQUEUED_PER_TRANSACTION
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.server_metrics import GRANTED_TOTAL, NO_QUEUE, NO_VERDICT, REPORTS_TOTAL, TASKS_ENDED_TOTAL
from conductor.coordinator.settings.placeholders import fill_secrets
from conductor.coordinator.settings.secrets import Secrets
from conductor.coordinator.store.row_cache import LiveTask, LiveWorkflow
from conductor.coordinator.store.rows import TaskData, TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.views.task_views import TaskOwner, make_task_json
from conductor.protocol.wire import LEASE_EXPIRES_AT, LEASE_ID, Verdict
from conductor.telemetry.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

LEASE_OVER = "the lease of this task has ended"
LEASE_ENDED = f"{LEASE_OVER}; its result was discarded"
OTHER_REPORT = "this lease was already reported with another report"
#: Workers that held a task before are remembered, the last few of them.
MAX_FORMER_WORKERS = 10

#: The secrets that a task received, by name: with tasks of the coordinator's own workers, which mask them in results.
RECEIVED_SECRETS = "receivedSecrets"
#: These task types publish their input, so secrets are not inserted.
_KEPT_AS_GIVEN = ("EVENT", "START_WORKFLOW")

_encode = msgspec.json.encode
_decode_reports = msgspec.json.Decoder(dict[str, tuple[str, str]]).decode
_decode_workers = msgspec.json.Decoder(list[str]).decode


#: Leases ready tasks: (transaction, task type, domain, worker id, the tasks whose reports ask for one each).
PollForReports = Callable[[Tx, str, str, str | None, list[int]], list[dict[str, Any]]]


class Expired(NamedTuple):
    """A task whose time is over."""

    workflow: int
    task: int
    reason: str
    #: its policy ends the whole workflow instead of trying again
    ends_workflow: bool


class TaskQueue:
    """Poll, heartbeat, report, expire."""

    def __init__(self, snapshots: Snapshots, secrets: Secrets) -> None:
        self._snapshots = snapshots
        self._secrets = secrets

    # -- poll → leases --------------------------------------------------------------------------------------------

    def poll(
        self,
        tx: Tx,
        task_type: str,
        domain: str,
        worker_id: str | None,
        count: int,
        granted_for: Sequence[int | None] = (),
    ) -> list[dict[str, Any]]:
        """Lease up to `count` ready tasks of a queue, the highest priority first, then the longest ready.

        `granted_for` has the tasks whose reports ask for them.
        """
        known = tx.fact("task type", task_type)
        queue = tx.fact("queue", known[0], domain) if known is not None else None
        if known is None or queue is None:
            return []
        type_pk, _, *limits = known
        allowed = min(count, self.allowance(tx, type_pk, *limits)) if any(limits[:2]) else count
        if allowed <= 0:
            return []
        found = tx.rows("ready tasks", queue[0], allowed)
        if not found:
            return []
        tx.notes.count((GRANTED_TOTAL.name, task_type), len(found))
        if limits[1]:
            for _ in found:
                tx.run("add rate start", type_pk, tx.now_ms)
        tx.live.load(tx, [workflow for _, workflow in found])
        reported = granted_for or [None] * len(found)
        return [
            self._grant(tx, workflow, pk, worker_id, domain, reported[place])
            for place, (pk, workflow) in enumerate(found)
        ]

    def allowance(self, tx: Tx, task_type: int, concurrent: int, rate: int, window_ms: int) -> int:
        """How many tasks of this type may start now: its concurrency and rate limits, exactly."""
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

    def _grant(
        self, tx: Tx, workflow: int, pk: int, worker_id: str | None, domain: str, granted_for: int | None
    ) -> dict[str, Any]:
        live = tx.live.workflow(tx, workflow)
        known = live.task(tx, pk) if live is not None else None
        if live is None or known is None:
            raise LookupError(f"task {pk} of workflow {workflow} is in a queue, and not in the database")
        row, now_ms = known.row, tx.now_ms
        lease_until_ms, lease_no = now_ms + row.response_timeout_ms, tx.ids.next_lease_no(row.lease_no)
        changes = {
            "status": "IN_PROGRESS",
            "ready_since_ms": None,
            "poll_count": row.poll_count + 1,
            "lease_no": lease_no,
            "worker_id": worker_id,
            "lease_until_ms": lease_until_ms,
            "started_ms": row.started_ms or now_ms,
            "updated_ms": now_ms,
            "wake_at_ms": lease_until_ms,
        }
        if row.due_at_ms is not None or row.callback_after_s or row.lease_no:
            former_workers = _with_former(row, worker_id)
            changes |= {"due_at_ms": None, "callback_after_s": 0, "former_workers": former_workers}
        if granted_for != row.granted_for:
            changes["granted_for"] = granted_for
        live.move(tx, known, changes)
        held = with_wake(tx, known.row)
        if held is not known.row:  # something else is due before
            live.change(tx, known, held)
        return self._deliver(tx, live, known, domain)

    def _deliver(self, tx: Tx, live: LiveWorkflow, task: LiveTask, domain: str) -> dict[str, Any]:
        """Return a leased task as its worker gets it."""
        row, data, of = task.row, task.data, live.row
        snapshot = self._snapshots.get(tx, of.snapshot)
        answer = make_task_json(tx.ids, row, data, TaskOwner(of.name, snapshot, of.correlation_id, of.priority), domain)
        if row.operator not in _KEPT_AS_GIVEN:
            self._add_secrets(answer, data, snapshot.task(row.ref), domain)
        task.lease_id = answer[LEASE_ID] = tx.ids.lease(row.pk, row.lease_no)
        answer[LEASE_EXPIRES_AT] = row.lease_until_ms
        if of.traceparent is not None:
            answer[TRACEPARENT] = of.traceparent
        return answer

    def _add_secrets(self, task: dict[str, Any], data: TaskData, defined: SnapshotTask, domain: str) -> None:
        """Insert the secrets that the definition names. Their values are in this answer and are not stored."""
        if defined.secret_places is not None:
            received: dict[str, str] = {}

            def secret(name: str) -> str | None:
                value = self._secrets.value(name)
                if value is not None:
                    received[name] = value
                return value

            given = fill_secrets(msgspec.json.decode(data.input), defined.secret_places, secret)
            task["inputData"] = msgspec.Raw(msgspec.json.encode(given))
            if domain.startswith(SYSTEM_DOMAIN):  # no client can poll these queues
                task[RECEIVED_SECRETS] = received
        if names := defined.task_def.runtime_metadata:
            known = {name: self._secrets.value(name) for name in names}
            task["runtimeMetadata"] = {name: value for name, value in known.items() if value is not None}

    # -- heartbeat ------------------------------------------------------------------------------------------------

    def extend(self, tx: Tx, report: Report) -> Outcome:
        """A heartbeat. It moves the end of an open lease; it never opens an ended one."""
        live, task = _find(tx, report)
        row = task.row
        task_id = report.task_id or ""
        if report.lease_id is None:
            if row.lease_until_ms is not None and tx.now_ms < row.lease_until_ms:
                self._extend(tx, row)
                self._keep_news(tx, live, task, report)
            elif not row.terminal:
                tx.live.change_row(tx, replace(row, updated_ms=tx.now_ms))
            return Outcome(task_id, None)
        lease_no = tx.ids.lease_no(row.pk, report.lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _unknown_lease(task_id, report.lease_id)
        if not _holds(tx, row, lease_no):
            last = lease_no == row.lease_no  # nobody has held the task since
            return _ended_by(task_id, _reports_of(task.data).get(str(lease_no)) if last else None)
        lease_until_ms = self._extend(tx, row)
        self._keep_news(tx, live, task, report)
        return Outcome(task_id, Verdict.COMMITTED, lease_expires_ms=lease_until_ms)

    def _extend(self, tx: Tx, row: TaskRow) -> int:
        lease_until_ms = max(row.lease_until_ms or 0, tx.now_ms + row.response_timeout_ms)
        _save(tx, replace(row, lease_until_ms=lease_until_ms, updated_ms=tx.now_ms))
        return lease_until_ms

    def _keep_news(self, tx: Tx, live: LiveWorkflow, task: LiveTask, report: Report) -> None:
        """What a task that still runs has said so far: its log lines, and its output."""
        _keep_logs(tx, report)
        if report.output_data is not None:
            live.change(tx, task, task.row, replace(task.data, output=_encode(report.output_data)))

    # -- report → verdict -----------------------------------------------------------------------------------------

    def report(self, tx: Tx, report: Report) -> Outcome:
        """Judge a report and, if its author is entitled to it, make it true."""
        live, task = _find(tx, report)
        found = self._report(tx, live, task, report)
        tx.notes.count((REPORTS_TOTAL.name, str(task.row.queue or NO_QUEUE), found.verdict or NO_VERDICT))
        return found

    def _report(self, tx: Tx, live: LiveWorkflow, task: LiveTask, report: Report) -> Outcome:
        if report.lease_id is not None:
            return self._report_of_lease(tx, live, task, report)
        row, task_id = task.row, report.task_id or ""
        if report.status is None:
            return Outcome(task_id, None, 400, "a task update needs a status")
        if row.terminal and row.worker_id == report.worker_id and row.status == report.status:
            return Outcome(task_id, None, ended_queue=row.queue)  # its answer was lost, and it says it again
        if row.terminal or _has_lost(tx, row, report.worker_id):
            message = f"task {task_id} is {row.status}" if row.terminal else LEASE_ENDED
            return Outcome(task_id, Verdict.CANCELLED, 409, message)
        return self._apply(tx, live, task, report, None, task.data.reports)

    def _report_of_lease(self, tx: Tx, live: LiveWorkflow, task: LiveTask, report: Report) -> Outcome:
        task_id, lease_id, row = report.task_id or "", report.lease_id or "", task.row
        # What was handed out a moment ago is known; anything else is looked at closely.
        lease_no = row.lease_no if lease_id == task.lease_id else tx.ids.lease_no(row.pk, lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _unknown_lease(task_id, lease_id)
        if report.status is None:
            return Outcome(task_id, Verdict.REJECTED, 400, "a report needs a status")
        reports, number = _reports_of(task.data), str(lease_no)
        before = reports.get(number)
        if before is not None:
            return _repeated(task_id, report, before)
        verdict = Verdict.COMMITTED if _holds(tx, row, lease_no) else Verdict.CANCELLED
        reports[number] = report.report_id or report.key(), verdict
        encoded = _encode(reports)
        if verdict is Verdict.CANCELLED:
            live.change(tx, task, row, replace(task.data, reports=encoded))
            return Outcome(task_id, verdict, 409, LEASE_ENDED)
        return self._apply(tx, live, task, report, verdict, encoded)

    def _apply(
        self,
        tx: Tx,
        live: LiveWorkflow,
        task: LiveTask,
        report: Report,
        verdict: Verdict | None,
        reports: bytes | None,
    ) -> Outcome:
        """The author is entitled: store what it says and end the lease."""
        row, task_id = task.row, report.task_id or ""
        said: dict[str, Any] = {
            "output": _encode(report.output_data) if report.output_data else b"{}",
            "reason": report.reason_for_incompletion and report.reason,
            "reports": reports,
        }
        if report.logs:
            _keep_logs(tx, report)
        if row.lease_until_ms is not None:
            self._free_slot(tx, row)
        timed_out = self._timed_out(tx, live, row, report, task.data.definition) if report.timed_out else None
        if report.status == "IN_PROGRESS":
            live.change(tx, task, self._returned(tx, row, report), replace(task.data, **said))
            return Outcome(task_id, verdict)
        status = report.status or "" if timed_out is None else "TIMED_OUT"
        if timed_out is not None:
            said["reason"] = timed_out.reason
        ended = _ended(tx, row, status)
        if row.worker_id != report.worker_id:
            ended |= {"worker_id": report.worker_id, "former_workers": _with_former(row, report.worker_id)}
        live.move(tx, task, ended, said)
        tx.notes.count((TASKS_ENDED_TOTAL.name, task.name, status))
        return Outcome(task_id, verdict, workflow=row.workflow, ended_queue=row.queue, expired=timed_out)

    def park(self, tx: Tx, report: Report) -> bool:
        """Take a task out of its queue unfinished: its workflow goes on with it, or somebody else ends it.

        Whether its worker still held it; if not, nothing happens.
        """
        live, task = _find(tx, report)
        row = task.row
        lease_no = tx.ids.lease_no(row.pk, report.lease_id or "")
        if lease_no is None or not _holds(tx, row, lease_no):
            return False
        self._free_slot(tx, row)
        output = None if report.output_data is None else _encode(report.output_data)
        data = task.data if output is None else replace(task.data, output=output)
        parked = replace(row, queue=None, lease_until_ms=None, wake_at_ms=None, updated_ms=tx.now_ms)
        live.change(tx, task, parked, data)
        return True

    def _timed_out(
        self, tx: Tx, live: LiveWorkflow, row: TaskRow, report: Report, definition: bytes | None
    ) -> Expired | None:
        """A worker that stopped a task at its timeout has only noticed first: the task's policy decides, as ever."""
        if not row.timeout_ms or report.status != "FAILED":
            return None
        task_def = self._snapshots.get(tx, live.row.snapshot).task_def(row.ref, definition)
        if task_def.timeout_policy == "ALERT_ONLY":
            return None
        reason = _timeout_reason(tx, row, task_def.name)
        return Expired(row.workflow, row.pk, reason, task_def.timeout_policy == "TIME_OUT_WF")

    def _returned(self, tx: Tx, row: TaskRow, report: Report) -> TaskRow:
        """Return the row of a task that its worker returns unfinished."""
        if row.queue is None:
            return replace(row, updated_ms=tx.now_ms, worker_id=report.worker_id)
        if report.never_started:
            row = _undelivered(row)
        return self._queued(tx, row, report.worker_id, max(0, report.callback_after_seconds or 0))

    def _queued(self, tx: Tx, row: TaskRow, worker_id: str | None, delay_s: int) -> TaskRow:
        """The row of a task that is back in its queue under the same id; whoever held it holds it no more."""
        queued = replace(
            row,
            status="SCHEDULED",
            worker_id=worker_id,
            callback_after_s=delay_s,
            updated_ms=tx.now_ms,
            lease_until_ms=None,
            ready_since_ms=None if delay_s else tx.now_ms,
            due_at_ms=tx.now_ms + delay_s * 1000 if delay_s else None,
        )
        if not delay_s:
            self.announce(tx, row.queue)
        return with_wake(tx, queued)

    def requeue(self, tx: Tx, row: TaskRow) -> None:
        """Put a task back into its queue, whoever holds it."""
        former = _with_former(row, None) if row.lease_until_ms is not None else row.former_workers
        _save(tx, self._queued(tx, replace(row, former_workers=former), row.worker_id, 0))

    def run_again(self, tx: Tx, row: TaskRow) -> TaskRow:
        """The row of an ended task that is to be done once more, under the same id: nobody's lease counts any more."""
        fresh = replace(row, former_workers=_with_former(row, None), poll_count=0, alerted=0)
        return self._queued(tx, fresh, None, 0)

    def take_back(self, tx: Tx, task_ids: list[str]) -> None:
        """Undo a grant that never reached its worker."""
        for task_id in task_ids:
            found = tx.row("task", tx.ids.task_pk(task_id) or 0)
            row = None if found is None else TaskRow(*found)
            if row is not None and row.lease_until_ms is not None:
                self._free_slot(tx, row)
                _save(tx, self._queued(tx, _undelivered(row), row.worker_id, 0))

    # -- report and poll in one request ---------------------------------------------------------------------------

    def grant_next(
        self, tx: Tx, reports: Sequence[Report], outcomes: list[Outcome], wanted: int, poll: PollForReports
    ) -> list[Outcome]:
        """Grant the authors of the first `wanted` reports one task each, of the queue that their task came from.

        A repeated report gets the same task again while its lease is open: the first answer was lost. If it does not
        want a task any more, that task goes back into its queue.
        """
        authors: dict[tuple[int, str | None], list[int]] = {}
        granted: dict[int, dict[str, Any] | None] = {}
        for place, (report, outcome) in enumerate(zip(reports, outcomes, strict=True)):
            if outcome.is_repeated:
                granted[place] = self._granted_before(tx, report, wanted=place < wanted)
            elif place < wanted and outcome.ended_queue is not None and report.lease_id is not None:
                authors.setdefault((outcome.ended_queue, report.worker_id), []).append(place)
        for (queue, worker_id), places in authors.items():
            task_type, domain = tx.fact("queue of", queue) or ("", "")
            reported = [tx.ids.task_pk(reports[place].task_id) or 0 for place in places]
            granted |= zip(places, poll(tx, task_type, domain, worker_id, reported), strict=False)
        return [
            replace(outcome, next_task=granted[place]) if place in granted else outcome
            for place, outcome in enumerate(outcomes)
        ]

    def _granted_before(self, tx: Tx, report: Report, *, wanted: bool) -> dict[str, Any] | None:
        """Return the task that was granted with the lost answer to a report, or put it back into its queue."""
        _, reported = _find(tx, report)
        found = tx.row("granted for report", reported.row.type, reported.row.pk)
        live = tx.live.workflow(tx, found[1]) if found is not None else None
        task = live.task(tx, found[0]) if live is not None and found is not None else None
        if live is None or task is None or not _holds(tx, task.row, task.row.lease_no):
            return None
        if not wanted:
            self.take_back(tx, [tx.ids.task(task.row.pk)])
            return None
        if task.row.poll_count == 1:  # no function was called: its time begins now
            live.change(tx, task, replace(task.row, started_ms=tx.now_ms))
        self._extend(tx, task.row)
        _, domain = tx.fact("queue of", task.row.queue) or ("", "")
        return self._deliver(tx, live, task, domain)

    def requeue_some(self, tx: Tx, task_type: str, after: int = 0) -> list[int]:
        """Open tasks of a type become pollable now: the next ones after a key. Their keys; none: that was all."""
        known = tx.fact("task type", task_type)
        found = tx.rows("open tasks of type", known[0], after, REQUEUED_PER_TRANSACTION) if known else []
        for one in found:
            self.requeue(tx, TaskRow(*one))
        return [one[0] for one in found]

    def reset_callbacks(self, tx: Tx, workflow: int) -> None:
        """Tasks of a workflow that wait for their callback become pollable now."""
        for found in tx.rows("open tasks of workflow", workflow):
            row = TaskRow(*found)
            if row.queue is not None and row.due_at_ms is not None:
                self.requeue(tx, row)

    # -- ends -----------------------------------------------------------------------------------------------------

    def end(self, tx: Tx, live: LiveWorkflow, task: LiveTask, status: str, reason: str | None) -> None:
        """End a task from this side."""
        row = task.row
        if row.lease_until_ms is not None:
            self._free_slot(tx, row)
        live.move(tx, task, _ended(tx, row, status), None if reason is None else {"reason": reason})
        tx.notes.count((TASKS_ENDED_TOTAL.name, task.name, status))

    def announce(self, tx: Tx, queue: int | None) -> None:
        """A task of this queue can be polled once this transaction is committed."""
        found = None if queue is None else tx.fact("queue of", queue)
        if found is not None:
            tx.notes.add_ready(found[0], found[1])

    def _free_slot(self, tx: Tx, row: TaskRow) -> None:
        """Where a limit held others back, one of them may go on."""
        limited = tx.fact("limited type", row.type)
        if limited is not None:
            for _, domain in tx.rows("queues of type", row.type):
                tx.notes.add_ready(limited[0], domain)

    # -- time -----------------------------------------------------------------------------------------------------

    def expire(self, tx: Tx, live: LiveWorkflow, task: LiveTask) -> Expired | None:
        """Look at a task whose moment has come: promote it, or end it by the rule that applies."""
        row = task.row
        task_def = self._snapshots.get(tx, live.row.snapshot).task_def(row.ref, task.data.definition)
        rule = _broken_rule(row, task_def, tx)
        if rule is None:
            self._promote(tx, row)
        elif rule.always_retried or task_def.timeout_policy != "ALERT_ONLY":
            ends = not rule.always_retried and task_def.timeout_policy == "TIME_OUT_WF"
            self.end(tx, live, task, "TIMED_OUT", rule.reason)
            return Expired(row.workflow, row.pk, rule.reason, ends)
        else:
            logger.warning("task %s (%s): %s; its policy is ALERT_ONLY", tx.ids.task(row.pk), row.ref, rule.reason)
            _save(tx, replace(row, alerted=1))
        return None

    def _promote(self, tx: Tx, row: TaskRow) -> None:
        if row.queue is None or row.due_at_ms is None or row.due_at_ms > tx.now_ms:
            return
        _save(tx, replace(row, ready_since_ms=row.due_at_ms, due_at_ms=None))
        self.announce(tx, row.queue)

    def release_rate_limited(self, tx: Tx) -> None:
        """Where a rate window has opened, wake as many polls as may start."""
        for name, domain, queue, *limits in tx.rows("rate limited queues"):
            if tx.value("is ready", queue) is None:
                continue
            allowed = self.allowance(tx, *limits)
            if allowed > 0:
                tx.notes.add_ready(name, domain, allowed)


def with_wake(tx: Tx, row: TaskRow) -> TaskRow:
    """The row with the nearest moment at which a rule must look at it, and a timer that knows that moment."""
    wake_at_ms = _next_wake(row)
    if wake_at_ms is not None:
        tx.notes.add_wake(wake_at_ms)
    return row if wake_at_ms == row.wake_at_ms else replace(row, wake_at_ms=wake_at_ms)


def _save(tx: Tx, row: TaskRow) -> None:
    tx.live.change_row(tx, with_wake(tx, row))


def _ended(tx: Tx, row: TaskRow, status: str) -> dict[str, Any]:
    """What changes when a task ends."""
    changes = {"status": status, "ended_ms": tx.now_ms, "lease_until_ms": None, "wake_at_ms": None}
    if row.ready_since_ms is not None or row.due_at_ms is not None:
        changes |= {"ready_since_ms": None, "due_at_ms": None}
    # A task of the flow that waited for a script waits for nothing any more, also if it runs once more.
    if row.operator in OPERATORS_WITH_SCRIPTS:
        changes["queue"] = None
    return changes


def _keep_logs(tx: Tx, report: Report) -> None:
    for entry in report.logs or ():
        tx.run("add log", report.task_id, entry.created_time or tx.now_ms, entry.log or entry.message or "")


class _Rule(NamedTuple):
    reason: str
    always_retried: bool = False


def _next_wake(row: TaskRow) -> int | None:
    """The nearest moment at which a rule must look at this task, or None."""
    if not (row.timeout_ms or row.poll_timeout_ms or row.total_timeout_ms) and row.due_at_ms is None:
        return row.lease_until_ms  # as most are
    moments = [at for at in (row.due_at_ms, row.lease_until_ms, *_timeouts(row)) if at is not None]
    return min(moments) if moments else None


def _timeouts(row: TaskRow) -> tuple[int | None, int | None, int | None]:
    """When the (total, task, poll) timeouts strike. One whose alert was given strikes no more."""
    if row.alerted or row.queue is None:
        return None, None, None
    return (
        row.first_scheduled_ms + row.total_timeout_ms if row.total_timeout_ms else None,
        row.started_ms + row.timeout_ms if row.timeout_ms and row.started_ms else None,
        row.ready_since_ms + row.poll_timeout_ms if row.poll_timeout_ms and row.ready_since_ms is not None else None,
    )


def _broken_rule(row: TaskRow, task_def: TaskDef, tx: Tx) -> _Rule | None:
    """The first rule, in Conductor's order, whose time is over."""
    now_ms = tx.now_ms
    total_at, task_at, poll_at = _timeouts(row)
    tail = f"exceeded for the taskId: {tx.ids.task(row.pk)} with Task Definition: {task_def.name}"
    if total_at is not None and now_ms >= total_at:
        return _Rule(f"totalTimeout: {row.total_timeout_ms // 1000} {tail}")
    if task_at is not None and now_ms >= task_at:
        return _Rule(_timeout_reason(tx, row, task_def.name))
    if poll_at is not None and now_ms >= poll_at:
        return _Rule(f"pollTimeout: {row.poll_timeout_ms // 1000} {tail}")
    if row.lease_until_ms is not None and now_ms >= row.lease_until_ms:
        return _Rule(f"responseTimeout: {row.response_timeout_ms // 1000} {tail}", always_retried=True)
    return None


def _timeout_reason(tx: Tx, row: TaskRow, name: str) -> str:
    seconds, task_id = row.timeout_ms // 1000, tx.ids.task(row.pk)
    tail = f"exceeded for the taskId: {task_id} with Task Definition: {name}"
    return f"Task timed out after {seconds} seconds: timeout {tail}"


def _find(tx: Tx, report: Report) -> tuple[LiveWorkflow, LiveTask]:
    """The task that a report is about; 404 if there is none."""
    if not (report.task_id and report.workflow_instance_id):
        report.check()
    workflow = tx.ids.workflow_pk(report.workflow_instance_id)
    task_pk = tx.ids.task_pk(report.task_id)
    live = tx.live.workflow(tx, workflow) if workflow is not None else None
    if live is None and not report.extend_lease:
        error = not_found(f"No such workflow found by id: {report.workflow_instance_id}")
        error.verdict = Verdict.REJECTED if report.lease_id else None
        raise error
    task = live.task(tx, task_pk) if live is not None and task_pk is not None else None
    if live is None or task is None:
        # The workflow may have been named wrongly: the task alone says which one it is.
        found = tx.row("task", task_pk or 0)
        live = tx.live.workflow(tx, found[1]) if found is not None else None
        task = live.task(tx, task_pk or 0) if live is not None else None
    if live is None or task is None:
        error = not_found(f"No such task found by id: {report.task_id}")
        error.verdict = Verdict.REJECTED if report.lease_id else None
        raise error
    return live, task


def _holds(tx: Tx, row: TaskRow, lease_no: int) -> bool:
    return lease_no == row.lease_no and row.lease_until_ms is not None and tx.now_ms < row.lease_until_ms


def _has_lost(tx: Tx, row: TaskRow, worker_id: str | None) -> bool:
    """Whether a worker without a lease id held this open task once and holds it no more."""
    if worker_id is None:
        return False
    if row.worker_id == worker_id and row.lease_until_ms is not None:
        return tx.now_ms >= row.lease_until_ms
    return row.former_workers is not None and worker_id in _decode_workers(row.former_workers)


def _with_former(row: TaskRow, successor: str | None) -> str | None:
    """Who has held a task before, when somebody else takes over from its present holder."""
    if row.worker_id is None or not row.lease_no or row.worker_id == successor:
        return row.former_workers
    known = _decode_workers(row.former_workers) if row.former_workers else []
    known = [name for name in known if name != row.worker_id][1 - MAX_FORMER_WORKERS :]
    return _encode([*known, row.worker_id]).decode()


def _undelivered(row: TaskRow) -> TaskRow:
    """Return the row as if its last delivery had not happened: no function was called for it."""
    poll_count = max(0, row.poll_count - 1)
    return replace(row, poll_count=poll_count, started_ms=row.started_ms if poll_count else 0)


def _reports_of(data: TaskData) -> dict[str, tuple[str, str]]:
    return _decode_reports(data.reports) if data.reports else {}


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
        return Outcome(task_id, Verdict.COMMITTED, is_repeated=True)
    return Outcome(task_id, Verdict.CANCELLED, 409, LEASE_ENDED)
