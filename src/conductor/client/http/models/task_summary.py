from conductor.client.http.models.model import Model, OrDefault, sent_default


class TaskSummary(Model, kw_only=True):
    """A task in a search result. Times are texts; input and output are truncated."""

    task_id: OrDefault[str] = sent_default(str)
    task_type: OrDefault[str] = sent_default(str)
    task_def_name: OrDefault[str] = sent_default(str)
    status: OrDefault[str] = sent_default(str)
    workflow_id: OrDefault[str] = sent_default(str)
    workflow_type: str | None = None
    correlation_id: str | None = None
    scheduled_time: str | None = None
    start_time: str | None = None
    update_time: str | None = None
    end_time: str | None = None
    reason_for_incompletion: str | None = None
    #: The duration of the execution in milliseconds.
    execution_time: OrDefault[int] = sent_default(int)
    #: The wait in the queue in milliseconds.
    queue_wait_time: OrDefault[int] = sent_default(int)
    input: str | None = None
    output: str | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    workflow_priority: OrDefault[int] = sent_default(int)
    domain: str | None = None
