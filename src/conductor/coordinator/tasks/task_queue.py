"""The rules of leases: which worker holds a task, until when, and whether a report counts.

A poll grants a lease, a heartbeat extends it, a report consumes it, time ends it. An ended lease is never
reopened. This module runs inside transactions and does not know HTTP. A report is judged before anything is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots, SnapshotTask
from conductor.coordinator.definitions.task_defs import TaskDef
from conductor.coordinator.definitions.workflow_plan import OPERATORS_WITH_SCRIPTS, SYSTEM_DOMAIN
from conductor.coordinator.limits import (
    MAX_POLL_BYTES,
    MAX_VERDICTS_KEPT,
    POLLED_PER_TRANSACTION,
    REQUEUED_PER_TRANSACTION,
    WORKFLOWS_PER_POLL_READ,
)
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.server_metrics import (
    GRANTED_TOTAL,
    LEASES_EXPIRED_TOTAL,
    NO_QUEUE,
    NO_VERDICT,
    REPORTS_TOTAL,
    TASKS_ENDED_TOTAL,
)
from conductor.coordinator.settings.placeholders import fill_secrets
from conductor.coordinator.settings.secrets import Secrets
from conductor.coordinator.store.row_cache import CachedTask, CachedWorkflow
from conductor.coordinator.store.rows import TaskData, TaskRow
from conductor.coordinator.store.statements import (
    ADD_LOG,
    ADD_RATE_START,
    FORGET_RATE_STARTS,
    GRANTED_FOR_REPORT,
    IN_PROGRESS_OF_TYPE,
    IS_READY,
    LIMITED_TYPE,
    OPEN_TASKS_OF_TYPE,
    OPEN_TASKS_OF_WORKFLOW,
    QUEUE,
    QUEUE_OF,
    QUEUES_OF_TYPE,
    RATE_LIMITED_QUEUES,
    RATE_START_AT,
    RATE_STARTS,
    READY_TASKS,
    TASK,
    TASK_TYPE,
    ReadyTask,
    TaskType,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks import task_steps
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.views.task_views import TaskOwner, make_task_json
from conductor.protocol.statuses import TaskStatus
from conductor.protocol.wire import LEASE_EXPIRES_AT, LEASE_ID, Verdict
from conductor.telemetry.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

LEASE_OVER = "the lease of this task has ended"
LEASE_ENDED = f"{LEASE_OVER}; its result was discarded"
STEPS_NEED_LEASE = "steps are recorded only with the lease id of the task"
OTHER_REPORT = "this lease was already reported with another report"
#: A task stores at most this many of the workers that held it before.
MAX_FORMER_WORKERS = 10
#: A number of tasks that stands for "no limit".
NO_LIMIT = 2**31

#: The field of a task with the secrets in its input, by name. Only the coordinator's own workers get it, and mask these
#: secrets in results.
RECEIVED_SECRETS = "receivedSecrets"
#: Task types that publish their input, so that secrets are not inserted.
_WITHOUT_SECRETS = ("EVENT", "START_WORKFLOW")

_encode = msgspec.json.encode
_decode_reports = msgspec.json.Decoder(dict[str, tuple[str, str]]).decode
_decode_workers = msgspec.json.Decoder(list[str]).decode


#: Leases ready tasks to a worker that has sent reports. Takes the transaction, the task type, the domain, the worker id
#: and the reported tasks. At most one task is leased for each reported task.
PollForReports = Callable[[Tx, str, str, str | None, list[int]], list[dict[str, Any]]]


class ExpiredTask(NamedTuple):
    """A task that has timed out."""

    workflow: int
    task: int
    reason: str
    #: Whether the timeout policy of the task ends the whole workflow.
    ends_workflow: bool


class TaskQueue:
    """Grants, extends and ends leases."""

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

        If tasks are left because of `POLLED_PER_TRANSACTION` or `MAX_POLL_BYTES`, the next parked poll is woken.

        Args:
            tx: The transaction.
            task_type: The type of the tasks.
            domain: The domain of the queue.
            worker_id: The worker that gets the leases.
            count: The number of tasks.
            granted_for: The reported tasks, if reports asked for the leases. At most one task is leased for each.

        Returns:
            The tasks in the form in which a worker receives them.
        """
        known = tx.cached_first(TASK_TYPE, task_type)
        queue = tx.cached_first(QUEUE, known.pk, domain) if known is not None else None
        if known is None or queue is None:
            return []
        if known.concurrent_limit or known.rate_limit:
            count = min(count, self._free_capacity(tx, known))
        found = tx.rows(READY_TASKS, queue, min(count, POLLED_PER_TRANSACTION)) if count > 0 else []
        if not found:
            return []
        granted: list[dict[str, Any]] = []
        size = 0
        for place, task in enumerate(found):
            if size > MAX_POLL_BYTES:
                break
            if place % WORKFLOWS_PER_POLL_READ == 0:
                tx.cache.load(tx, [one.workflow for one in found[place : place + WORKFLOWS_PER_POLL_READ]])
            granted.append(self._grant(tx, task, worker_id, domain, granted_for[place] if granted_for else None))
            size += count_task_bytes(granted[-1])
        tx.notes.count((GRANTED_TOTAL.name, task_type), len(granted))
        if known.rate_limit:
            tx.run_many(ADD_RATE_START, [(known.pk, tx.now_ms)] * len(granted))
        if len(granted) < len(found) or len(found) == POLLED_PER_TRANSACTION:
            tx.notes.add_ready(task_type, domain)
        return granted

    def _free_capacity(self, tx: Tx, known: TaskType) -> int:
        """Return how many tasks of a type may start now under its concurrency and rate limits."""
        free = NO_LIMIT
        if known.concurrent_limit:
            free = known.concurrent_limit - (tx.first(IN_PROGRESS_OF_TYPE, known.pk) or 0)
        if known.rate_limit:
            tx.run(FORGET_RATE_STARTS, known.pk, tx.now_ms - known.rate_window_ms)
            free_starts = known.rate_limit - (tx.first(RATE_STARTS, known.pk) or 0)
            if free_starts <= 0:
                # Wake the timer when enough starts have left the rate window for another task to start.
                oldest = tx.first(RATE_START_AT, known.pk, -free_starts)
                tx.notes.add_wake((oldest or tx.now_ms) + known.rate_window_ms)
            free = min(free, free_starts)
        return free

    def _grant(
        self, tx: Tx, ready: ReadyTask, worker_id: str | None, domain: str, granted_for: int | None
    ) -> dict[str, Any]:
        workflow, task = tx.cache.get_task(tx, ready.workflow, ready.pk)
        row = task.row
        update_task_and_wake(
            tx,
            workflow,
            task,
            status=TaskStatus.IN_PROGRESS,
            ready_since_ms=None,
            due_at_ms=None,
            callback_after_s=0,
            poll_count=row.poll_count + 1,
            lease_no=tx.ids.next_lease_no(row.lease_no),
            lease_until_ms=tx.now_ms + row.response_timeout_ms,
            worker_id=worker_id,
            former_workers=_add_former_worker(row, worker_id),
            granted_for=granted_for,
            started_ms=row.started_ms or tx.now_ms,
            updated_ms=tx.now_ms,
        )
        return self._deliver(tx, workflow, task, domain)

    def _deliver(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, domain: str) -> dict[str, Any]:
        """Return a leased task in the form in which its worker receives it."""
        if task.row.step_count:
            task_steps.end_due_waits(tx, workflow, task)
        row, data, owner = task.row, task.data, workflow.row
        snapshot = self._snapshots.get(tx, owner.snapshot)
        about = TaskOwner(owner.name, snapshot, owner.correlation_id, owner.priority)
        answer = make_task_json(tx.ids, row, data, about, domain)
        if row.operator not in _WITHOUT_SECRETS and not snapshot.is_from_data:
            self._add_secrets(answer, data, snapshot.task(row.ref), domain)
        task.lease_id = answer[LEASE_ID] = tx.ids.lease(row.pk, row.lease_no)
        answer[LEASE_EXPIRES_AT] = row.lease_until_ms
        if owner.traceparent is not None:
            answer[TRACEPARENT] = owner.traceparent
        if row.step_count:
            task_steps.deliver(tx, row, answer)
        return answer

    def _add_secrets(self, task: dict[str, Any], data: TaskData, defined: SnapshotTask, domain: str) -> None:
        """Insert the secrets that the definition names into the answer. Their values are not stored."""
        if defined.secret_places is not None:
            received: dict[str, str] = {}

            def read_secret(name: str) -> str | None:
                value = self._secrets.value(name)
                if value is not None:
                    received[name] = value
                return value

            given = fill_secrets(msgspec.json.decode(data.input), defined.secret_places, read_secret)
            task["inputData"] = msgspec.Raw(msgspec.json.encode(given))
            if domain.startswith(SYSTEM_DOMAIN):  # clients cannot poll these queues
                task[RECEIVED_SECRETS] = received
        if names := defined.task_def.runtime_metadata:
            known = {name: self._secrets.value(name) for name in names}
            task["runtimeMetadata"] = {name: value for name, value in known.items() if value is not None}

    def type_and_operator(self, tx: Tx, report: Report) -> tuple[str, str]:
        """Return the type and the operator of the task that a report is about."""
        _, task = _find(tx, report)
        return task.name, task.row.operator

    # -- heartbeat ------------------------------------------------------------------------------------------------

    def judge_heartbeat(self, tx: Tx, report: Report) -> Outcome:
        """Judge a heartbeat, which extends an open lease but never reopens an ended one. Return the outcome."""
        workflow, task = _find(tx, report)
        row, task_id = task.row, report.task_id or ""
        if report.lease_id is None:
            if report.steps:
                return Outcome(task_id, Verdict.REJECTED, 400, STEPS_NEED_LEASE)
            if row.lease_until_ms is not None and tx.now_ms < row.lease_until_ms:
                self._extend(tx, workflow, task)
                _store_progress(tx, workflow, task, report)
            elif not row.terminal:
                workflow.update_task(tx, task, updated_ms=tx.now_ms)
            return Outcome(task_id, None)
        lease_no = tx.ids.lease_no(row.pk, report.lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _reject_unknown_lease(task_id, report.lease_id)
        if not _is_open(tx, row, lease_no):
            # If a committed report has ended the lease, the answer to that report was lost. Return its verdict.
            own_report = _read_reports(task.data).get(str(lease_no)) if lease_no == row.lease_no else None
            if own_report is not None and own_report[1] == Verdict.COMMITTED and not report.steps:
                return Outcome(task_id, Verdict.COMMITTED)
            return Outcome(task_id, Verdict.CANCELLED, 409, LEASE_OVER)
        waits = task_steps.record(tx, workflow, task, report) if report.steps else ()
        self._extend(tx, workflow, task)
        _store_progress(tx, workflow, task, report)
        return Outcome(task_id, Verdict.COMMITTED, lease_expires_ms=task.row.lease_until_ms, new_waits=waits)

    def _extend(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
        lease_until_ms = max(task.row.lease_until_ms or 0, tx.now_ms + task.row.response_timeout_ms)
        update_task_and_wake(tx, workflow, task, lease_until_ms=lease_until_ms, updated_ms=tx.now_ms)

    # -- report → verdict -----------------------------------------------------------------------------------------

    def report(self, tx: Tx, report: Report) -> Outcome:
        """Judge a report, store it if its author holds the task, and return the outcome."""
        workflow, task = _find(tx, report)
        judge = self._report_without_lease if report.lease_id is None else self._report_of_lease
        found = judge(tx, workflow, task, report)
        tx.notes.count((REPORTS_TOTAL.name, str(task.row.queue or NO_QUEUE), found.verdict or NO_VERDICT))
        return found

    def _report_without_lease(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> Outcome:
        """Judge a report by task id and worker id, for clients that do not send lease ids."""
        row, task_id = task.row, report.task_id or ""
        if report.status is None:
            return Outcome(task_id, None, 400, "a task update needs a status")
        if report.steps or report.suspended:
            return Outcome(task_id, Verdict.REJECTED, 400, STEPS_NEED_LEASE)
        if row.terminal and row.worker_id == report.worker_id and row.status == report.status:
            return Outcome(task_id, None, ended_queue=row.queue)  # the client repeats an update whose answer was lost
        if row.terminal or _has_lost(tx, row, report.worker_id):
            message = f"task {task_id} is {row.status}" if row.terminal else LEASE_ENDED
            return Outcome(task_id, Verdict.CANCELLED, 409, message)
        return self._apply(tx, workflow, task, report, None, task.data.reports)

    def _report_of_lease(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> Outcome:
        task_id, lease_id, row = report.task_id or "", report.lease_id or "", task.row
        # The id of the last lease is cached. Any other id is checked against its digest.
        lease_no = row.lease_no if lease_id == task.lease_id else tx.ids.lease_no(row.pk, lease_id)
        if lease_no is None or lease_no > row.lease_no:
            return _reject_unknown_lease(task_id, lease_id)
        if report.status is None:
            return Outcome(task_id, Verdict.REJECTED, 400, "a report needs a status")
        reports, number = _read_reports(task.data), str(lease_no)
        earlier = reports.get(number)
        if earlier is not None:
            return _repeat_verdict(task_id, report, earlier)
        verdict = Verdict.COMMITTED if _is_open(tx, row, lease_no) else Verdict.CANCELLED
        reports[number] = report.key(), verdict
        if len(reports) > MAX_VERDICTS_KEPT:
            del reports[min(reports, key=int)]
        encoded = _encode(reports)
        if verdict is Verdict.CANCELLED:
            workflow.update_task(tx, task, reports=encoded)
            return Outcome(task_id, verdict, 409, LEASE_ENDED)
        return self._apply(tx, workflow, task, report, verdict, encoded)

    def _apply(
        self,
        tx: Tx,
        workflow: CachedWorkflow,
        task: CachedTask,
        report: Report,
        verdict: Verdict | None,
        reports: bytes | None,
    ) -> Outcome:
        """Store an accepted report, end the lease, and return the outcome."""
        row, task_id = task.row, report.task_id or ""
        payload: dict[str, Any] = {
            "output": _encode(report.output_data) if report.output_data else b"{}",
            "reason": report.reason_for_incompletion and report.reason,
            "reports": reports,
        }
        waits = task_steps.record(tx, workflow, task, report) if report.steps else ()
        _store_logs(tx, report)
        if row.lease_until_ms is not None:
            self._wake_limited_polls(tx, row)
        if report.status == TaskStatus.IN_PROGRESS:
            workflow.update_task(tx, task, **payload)
            if report.suspended and task.row.queue is not None and task.row.step_count:
                self._suspend(tx, workflow, task, report)
            else:
                self._return_to_queue(tx, workflow, task, report)
            return Outcome(task_id, verdict, is_stored=True, new_waits=waits)
        waits = task_steps.forget(tx, workflow, task, report) if report.forget_steps and row.step_count else ()
        expired = self._find_timeout(tx, workflow, task, report) if report.timed_out else None
        status = TaskStatus(report.status or "") if expired is None else TaskStatus.TIMED_OUT
        if expired is not None:
            payload["reason"] = expired.reason
        if row.worker_id != report.worker_id:
            payload |= {"worker_id": report.worker_id, "former_workers": _add_former_worker(row, report.worker_id)}
        workflow.update_task(tx, task, **_end_columns(tx, row, status), **payload)
        tx.notes.count((TASKS_ENDED_TOTAL.name, task.name, status))
        return Outcome(
            task_id,
            verdict,
            workflow=row.workflow,
            ended_queue=row.queue,
            was_polled=row.poll_count > 0,
            expired=expired,
            is_stored=True,
            new_waits=waits,
        )

    def _find_timeout(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> ExpiredTask | None:
        """Return the timeout that the worker has reported; None if the timeout policy does not apply."""
        row = task.row
        if not row.timeout_ms or report.status != TaskStatus.FAILED:
            return None
        task_def = self._task_def(tx, workflow, task)
        if task_def.timeout_policy == "ALERT_ONLY":
            return None
        reason = _timeout_reason(tx, row, task_def.name)
        return ExpiredTask(row.workflow, row.pk, reason, task_def.timeout_policy == "TIME_OUT_WF")

    def _return_to_queue(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> None:
        """Requeue a task that its worker returns unfinished."""
        if task.row.queue is None:
            workflow.update_task(tx, task, updated_ms=tx.now_ms, worker_id=report.worker_id)
            return
        if report.never_started:
            _undo_delivery(tx, workflow, task)
        self._put_in_queue(tx, workflow, task, report.worker_id, max(0, report.callback_after_seconds or 0))

    def _suspend(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> None:
        """End the lease of a task. The task becomes ready when one of its steps stops waiting."""
        is_ready, due_at_ms = task_steps.find_due(tx, task.row)
        if is_ready:
            self._put_in_queue(tx, workflow, task, report.worker_id)
            return
        update_task_and_wake(
            tx,
            workflow,
            task,
            status=TaskStatus.SCHEDULED,
            suspended=task_steps.SUSPENDED,
            worker_id=report.worker_id,
            callback_after_s=0 if due_at_ms is None else max(0, (due_at_ms - tx.now_ms + 999) // 1000),
            updated_ms=tx.now_ms,
            lease_until_ms=None,
            due_at_ms=due_at_ms,
        )

    def wake_suspended(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
        """Make a suspended task ready, because a wait has ended. If a worker holds the task, only mark it as WOKEN."""
        row = task.row
        if row.lease_until_ms is not None:
            workflow.update_task(tx, task, suspended=task_steps.WOKEN)
        elif row.suspended == task_steps.SUSPENDED and row.ready_since_ms is None:
            self._put_in_queue(tx, workflow, task, row.worker_id)

    def _put_in_queue(
        self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, worker_id: str | None, delay_s: int = 0
    ) -> None:
        """Put a task into its queue under the same id, and end its open lease."""
        update_task_and_wake(
            tx,
            workflow,
            task,
            status=TaskStatus.SCHEDULED,
            worker_id=worker_id,
            callback_after_s=delay_s,
            updated_ms=tx.now_ms,
            lease_until_ms=None,
            ready_since_ms=None if delay_s else tx.now_ms,
            due_at_ms=tx.now_ms + delay_s * 1000 if delay_s else None,
            suspended=0,
        )
        if not delay_s:
            self.announce_ready(tx, task.row.queue)

    def remove_from_queue(self, tx: Tx, report: Report) -> bool:
        """Remove an unfinished task from its queue, because the decider or a signal is going to end it.

        Returns:
            False if the worker had lost the lease, in which case nothing is changed.
        """
        workflow, task = _find(tx, report)
        row = task.row
        lease_no = tx.ids.lease_no(row.pk, report.lease_id or "")
        if lease_no is None or not _is_open(tx, row, lease_no):
            return False
        self._wake_limited_polls(tx, row)
        output = task.data.output if report.output_data is None else _encode(report.output_data)
        workflow.update_task(
            tx, task, queue=None, lease_until_ms=None, wake_at_ms=None, updated_ms=tx.now_ms, output=output
        )
        return True

    def requeue(self, tx: Tx, row: TaskRow) -> None:
        """Requeue a task, whether or not a worker holds it."""
        workflow, task = tx.cache.get_task(tx, row.workflow, row.pk)
        if task.row.lease_until_ms is not None:
            workflow.update_task(tx, task, former_workers=_add_former_worker(task.row, None))
        self._put_in_queue(tx, workflow, task, task.row.worker_id)

    def run_again(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, *, is_retry: bool) -> None:
        """Put an ended task, which has no open lease, into its queue again, under the same id.

        A retry continues after the recorded durable steps. Otherwise, the task begins without steps.
        """
        if task.row.step_count and is_retry:
            task_steps.forget_ended_calls(tx, task.row)
        elif task.row.step_count:
            task_steps.forget_all(tx, workflow, task)
        former_workers = _add_former_worker(task.row, None)
        workflow.update_task(tx, task, former_workers=former_workers, poll_count=0, alerted=0)
        self._put_in_queue(tx, workflow, task, None)

    def undo_grants(self, tx: Tx, task_ids: list[str]) -> None:
        """Requeue tasks whose leases never reached their worker, and do not count the delivery."""
        for task_id in task_ids:
            row = tx.first(TASK, tx.ids.task_pk(task_id) or 0)
            if row is not None and row.lease_until_ms is not None:
                self._wake_limited_polls(tx, row)
                workflow, task = tx.cache.get_task(tx, row.workflow, row.pk)
                _undo_delivery(tx, workflow, task)
                self._put_in_queue(tx, workflow, task, row.worker_id)

    # -- report and poll in one request ---------------------------------------------------------------------------

    def grant_next(
        self, tx: Tx, reports: Sequence[Report], outcomes: list[Outcome], wanted: int, poll: PollForReports
    ) -> list[Outcome]:
        """Grant the authors of the first `wanted` reports one task each, from the queue of the reported task.

        Return the outcomes, now with the granted tasks.

        A worker repeats a report if it did not get the answer. It then gets the same task again, if the lease of that
        task is still open. If the worker no longer wants a task, that task is requeued. After tasks of `MAX_POLL_BYTES`
        in total, no further task is granted.
        """
        authors: dict[tuple[int, str | None], list[int]] = {}
        granted: dict[int, dict[str, Any] | None] = {}
        size = 0
        for place, (report, outcome) in enumerate(zip(reports, outcomes, strict=True)):
            if outcome.is_repeated:
                is_wanted = place < wanted and size <= MAX_POLL_BYTES
                task = granted[place] = self._redeliver_or_requeue(tx, report, wanted=is_wanted)
                size += 0 if task is None else count_task_bytes(task)
            elif place < wanted and outcome.ended_queue is not None and report.lease_id is not None:
                authors.setdefault((outcome.ended_queue, report.worker_id), []).append(place)
        for (queue, worker_id), places in authors.items():
            found = tx.cached_first(QUEUE_OF, queue)
            if found is None or size > MAX_POLL_BYTES:
                continue
            reported = [tx.ids.task_pk(reports[place].task_id) or 0 for place in places]
            tasks = poll(tx, found.task_type, found.domain, worker_id, reported)
            size += sum(map(count_task_bytes, tasks))
            granted |= zip(places, tasks, strict=False)
        return [
            msgspec.structs.replace(outcome, next_task=granted[place]) if place in granted else outcome
            for place, outcome in enumerate(outcomes)
        ]

    def _redeliver_or_requeue(self, tx: Tx, report: Report, *, wanted: bool) -> dict[str, Any] | None:
        """Return the task that was granted with the first answer to a repeated report; None if its lease has ended.

        If the worker no longer wants a task, requeue that task and return None.
        """
        _, reported = _find(tx, report)
        found = tx.first(GRANTED_FOR_REPORT, reported.row.type, reported.row.pk)
        if found is None or not _is_open(tx, found, found.lease_no):
            return None
        if not wanted:
            self.undo_grants(tx, [tx.ids.task(found.pk)])
            return None
        workflow, task = tx.cache.get_task(tx, found.workflow, found.pk)
        if found.poll_count == 1:  # the worker never received the task, so its timeout starts now
            workflow.update_task(tx, task, started_ms=tx.now_ms)
        self._extend(tx, workflow, task)
        queue = tx.cached_first(QUEUE_OF, task.row.queue)
        return self._deliver(tx, workflow, task, "" if queue is None else queue.domain)

    def requeue_batch(self, tx: Tx, task_type: str, after: int = 0) -> list[int]:
        """Requeue the next batch of open tasks of a type.

        Args:
            tx: The transaction.
            task_type: The type of the tasks.
            after: The last key of the previous batch.

        Returns:
            The keys of the requeued tasks; an empty list if no task is left.
        """
        known = tx.cached_first(TASK_TYPE, task_type)
        found = tx.rows(OPEN_TASKS_OF_TYPE, known.pk, after, REQUEUED_PER_TRANSACTION) if known else []
        tx.cache.load(tx, [row.workflow for row in found])
        for row in found:
            self.requeue(tx, row)
        return [row.pk for row in found]

    def reset_callbacks(self, tx: Tx, workflow: int) -> None:
        """Make each task of a workflow pollable now if it waits for its callback time."""
        for row in tx.rows(OPEN_TASKS_OF_WORKFLOW, workflow):
            if row.queue is not None and row.due_at_ms is not None:
                self.requeue(tx, row)

    # -- ends -----------------------------------------------------------------------------------------------------

    def end_task(
        self, tx: Tx, workflow: CachedWorkflow, task: CachedTask, status: TaskStatus, reason: str | None
    ) -> None:
        """End a task on the coordinator's initiative."""
        if task.row.lease_until_ms is not None:
            self._wake_limited_polls(tx, task.row)
        new_reason = task.data.reason if reason is None else reason
        workflow.update_task(tx, task, **_end_columns(tx, task.row, status), reason=new_reason)
        tx.notes.count((TASKS_ENDED_TOTAL.name, task.name, status))

    def announce_ready(self, tx: Tx, queue: int | None) -> None:
        """Wake parked polls of this queue after the commit, because one of its tasks is ready."""
        found = None if queue is None else tx.cached_first(QUEUE_OF, queue)
        if found is not None:
            tx.notes.add_ready(found.task_type, found.domain)

    def _wake_limited_polls(self, tx: Tx, row: TaskRow) -> None:
        """If the task type has a concurrency limit, wake its parked polls, because a lease has ended."""
        task_type = tx.cached_first(LIMITED_TYPE, row.type)
        if task_type is not None:
            for queue in tx.rows(QUEUES_OF_TYPE, row.type):
                tx.notes.add_ready(task_type, queue.domain)

    # -- time -----------------------------------------------------------------------------------------------------

    def apply_deadlines(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> ExpiredTask | None:
        """Apply the passed deadlines of a task. Return the timeout that ended the task, or None."""
        row = task.row
        task_def = self._task_def(tx, workflow, task)
        passed = _find_passed_deadline(row, task_def, tx)
        if passed is None:
            self._make_due_task_ready(tx, workflow, task)
            return None
        if not passed.is_lease and task_def.timeout_policy == "ALERT_ONLY":
            logger.warning(
                "Task exceeded a timeout, and its policy is ALERT_ONLY: task_id=%s ref=%s reason=%r",
                tx.ids.task(row.pk),
                row.ref,
                passed.reason,
            )
            update_task_and_wake(tx, workflow, task, alerted=1)
            return None
        if passed.is_lease:
            tx.notes.count((LEASES_EXPIRED_TOTAL.name, task.name))
        self.end_task(tx, workflow, task, TaskStatus.TIMED_OUT, passed.reason)
        ends_workflow = not passed.is_lease and task_def.timeout_policy == "TIME_OUT_WF"
        return ExpiredTask(row.workflow, row.pk, passed.reason, ends_workflow)

    def _make_due_task_ready(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
        row = task.row
        if row.queue is None or row.due_at_ms is None or row.due_at_ms > tx.now_ms:
            return
        update_task_and_wake(tx, workflow, task, ready_since_ms=row.due_at_ms, due_at_ms=None)
        self.announce_ready(tx, row.queue)

    def release_rate_limited(self, tx: Tx) -> None:
        """Wake parked polls for as many ready tasks as the rate limits of their types allow now."""
        for queue in tx.rows(RATE_LIMITED_QUEUES):
            if tx.first(IS_READY, queue.pk) is None:
                continue
            limits = TaskType(queue.type, None, queue.concurrent_limit, queue.rate_limit, queue.rate_window_ms)
            free = self._free_capacity(tx, limits)
            if free > 0:
                tx.notes.add_ready(queue.task_type, queue.domain, free)

    def _task_def(self, tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> TaskDef:
        return self._snapshots.get(tx, workflow.row.snapshot).task_def(task.row.ref, task.data.definition)


def count_task_bytes(task: dict[str, Any]) -> int:
    """Return about how many bytes a leased task takes in an answer."""
    return sum(len(task[name]) for name in ("inputData", "outputData", "workflowTask", "taskDefinition"))


def update_task_and_wake(tx: Tx, workflow: CachedWorkflow, task: CachedTask, **columns: Any) -> None:
    """Set columns of a task, and compute the time of its next deadline for the timer."""
    wake_at_ms = _find_next_wake(msgspec.structs.replace(task.row, **columns))
    tx.notes.add_wake(wake_at_ms)
    workflow.update_task(tx, task, **columns, wake_at_ms=wake_at_ms)


def _undo_delivery(tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
    """Undo the count of the last delivery, because the worker did not call its function."""
    poll_count = max(0, task.row.poll_count - 1)
    started_ms = task.row.started_ms if poll_count else 0
    workflow.update_task(tx, task, poll_count=poll_count, started_ms=started_ms)


def _end_columns(tx: Tx, row: TaskRow, status: TaskStatus) -> dict[str, Any]:
    """Return the columns that change when a task ends."""
    columns = {
        "status": status,
        "ended_ms": tx.now_ms,
        "lease_until_ms": None,
        "ready_since_ms": None,
        "due_at_ms": None,
        "wake_at_ms": None,
    }
    # The queue is cleared: a SWITCH or DO_WHILE that runs again would otherwise seem to wait for a script.
    return columns | {"queue": None} if row.operator in OPERATORS_WITH_SCRIPTS else columns


def _store_progress(tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> None:
    """Store the log lines and the output that a running task has sent with a heartbeat."""
    _store_logs(tx, report)
    if report.output_data is not None:
        workflow.update_task(tx, task, output=_encode(report.output_data))


def _store_logs(tx: Tx, report: Report) -> None:
    for entry in report.logs or ():
        tx.run(ADD_LOG, report.task_id, entry.created_time or tx.now_ms, entry.log or entry.message or "")


class _PassedDeadline(NamedTuple):
    reason: str
    #: Whether the deadline is the end of the lease. The task is then retried, even if its timeout policy is not RETRY.
    is_lease: bool = False


def _find_next_wake(row: TaskRow) -> int | None:
    """Return the nearest deadline of a task, or None."""
    deadlines = [at for at in (row.due_at_ms, row.lease_until_ms, *_find_timeouts(row)) if at is not None]
    return min(deadlines, default=None)


def _find_timeouts(row: TaskRow) -> tuple[int | None, int | None, int | None]:
    """Return the times of the total, task and poll timeouts. After an ALERT_ONLY timeout was logged, all are None."""
    if row.alerted or row.queue is None:
        return None, None, None
    return (
        row.first_scheduled_ms + row.total_timeout_ms if row.total_timeout_ms else None,
        row.started_ms + row.timeout_ms if row.timeout_ms and row.started_ms else None,
        row.ready_since_ms + row.poll_timeout_ms if row.poll_timeout_ms and row.ready_since_ms is not None else None,
    )


def _find_passed_deadline(row: TaskRow, task_def: TaskDef, tx: Tx) -> _PassedDeadline | None:
    """Check the deadlines of a task in Conductor's order. Return the first that has passed, or None."""
    now_ms = tx.now_ms
    total_at, task_at, poll_at = _find_timeouts(row)
    if total_at is not None and now_ms >= total_at:
        return _PassedDeadline(
            f"totalTimeout: {row.total_timeout_ms // 1000} {_describe_exceeded(tx, row, task_def.name)}"
        )
    if task_at is not None and now_ms >= task_at:
        return _PassedDeadline(_timeout_reason(tx, row, task_def.name))
    if poll_at is not None and now_ms >= poll_at:
        return _PassedDeadline(
            f"pollTimeout: {row.poll_timeout_ms // 1000} {_describe_exceeded(tx, row, task_def.name)}"
        )
    if row.lease_until_ms is not None and now_ms >= row.lease_until_ms:
        reason = f"responseTimeout: {row.response_timeout_ms // 1000} {_describe_exceeded(tx, row, task_def.name)}"
        return _PassedDeadline(reason, is_lease=True)
    return None


def _timeout_reason(tx: Tx, row: TaskRow, name: str) -> str:
    return f"Task timed out after {row.timeout_ms // 1000} seconds: timeout {_describe_exceeded(tx, row, name)}"


def _describe_exceeded(tx: Tx, row: TaskRow, name: str) -> str:
    return f"exceeded for the taskId: {tx.ids.task(row.pk)} with Task Definition: {name}"


def _find(tx: Tx, report: Report) -> tuple[CachedWorkflow, CachedTask]:
    """Return the task that a report is about.

    Raises:
        ApiError: The report names no task (400), or there is no such task or workflow (404).
    """
    if not (report.task_id and report.workflow_instance_id):
        report.check()
    workflow_pk = tx.ids.workflow_pk(report.workflow_instance_id)
    task_pk = tx.ids.task_pk(report.task_id)
    workflow = tx.cache.workflow(tx, workflow_pk) if workflow_pk is not None else None
    if workflow is None and not report.extend_lease:
        error = not_found(f"No such workflow found by id: {report.workflow_instance_id}")
        error.verdict = Verdict.REJECTED if report.lease_id else None
        raise error
    task = workflow.task(tx, task_pk) if workflow is not None and task_pk is not None else None
    if workflow is not None and task is not None:
        return workflow, task
    # The report may name a wrong workflow. The task's row names the right one.
    row = tx.first(TASK, task_pk or 0)
    if row is None:
        error = not_found(f"No such task found by id: {report.task_id}")
        error.verdict = Verdict.REJECTED if report.lease_id else None
        raise error
    return tx.cache.get_task(tx, row.workflow, row.pk)


def _is_open(tx: Tx, row: TaskRow, lease_no: int) -> bool:
    return lease_no == row.lease_no and row.lease_until_ms is not None and tx.now_ms < row.lease_until_ms


def _has_lost(tx: Tx, row: TaskRow, worker_id: str | None) -> bool:
    """Return whether a worker that sends no lease ids once held this open task, but has lost it."""
    if worker_id is None:
        return False
    if row.worker_id == worker_id and row.lease_until_ms is not None:
        return tx.now_ms >= row.lease_until_ms
    return row.former_workers is not None and worker_id in _decode_workers(row.former_workers)


def _add_former_worker(row: TaskRow, successor: str | None) -> str | None:
    """Return the former workers of a task after `successor` takes over from its present worker."""
    if row.worker_id is None or not row.lease_no or row.worker_id == successor:
        return row.former_workers
    known = _decode_workers(row.former_workers) if row.former_workers else []
    known = [name for name in known if name != row.worker_id][1 - MAX_FORMER_WORKERS :]
    return _encode([*known, row.worker_id]).decode()


def _read_reports(data: TaskData) -> dict[str, tuple[str, str]]:
    """Return the reports of a task, as a map from lease number to (report id, verdict)."""
    return _decode_reports(data.reports) if data.reports else {}


def _reject_unknown_lease(task_id: str, lease_id: str) -> Outcome:
    return Outcome(task_id, Verdict.REJECTED, 404, f"task {task_id} never had a lease {lease_id}")


def _repeat_verdict(task_id: str, report: Report, earlier: tuple[str, str]) -> Outcome:
    """Return the verdict on a further report of a lease that was already reported."""
    report_id, verdict = earlier
    if report_id != report.key():
        return Outcome(task_id, Verdict.REJECTED, 409, OTHER_REPORT)
    if verdict == Verdict.COMMITTED:
        return Outcome(task_id, Verdict.COMMITTED, is_repeated=True)
    return Outcome(task_id, Verdict.CANCELLED, 409, LEASE_ENDED)
