"""What the stub makes of a report: Conductor's rules, and a coordinator's verdicts for reports with a lease."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.wire import LEASE_EXPIRES_HEADER, VERDICT_HEADER, Verdict
from conductor.testing.http11 import StubAnswer
from conductor.testing.router import text_answer
from conductor.testing.stub_errors import StubError, blank_ids
from conductor.testing.stub_queue import StubLease, StubQueue

#: Status and reason of a verdict that a script gives.
_REASONS = {Verdict.CANCELLED: (409, "The lease has ended"), Verdict.REJECTED: (400, "The report is refused")}


def refusal(verdict: Verdict) -> StubError:
    """The answer to a report whose bad verdict was decided beforehand."""
    status, reason = _REASONS[verdict]
    return StubError(status, reason, verdict=verdict)


class Reports:
    """Judges reports and heartbeats; the good ones have their effect. Whoever calls it holds the stub's lock."""

    def __init__(self, queue: StubQueue, *, leases: bool) -> None:
        self._queue = queue
        self._leases = leases
        #: Every report that was answered with a success, as it came, in order.
        self.results: list[dict[str, Any]] = []

    def take(self, body: dict[str, Any]) -> StubAnswer:
        """One report or heartbeat; raises StubError for a bad one."""
        result = self._read(body)
        if self._leases and result.lease_id is not None:
            return self._take_leased(result, body)
        task = self._find(result)
        if result.extend_lease:
            if task.status not in TERMINAL_TASK_STATUSES:
                self._queue.extend(task)
        elif self._leases and self._is_late(result, task):
            return text_answer(result.task_id, {VERDICT_HEADER: str(Verdict.CANCELLED)})
        elif task.status not in TERMINAL_TASK_STATUSES:
            self._apply(result, body)
        else:
            self.results.append(body)  # a Conductor server discards a late result, with a 200
        return text_answer(result.task_id)

    def _is_late(self, result: TaskResult, task: Task) -> bool:
        """Return whether an update without a lease id comes from a worker that no longer holds the task."""
        if task.status in TERMINAL_TASK_STATUSES:
            return (task.worker_id, task.status) != (result.worker_id, str(result.status))
        return self._queue.has_lost(task, result.worker_id)

    def _take_leased(self, result: TaskResult, body: dict[str, Any]) -> StubAnswer:
        lease = self._lease_of(result)
        return self._heartbeat(result, lease) if result.extend_lease else self._report(result, lease, body)

    def _heartbeat(self, result: TaskResult, lease: StubLease) -> StubAnswer:
        task = self._queue.tasks[lease.task_id]
        if lease.verdict is Verdict.COMMITTED and task.lease_id == lease.id:
            # It was not lost: its own report ended it, and this heartbeat was on its way.
            return text_answer(result.task_id, {VERDICT_HEADER: str(Verdict.COMMITTED)})
        if not self._queue.is_alive(lease):
            raise _ended(lease)
        self._queue.extend(task)
        self._queue.keep_news(task, result)
        return text_answer(result.task_id, {LEASE_EXPIRES_HEADER: str(task.lease_expires_at)})

    def _report(self, result: TaskResult, lease: StubLease, body: dict[str, Any]) -> StubAnswer:
        report = result.report_id or repr(_content(body))
        if lease.verdict is not None and report != lease.report:
            raise StubError(409, f"Lease {lease.id} has been reported already", verdict=Verdict.REJECTED)
        if lease.verdict is None:
            self._check_status(result, body)
            alive = self._queue.is_alive(lease)
            lease.report, lease.verdict = report, Verdict.COMMITTED if alive else Verdict.CANCELLED
            if alive:
                self._apply(result, body)
        if lease.verdict is Verdict.CANCELLED:
            raise _ended(lease)
        return text_answer(result.task_id, {VERDICT_HEADER: str(Verdict.COMMITTED)})

    def _lease_of(self, result: TaskResult) -> StubLease:
        lease = self._queue.leases.get(result.lease_id or "")
        try:
            self._find(result)
        except StubError as error:
            error.verdict = Verdict.REJECTED
            raise
        if lease is None or lease.task_id != result.task_id:
            raise StubError(404, f"No such lease of task {result.task_id}: {result.lease_id}", verdict=Verdict.REJECTED)
        return lease

    def take_batch(self, bodies: list[Any]) -> list[dict[str, Any]]:
        """Several reports, each judged by itself: their verdicts in the same order."""
        return [self._verdict_on(body) for body in bodies]

    def _verdict_on(self, body: Any) -> dict[str, Any]:
        task_id = body.get("taskId") if isinstance(body, dict) else None
        try:
            if not isinstance(body, dict):
                raise self.malformed("A report is a JSON object")
            answer = self.take(body)
        except StubError as error:
            return {"verdict": str(Verdict.REJECTED), "taskId": task_id, **error.to_dict()}
        verdict = answer.headers.get(VERDICT_HEADER, str(Verdict.COMMITTED))
        return {"verdict": verdict, "taskId": task_id, "status": 200}

    def _read(self, body: dict[str, Any]) -> TaskResult:
        try:
            result = msgspec.convert(body, TaskResult)
        except msgspec.ValidationError as error:
            raise self.malformed(f"Cannot deserialize a TaskResult: {error}") from None
        if not result.task_id or not result.workflow_instance_id:
            blank = blank_ids(workflowInstanceId=result.workflow_instance_id, taskId=result.task_id)
            blank.verdict = Verdict.REJECTED if self._leases else None
            raise blank
        return result

    def _find(self, result: TaskResult) -> Task:
        workflow_id = result.workflow_instance_id
        if not result.extend_lease and workflow_id not in self._queue.workflow_ids:
            raise StubError(404, f"No such workflow found by id: {workflow_id}")
        if result.task_id not in self._queue.tasks:
            raise StubError(404, f"No such task found by id: {result.task_id}")
        return self._queue.tasks[result.task_id]

    def _apply(self, result: TaskResult, body: dict[str, Any]) -> None:
        self._check_status(result, body)
        self._queue.apply(result)
        self.results.append(body)

    def _check_status(self, result: TaskResult, body: dict[str, Any]) -> None:
        if body.get("status") is None:
            error = self.malformed("The status of a TaskResult is missing")
            error.verdict = error.verdict if result.lease_id else None
            raise error

    def malformed(self, message: str) -> StubError:
        """What cannot be understood: a verdict of a coordinator, an internal error of a plain server."""
        return StubError(400, message, verdict=Verdict.REJECTED) if self._leases else StubError(500, message)


def _ended(lease: StubLease) -> StubError:
    return StubError(409, f"Lease {lease.id} has ended", verdict=Verdict.CANCELLED)


def _content(body: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a report without an id the same report again."""
    return tuple(body.get(name) for name in ("status", "outputData", "reasonForIncompletion", "callbackAfterSeconds"))
