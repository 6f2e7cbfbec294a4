"""What a worker reports about a task."""

from __future__ import annotations

from typing import Any

from msgspec import field

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result_status import TaskResultStatus


def _completed() -> TaskResultStatus:
    return TaskResultStatus.COMPLETED


class TaskResult(Model):
    """The outcome of one execution. A worker function may return one to say more than its output."""

    workflow_instance_id: OrDefault[str] = sent(str)
    task_id: OrDefault[str] = sent(str)
    reason_for_incompletion: str | None = None
    #: With IN_PROGRESS: how long the server waits before it hands the task out again.
    callback_after_seconds: OrDefault[int] = 0
    worker_id: str | None = None
    #: COMPLETED unless said otherwise; the name as a plain string is accepted too.
    status: OrDefault[TaskResultStatus] = sent(_completed)
    output_data: OrDefault[dict[str, Any]] = field(default_factory=dict)
    logs: OrDefault[list[TaskExecLog]] = field(default_factory=list)
    external_output_payload_storage_path: str | None = None
    sub_workflow_id: str | None = None
    #: True makes this a heartbeat: the lease is extended. A coordinator keeps the logs and output that come with it, a
    #: plain server ignores them.
    extend_lease: OrDefault[bool] = False
    #: The lease this report consumes, as granted with the polled task.
    lease_id: str | None = None
    #: Names this report, so that the same one sent twice is recognised.
    report_id: str | None = None
    #: Another name for `output_data` when one is made: it is moved there, and never travels.
    output: dict[str, Any] | None = field(default=None, name="output, in Python only")
    #: With FAILED, for a coordinator: the worker stopped the task at its timeout, so the task's timeout policy decides.
    timed_out: bool | None = None
    #: With IN_PROGRESS, for a coordinator: the function was not called, so this delivery does not count.
    never_started: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is not None:
            if self.output_data:
                raise ValueError("a TaskResult takes output_data or output, which is the same, but not both")
            self.output_data, self.output = self.output, None
        if type(self.status) is not TaskResultStatus:
            self.status = _status_named(self.status)

    @staticmethod
    def complete() -> TaskResult:
        """A result that says COMPLETED."""
        return TaskResult()

    @staticmethod
    def failed(failure_reason: str | None = None) -> TaskResult:
        """A result that says FAILED, and why."""
        return TaskResult(status=TaskResultStatus.FAILED, reason_for_incompletion=failure_reason)

    @staticmethod
    def in_progress() -> TaskResult:
        """A result that hands the task back; set `callback_after_seconds` to say for how long."""
        return TaskResult(status=TaskResultStatus.IN_PROGRESS)

    @staticmethod
    def new_task_result(status: TaskResultStatus) -> TaskResult:
        """A result that says so."""
        return TaskResult(status=status)

    def add_output_data(self, key: str, value: Any) -> TaskResult:
        """Set one value of the output."""
        self.output_data[key] = value
        return self

    def log(self, text: str) -> TaskResult:
        """Add a line to the task's log."""
        self.logs.append(TaskExecLog(log=text, task_id=self.task_id or None))
        return self


def _status_named(name: str) -> TaskResultStatus:
    try:
        return TaskResultStatus(name)
    except ValueError:
        known = ", ".join(TaskResultStatus)
        raise ValueError(f"{name!r} is not a status a task result can have; use one of {known}") from None
