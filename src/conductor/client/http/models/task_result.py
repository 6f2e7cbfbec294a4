"""What a worker reports about a task."""

from __future__ import annotations

from typing import Any

from msgspec import field

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result_status import TaskResultStatus


def _completed() -> TaskResultStatus:
    return TaskResultStatus.COMPLETED


class TaskResult(Model, kw_only=True):
    """The outcome of one execution. A worker function may return one to say more than its output."""

    task_id: OrDefault[str] = sent(str)
    workflow_instance_id: OrDefault[str] = sent(str)
    worker_id: str | None = None
    #: COMPLETED unless said otherwise; the name as a plain string is accepted too.
    status: OrDefault[TaskResultStatus] = sent(_completed)
    output_data: OrDefault[dict[str, Any]] = field(default_factory=dict)
    reason_for_incompletion: str | None = None
    #: With IN_PROGRESS: how long the server waits before it hands the task out again.
    callback_after_seconds: OrDefault[int] = 0
    logs: OrDefault[list[TaskExecLog]] = field(default_factory=list)
    #: True makes this a heartbeat: the lease is extended and all the rest is ignored.
    extend_lease: OrDefault[bool] = False
    sub_workflow_id: str | None = None
    external_output_payload_storage_path: str | None = None
    #: The lease this report consumes, as granted with the polled task.
    lease_id: str | None = None
    #: Names this report, so that the same one sent twice is recognised.
    report_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.status) is not TaskResultStatus:
            self.status = _status_named(self.status)

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
