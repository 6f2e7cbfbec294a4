from conductor.client.http.models.model import Model, OrDefault, sent_default


class WorkflowSummary(Model, kw_only=True):
    """A workflow in a search result. Times are texts; input and output are truncated."""

    workflow_id: OrDefault[str] = sent_default(str)
    workflow_type: OrDefault[str] = sent_default(str)
    version: OrDefault[int] = sent_default(int)
    status: OrDefault[str] = sent_default(str)
    correlation_id: str | None = None
    start_time: str | None = None
    update_time: str | None = None
    end_time: str | None = None
    input: str | None = None
    output: str | None = None
    reason_for_incompletion: str | None = None
    #: The duration in milliseconds.
    execution_time: OrDefault[int] = sent_default(int)
    event: str | None = None
    failed_reference_task_names: str | None = None
    failed_task_names: list[str] | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    priority: OrDefault[int] = sent_default(int)
    created_by: str | None = None
    task_to_domain: dict[str, str] | None = None
    idempotency_key: str | None = None
    parent_workflow_id: str | None = None
    classifier: str | None = None
    #: The size of the input in bytes.
    input_size: OrDefault[int] = sent_default(int)
    #: The size of the output in bytes.
    output_size: OrDefault[int] = sent_default(int)
