from __future__ import annotations

from typing import Any

from msgspec import field

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.protocol.json_types import JsonObject
from conductor.protocol.steps import Step, StepKey


class TaskResult(Model):
    """The result of a task. A worker function may return one to report more than an output."""

    workflow_instance_id: OrDefault[str] = sent_default(str)
    task_id: OrDefault[str] = sent_default(str)
    reason_for_incompletion: str | None = None
    #: With IN_PROGRESS: how many seconds the server waits before it requeues the task.
    callback_after_seconds: OrDefault[int] = 0
    worker_id: str | None = None
    #: A `TaskResultStatus`, or its name.
    status: OrDefault[TaskResultStatus] = sent_default(TaskResultStatus.COMPLETED)
    output_data: OrDefault[JsonObject] = field(default_factory=dict)
    logs: OrDefault[list[TaskExecLog]] = field(default_factory=list)
    external_output_payload_storage_path: str | None = None
    sub_workflow_id: str | None = None
    #: True makes this a heartbeat that extends the lease. A coordinator stores its logs and output; a Conductor server
    #: ignores them.
    extend_lease: OrDefault[bool] = False
    #: The lease that was granted with the task.
    lease_id: str | None = None
    #: Identifies this report, so that the server recognises a repeated one.
    report_id: str | None = None
    #: Another name for `output_data`. It is moved there and never sent.
    output: JsonObject | None = field(default=None, name="output, in Python only")
    #: With FAILED: the worker stopped the task at its timeout, so a coordinator applies the timeout policy.
    timed_out: bool | None = None
    #: With IN_PROGRESS: the function was not called, so a coordinator does not count this poll in `poll_count`.
    never_started: bool | None = None
    #: Durable steps to record. With IN_PROGRESS, `suspended` makes the coordinator deliver the task again when one of
    #: the steps stops waiting. With FAILED, `forget_steps` names the failed steps that the next attempt runs again.
    steps: list[Step] | None = None
    suspended: bool | None = None
    forget_steps: list[StepKey] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is not None:
            if self.output_data:
                raise ValueError("a TaskResult takes output_data or output, which are the same field, but not both")
            self.output_data, self.output = self.output, None
        if type(self.status) is not TaskResultStatus:
            self.status = _status_named(self.status)

    @staticmethod
    def complete() -> TaskResult:
        """Return a result with the status COMPLETED."""
        return TaskResult()

    @staticmethod
    def failed(failure_reason: str | None = None) -> TaskResult:
        """Return a result with the status FAILED and its reason."""
        return TaskResult(status=TaskResultStatus.FAILED, reason_for_incompletion=failure_reason)

    @staticmethod
    def in_progress() -> TaskResult:
        """Return a result that requeues the task after its `callback_after_seconds`."""
        return TaskResult(status=TaskResultStatus.IN_PROGRESS)

    @staticmethod
    def new_task_result(status: TaskResultStatus) -> TaskResult:
        """Return a result with this status."""
        return TaskResult(status=status)

    def add_output_data(self, key: str, value: Any) -> TaskResult:
        """Set one value of the output, and return this result."""
        self.output_data[key] = value
        return self

    def log(self, text: str) -> TaskResult:
        """Add a line to the task's log, and return this result."""
        self.logs.append(TaskExecLog(log=text, task_id=self.task_id or None))
        return self


def _status_named(name: str) -> TaskResultStatus:
    try:
        return TaskResultStatus(name)
    except ValueError:
        known = ", ".join(TaskResultStatus)
        raise ValueError(f"{name!r} is not a status a task result can have; use one of {known}") from None
