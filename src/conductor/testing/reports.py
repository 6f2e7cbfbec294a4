"""What the stub thinks of a report: Conductor's rules, and a coordinator's verdicts for those who show a lease."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.testing.errors import ApiError, blank_ids
from conductor.testing.http11 import Answer
from conductor.testing.queue import Lease, TaskQueue
from conductor.testing.router import text_answer
from conductor.wire import LEASE_EXPIRES_HEADER, TERMINAL_TASK_STATUSES, VERDICT_HEADER, Verdict

#: Status and reason of a verdict that a script gives.
_REASONS = {Verdict.CANCELLED: (409, "The lease has ended"), Verdict.REJECTED: (400, "The report is refused")}


def refusal(verdict: Verdict) -> ApiError:
    """The answer to a report whose bad verdict was decided beforehand."""
    status, reason = _REASONS[verdict]
    return ApiError(status, reason, verdict=verdict)


class Reports:
    """Judges reports and heartbeats; the good ones have their effect. Whoever calls it holds the stub's lock."""

    def __init__(self, queue: TaskQueue, *, leases: bool) -> None:
        self._queue = queue
        self._leases = leases
        #: Every report that was answered with a success, as it came, in order.
        self.results: list[dict[str, Any]] = []

    def take(self, body: dict[str, Any]) -> Answer:
        """One report or heartbeat; raises ApiError for a bad one."""
        result = self._read(body)
        if self._leases and result.lease_id is not None:
            return self._take_leased(result, body)
        task = self._find(result)
        if result.extend_lease:
            if task.status not in TERMINAL_TASK_STATUSES:
                self._queue.extend(task)
        elif task.status not in TERMINAL_TASK_STATUSES:  # a late result is thrown away, with a 200
            self._apply(result, body)
        else:
            self.results.append(body)
        return text_answer(result.task_id)

    def _take_leased(self, result: TaskResult, body: dict[str, Any]) -> Answer:
        lease = self._lease_of(result)
        if lease.consumed and result.extend_lease and self._queue.tasks[lease.task_id].lease_id == lease.id:
            # It was not lost: its own report ended it, and this heartbeat was on its way.
            return text_answer(result.task_id, {VERDICT_HEADER: str(Verdict.COMMITTED)})
        again = lease.consumed and result.report_id is not None and result.report_id == lease.report_id
        if lease.consumed and not (again or result.extend_lease):
            raise ApiError(409, f"Lease {lease.id} has been reported already", verdict=Verdict.REJECTED)
        if not again and not self._queue.is_alive(lease):
            raise ApiError(409, f"Lease {lease.id} has ended", verdict=Verdict.CANCELLED)
        headers = {VERDICT_HEADER: str(Verdict.COMMITTED)}
        if result.extend_lease:
            task = self._queue.tasks[lease.task_id]
            self._queue.extend(task)
            headers[LEASE_EXPIRES_HEADER] = str(task.lease_expires_at)
        elif not again:
            self._apply(result, body)
            lease.consumed, lease.report_id = True, result.report_id
        return text_answer(result.task_id, headers)

    def _lease_of(self, result: TaskResult) -> Lease:
        lease = self._queue.leases.get(result.lease_id or "")
        if result.task_id not in self._queue.tasks:
            raise ApiError(404, f"No such task found by id: {result.task_id}", verdict=Verdict.REJECTED)
        if lease is None or lease.task_id != result.task_id:
            raise ApiError(404, f"No such lease of task {result.task_id}: {result.lease_id}", verdict=Verdict.REJECTED)
        return lease

    def take_batch(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Several reports, each judged by itself: their verdicts in the same order."""
        return [self._verdict_on(body) for body in bodies]

    def _verdict_on(self, body: dict[str, Any]) -> dict[str, Any]:
        task_id = body.get("taskId")
        try:
            self.take(body)
        except ApiError as error:
            return {"verdict": str(Verdict.REJECTED), "taskId": task_id, **error.to_dict()}
        return {"verdict": str(Verdict.COMMITTED), "taskId": task_id, "status": 200}

    def _read(self, body: dict[str, Any]) -> TaskResult:
        try:
            result = msgspec.convert(body, TaskResult)
        except msgspec.ValidationError as error:
            raise ApiError(500, f"Cannot deserialize a TaskResult: {error}") from None
        if not result.task_id or not result.workflow_instance_id:
            raise blank_ids(workflowInstanceId=result.workflow_instance_id, taskId=result.task_id)
        return result

    def _find(self, result: TaskResult) -> Task:
        workflow_id = result.workflow_instance_id
        if not result.extend_lease and workflow_id not in self._queue.workflow_ids:
            raise ApiError(404, f"No such workflow found by id: {workflow_id}")
        if result.task_id not in self._queue.tasks:
            raise ApiError(404, f"No such task found by id: {result.task_id}")
        return self._queue.tasks[result.task_id]

    def _apply(self, result: TaskResult, body: dict[str, Any]) -> None:
        if body.get("status") is None:
            rejected = {"verdict": Verdict.REJECTED} if result.lease_id and self._leases else {}
            raise ApiError(500, "The status of a TaskResult is missing", **rejected)
        self._queue.apply(result)
        self.results.append(body)
