"""Accepts or rejects reports: by Conductor's rules or, for reports with a lease, with the coordinator's verdicts."""

from __future__ import annotations

import msgspec

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.wire import LEASE_EXPIRES_HEADER, VERDICT_HEADER, Verdict
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import JsonObject
from conductor.testing.router import StubError, text_answer
from conductor.testing.stub_queue import StubLease, StubQueue

_COMMITTED_HEADER = {VERDICT_HEADER: str(Verdict.COMMITTED)}


class ReportRules:
    """Accepts or rejects reports and heartbeats, and applies the accepted ones. Callers hold the stub's lock."""

    def __init__(self, queue: StubQueue, *, leases: bool) -> None:
        self._queue = queue
        self._leases = leases
        #: Bodies of all reports that were answered with a success, in order.
        self.results: list[JsonObject] = []

    def process(self, body: JsonObject) -> StubAnswer:
        """Process one report or heartbeat, and return the answer; raise StubError if it is rejected."""
        result = self._parse(body)
        if self._leases and result.lease_id is not None:
            lease = self._find_lease(result)
            return self._extend(result, lease) if result.extend_lease else self._commit(result, lease, body)
        task = self._find_task(result)
        if result.extend_lease:
            if task.status not in TERMINAL_TASK_STATUSES:
                self._queue.extend(task)
        elif self._leases and self._is_late(result, task):
            return text_answer(result.task_id, {VERDICT_HEADER: str(Verdict.CANCELLED)})
        elif task.status not in TERMINAL_TASK_STATUSES:
            self._apply(result, body)
        else:
            self.results.append(body)  # a Conductor server discards a late result and answers 200
        return text_answer(result.task_id)

    def process_in_batch(self, body: object) -> JsonObject:
        """Process one report of a batch and return its verdict; never raises StubError."""
        task_id = body.get("taskId") if isinstance(body, dict) else None
        try:
            if not isinstance(body, dict):
                raise self.malformed("A report must be a JSON object")
            answer = self.process(body)
        except StubError as error:
            return {"verdict": str(Verdict.REJECTED), "taskId": task_id, **error.to_dict()}
        verdict = answer.headers.get(VERDICT_HEADER, str(Verdict.COMMITTED))
        return {"verdict": verdict, "taskId": task_id, "status": 200}

    def _is_late(self, result: TaskResult, task: Task) -> bool:
        """Return whether an update without a lease id comes from a worker that no longer holds the task."""
        if task.status in TERMINAL_TASK_STATUSES:
            return (task.worker_id, task.status) != (result.worker_id, str(result.status))
        return self._queue.has_lost(task, result.worker_id)

    def _extend(self, result: TaskResult, lease: StubLease) -> StubAnswer:
        task = self._queue.tasks[lease.task_id]
        if lease.verdict is Verdict.COMMITTED and task.lease_id == lease.id:
            # The worker did not lose the lease: its own report ended the lease while this heartbeat was in flight.
            return text_answer(result.task_id, _COMMITTED_HEADER)
        if not self._queue.is_valid(lease):
            raise _lease_ended(lease)
        self._queue.extend(task)
        self._queue.store_progress(task, result)
        return text_answer(result.task_id, {LEASE_EXPIRES_HEADER: str(task.lease_expires_at)})

    def _commit(self, result: TaskResult, lease: StubLease, body: JsonObject) -> StubAnswer:
        report = result.report_id or _fingerprint(body)
        if lease.verdict is not None and report != lease.report:
            raise StubError(409, f"Lease {lease.id} has been reported already", verdict=Verdict.REJECTED)
        if lease.verdict is None:
            self._check_status(result, body)
            is_valid = self._queue.is_valid(lease)
            lease.report, lease.verdict = report, Verdict.COMMITTED if is_valid else Verdict.CANCELLED
            if is_valid:
                self._apply(result, body)
        if lease.verdict is Verdict.CANCELLED:
            raise _lease_ended(lease)
        return text_answer(result.task_id, _COMMITTED_HEADER)

    def _find_lease(self, result: TaskResult) -> StubLease:
        lease = self._queue.leases.get(result.lease_id or "")
        try:
            self._find_task(result)
        except StubError as error:
            error.verdict = Verdict.REJECTED
            raise
        if lease is None or lease.task_id != result.task_id:
            raise StubError(404, f"No such lease of task {result.task_id}: {result.lease_id}", verdict=Verdict.REJECTED)
        return lease

    def _parse(self, body: JsonObject) -> TaskResult:
        try:
            result = msgspec.convert(body, TaskResult)
        except msgspec.ValidationError as error:
            raise self.malformed(f"Cannot deserialize a TaskResult: {error}") from None
        ids = {"workflowInstanceId": result.workflow_instance_id, "taskId": result.task_id}
        problems = [
            {"path": f"updateTask.{name}", "message": f"{name} cannot be null or empty"}
            for name in ids
            if not ids[name]
        ]
        if problems:
            raise StubError(
                400,
                "Validation failed, check below errors for detail.",
                verdict=Verdict.REJECTED if self._leases else None,
                validationErrors=problems,
            )
        return result

    def _find_task(self, result: TaskResult) -> Task:
        workflow_id = result.workflow_instance_id
        if not result.extend_lease and workflow_id not in self._queue.workflow_ids:
            raise StubError(404, f"No such workflow found by id: {workflow_id}")
        if result.task_id not in self._queue.tasks:
            raise StubError(404, f"No such task found by id: {result.task_id}")
        return self._queue.tasks[result.task_id]

    def _apply(self, result: TaskResult, body: JsonObject) -> None:
        self._check_status(result, body)
        self._queue.apply(result)
        self.results.append(body)

    def _check_status(self, result: TaskResult, body: JsonObject) -> None:
        if body.get("status") is None:
            error = self.malformed("The status of a TaskResult is missing")
            error.verdict = error.verdict if result.lease_id else None
            raise error

    def malformed(self, message: str) -> StubError:
        """Return the error for a body that cannot be parsed: 400 REJECTED with leases, 500 on a Conductor server."""
        return StubError(400, message, verdict=Verdict.REJECTED) if self._leases else StubError(500, message)


def _lease_ended(lease: StubLease) -> StubError:
    return StubError(409, f"Lease {lease.id} has ended", verdict=Verdict.CANCELLED)


def _fingerprint(body: JsonObject) -> str:
    """Return the content of a report as text. It identifies a repeated report that has no report id."""
    return repr([body.get(name) for name in ("status", "outputData", "reasonForIncompletion", "callbackAfterSeconds")])
