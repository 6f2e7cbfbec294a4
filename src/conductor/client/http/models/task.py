"""A task as the server hands it to a worker."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.http.models.workflow_task import WorkflowTask


def _true() -> bool:
    return True


class Task(Model, kw_only=True):
    """One execution of a step. Times are epoch milliseconds; 0 means not yet."""

    task_id: OrDefault[str] = sent(str)
    task_type: OrDefault[str] = sent(str)
    task_def_name: OrDefault[str] = sent(str)
    #: SCHEDULED, IN_PROGRESS, COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, CANCELED, TIMED_OUT, …
    status: OrDefault[str] = sent(str)
    reference_task_name: OrDefault[str] = sent(str)
    workflow_instance_id: OrDefault[str] = sent(str)
    workflow_type: str | None = None
    input_data: OrDefault[dict[str, Any]] = sent(dict)
    output_data: OrDefault[dict[str, Any]] = sent(dict)
    #: 0 for the first attempt.
    retry_count: OrDefault[int] = sent(int)
    #: 1 when the task is handed out for the first time.
    poll_count: OrDefault[int] = sent(int)
    seq: OrDefault[int] = sent(int)
    iteration: OrDefault[int] = sent(int)
    correlation_id: str | None = None
    domain: str | None = None
    worker_id: str | None = None
    scheduled_time: OrDefault[int] = sent(int)
    start_time: OrDefault[int] = sent(int)
    end_time: OrDefault[int] = sent(int)
    update_time: OrDefault[int] = sent(int)
    first_start_time: OrDefault[int] = sent(int)
    queue_wait_time: OrDefault[int] = sent(int)
    start_delay_in_seconds: OrDefault[int] = sent(int)
    #: How long the worker may be silent; 0 = not said.
    response_timeout_seconds: OrDefault[int] = sent(int)
    callback_after_seconds: OrDefault[int] = sent(int)
    callback_from_worker: OrDefault[bool] = sent(_true)
    workflow_priority: OrDefault[int] = sent(int)
    rate_limit_per_frequency: OrDefault[int] = sent(int)
    rate_limit_frequency_in_seconds: OrDefault[int] = sent(int)
    #: The attempt this one repeats.
    retried_task_id: str | None = None
    retried: OrDefault[bool] = sent(bool)
    executed: OrDefault[bool] = sent(bool)
    reason_for_incompletion: str | None = None
    task_definition: TaskDef | None = None
    workflow_task: WorkflowTask | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    execution_name_space: str | None = None
    isolation_group_id: str | None = None
    sub_workflow_id: str | None = None
    subworkflow_changed: OrDefault[bool] = sent(bool)
    parent_task_id: str | None = None
    loop_over_task: OrDefault[bool] = sent(bool)
    execution_metadata: dict[str, Any] | None = None
    runtime_metadata: dict[str, Any] | None = None
    #: The right to report on this task, where the server grants one.
    lease_id: str | None = None
    lease_expires_at: int | None = None
    #: The trace that its workflow belongs to, where the server carries one.
    traceparent: str | None = None

    def to_task_result(self, status: TaskResultStatus = TaskResultStatus.COMPLETED) -> TaskResult:
        """A report on this task, still without output."""
        return TaskResult(
            task_id=self.task_id,
            workflow_instance_id=self.workflow_instance_id,
            worker_id=self.worker_id,
            status=status,
            lease_id=self.lease_id,
        )
