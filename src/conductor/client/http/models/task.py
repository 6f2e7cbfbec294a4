from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.protocol.json_types import JsonObject
from conductor.protocol.steps import Step


class Task(Model, kw_only=True):
    """An attempt of a task. Times are epoch milliseconds; 0 means not yet."""

    task_id: OrDefault[str] = sent_default(str)
    task_type: OrDefault[str] = sent_default(str)
    task_def_name: OrDefault[str] = sent_default(str)
    #: SCHEDULED, IN_PROGRESS, COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, CANCELED, TIMED_OUT, …
    status: OrDefault[str] = sent_default(str)
    reference_task_name: OrDefault[str] = sent_default(str)
    workflow_instance_id: OrDefault[str] = sent_default(str)
    workflow_type: str | None = None
    input_data: OrDefault[JsonObject] = sent_default(dict)
    output_data: OrDefault[JsonObject] = sent_default(dict)
    #: 0 for the first attempt.
    retry_count: OrDefault[int] = sent_default(int)
    #: How often the server has delivered the task to a worker, including this delivery.
    poll_count: OrDefault[int] = sent_default(int)
    seq: OrDefault[int] = sent_default(int)
    iteration: OrDefault[int] = sent_default(int)
    correlation_id: str | None = None
    domain: str | None = None
    worker_id: str | None = None
    scheduled_time: OrDefault[int] = sent_default(int)
    start_time: OrDefault[int] = sent_default(int)
    end_time: OrDefault[int] = sent_default(int)
    update_time: OrDefault[int] = sent_default(int)
    first_start_time: OrDefault[int] = sent_default(int)
    queue_wait_time: OrDefault[int] = sent_default(int)
    start_delay_in_seconds: OrDefault[int] = sent_default(int)
    #: The longest time between two reports of the worker; 0 means unknown.
    response_timeout_seconds: OrDefault[int] = sent_default(int)
    callback_after_seconds: OrDefault[int] = sent_default(int)
    callback_from_worker: OrDefault[bool] = sent_default(True)
    workflow_priority: OrDefault[int] = sent_default(int)
    rate_limit_per_frequency: OrDefault[int] = sent_default(int)
    rate_limit_frequency_in_seconds: OrDefault[int] = sent_default(int)
    #: The id of the attempt that this attempt retries.
    retried_task_id: str | None = None
    retried: OrDefault[bool] = sent_default(bool)
    executed: OrDefault[bool] = sent_default(bool)
    reason_for_incompletion: str | None = None
    task_definition: TaskDef | None = None
    workflow_task: WorkflowTask | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    execution_name_space: str | None = None
    isolation_group_id: str | None = None
    sub_workflow_id: str | None = None
    subworkflow_changed: OrDefault[bool] = sent_default(bool)
    parent_task_id: str | None = None
    loop_over_task: OrDefault[bool] = sent_default(bool)
    execution_metadata: JsonObject | None = None
    runtime_metadata: JsonObject | None = None
    #: The lease of the worker, on servers that grant leases.
    lease_id: str | None = None
    lease_expires_at: int | None = None
    #: The durable steps of this task and of its earlier attempts, on a coordinator. If they are too large for the
    #: answer to a poll, `steps_omitted` is True.
    steps: list[Step] | None = None
    #: On a coordinator: whether a task with durable steps waits, without a worker.
    suspended: bool | None = None
    steps_omitted: bool | None = None
    #: The trace of the workflow, on servers that propagate traces.
    traceparent: str | None = None

    def to_task_result(self, status: TaskResultStatus = TaskResultStatus.COMPLETED) -> TaskResult:
        """Return a result for this task, without output."""
        return TaskResult(
            task_id=self.task_id,
            workflow_instance_id=self.workflow_instance_id,
            worker_id=self.worker_id,
            status=status,
            lease_id=self.lease_id,
        )
