"""Reports of workers as they come over the wire, and their outcomes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from conductor.coordinator.request_errors import ApiError, invalid
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.statements import TASK_DATA
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.steps import MAX_STEPS_PER_TASK, Step, StepKey
from conductor.protocol.wire import MAX_REASON_CHARS, NEXT_TASK, Verdict

ReportedStatus = Literal["IN_PROGRESS", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "COMPLETED", "CANCELED"]


class LogLine(msgspec.Struct, rename="camel"):
    """A log line in a report. Some clients send the text as `message` instead of `log`."""

    log: str | None = None
    message: str | None = None
    created_time: Annotated[int, Meta(ge=0, lt=2**53)] | None = None


class Report(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Conductor's TaskResult, with the lease and report ids that this package's workers add."""

    task_id: str | None = None
    workflow_instance_id: str | None = None
    worker_id: str | None = None
    status: ReportedStatus | None = None
    output_data: dict[str, Any] | None = None
    reason_for_incompletion: str | None = None
    callback_after_seconds: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    logs: list[LogLine] | None = None
    extend_lease: bool | None = None
    sub_workflow_id: str | None = None
    lease_id: str | None = None
    report_id: str | None = None
    #: Whether the worker stopped the task because of its timeout, so that the timeout policy applies.
    timed_out: bool | None = None
    #: Whether the worker returns the task without having called its function, so that the delivery does not count.
    never_started: bool | None = None
    #: Durable steps to record.
    steps: Annotated[list[Step], Meta(max_length=MAX_STEPS_PER_TASK)] | None = None
    #: With IN_PROGRESS: the task waits until one of its steps stops waiting.
    suspended: bool | None = None
    #: With FAILED: the failed steps whose exceptions have ended the attempt. The next attempt runs them again.
    forget_steps: Annotated[list[StepKey], Meta(max_length=MAX_STEPS_PER_TASK)] | None = None

    def check(self) -> None:
        """Raise an ApiError if the report names no task or no workflow."""
        problems = []
        if not (self.workflow_instance_id or "").strip():
            problems.append(("updateTask.workflowInstanceId", "Workflow Id cannot be null or empty"))
        if not (self.task_id or "").strip():
            problems.append(("updateTask.taskId", "Task ID cannot be null or empty"))
        if problems:
            error = invalid(problems)
            error.verdict = Verdict.REJECTED
            raise error

    def key(self) -> str:
        """Return the id of the report, or a digest of its content if it has none."""
        if self.report_id:
            return self.report_id
        content = (self.status, self.output_data, self.reason_for_incompletion, self.callback_after_seconds)
        return "content:" + blake2b(msgspec.json.encode(content), digest_size=12).hexdigest()

    @property
    def reason(self) -> str | None:
        """The failure reason, truncated to `MAX_REASON_CHARS` as on Conductor."""
        text = self.reason_for_incompletion
        return None if text is None else text[:MAX_REASON_CHARS]


def report_on(
    tx: Tx, row: TaskRow, status: ReportedStatus, output: dict[str, Any], worker_id: str | None = None
) -> Report:
    """Return a report in the name of a client that is not the task's worker. Merge `output` into the stored output."""
    stored = tx.first(TASK_DATA, row.pk)
    return Report(
        task_id=tx.ids.task(row.pk),
        workflow_instance_id=tx.ids.workflow(row.workflow),
        worker_id=worker_id or row.worker_id,
        status=status,
        output_data={**msgspec.json.decode(stored.output or b"{}"), **output} if stored else output,
    )


class NewWait(NamedTuple):
    """A durable step that has begun to wait for a message or a workflow."""

    workflow: int
    task: int
    line: int
    step: Step


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a report or heartbeat."""

    task_id: str
    #: None for clients that use no leases.
    verdict: Verdict | None
    status: int = 200
    message: str | None = None
    lease_expires_ms: int | None = None
    #: The workflow whose next tasks must be decided.
    workflow: int | None = None
    #: The queue of the task, if the report ended the task. The worker's next task comes from this queue.
    ended_queue: int | None = None
    #: Whether a worker had polled the task that the report ended.
    was_polled: bool = True
    #: The timeout that the worker has reported, as a `task_queue.ExpiredTask`.
    expired: Any = None
    #: The error of an invalid report.
    error: ApiError | None = None
    #: Whether the same report was judged before.
    is_repeated: bool = False
    #: Whether the report has changed its task.
    is_stored: bool = False
    #: The task that the worker gets with this answer.
    next_task: dict[str, Any] | None = None
    #: The recorded steps of the task that have begun to wait for a message or a workflow.
    new_waits: tuple[NewWait, ...] = ()

    def wire(self) -> dict[str, Any]:
        """Return the outcome as an element of the answer to a batch of reports."""
        answer: dict[str, Any] = {"taskId": self.task_id, "verdict": self.verdict, "status": self.status}
        if self.message is not None:
            answer["message"] = self.message
        if self.lease_expires_ms is not None:
            answer["leaseExpiresAt"] = self.lease_expires_ms
        if self.next_task is not None:
            answer[NEXT_TASK] = self.next_task
        return answer

    def as_answer_to(self, report: Report) -> Outcome:
        """Return the outcome to send to the author of `report`.

        Conductor answers a late update with 200 and ignores it. Other SDKs repeat a rejected update for up to a minute.
        So a cancelled update without a lease id gets 200, and its verdict says that it had no effect.
        """
        is_late_update = report.lease_id is None and self.verdict is Verdict.CANCELLED
        return msgspec.structs.replace(self, status=200) if is_late_update else self

    def raise_for_verdict(self) -> None:
        """Raise the ApiError of an outcome that is not a success."""
        if self.error is not None:
            raise self.error
        if self.status >= 400:
            raise ApiError(self.status, self.message or "", verdict=self.verdict)
