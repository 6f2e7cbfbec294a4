"""An execution of a workflow as a search shows it."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent


class WorkflowSummary(Model, kw_only=True):
    """An execution as a search shows it: times are texts, input and output are cut."""

    workflow_id: OrDefault[str] = sent(str)
    workflow_type: OrDefault[str] = sent(str)
    version: OrDefault[int] = sent(int)
    status: OrDefault[str] = sent(str)
    correlation_id: str | None = None
    start_time: str | None = None
    update_time: str | None = None
    end_time: str | None = None
    input: str | None = None
    output: str | None = None
    reason_for_incompletion: str | None = None
    #: Milliseconds.
    execution_time: OrDefault[int] = sent(int)
    event: str | None = None
    failed_reference_task_names: str | None = None
    failed_task_names: list[str] | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    priority: OrDefault[int] = sent(int)
    created_by: str | None = None
    task_to_domain: dict[str, str] | None = None
    idempotency_key: str | None = None
    parent_workflow_id: str | None = None
    classifier: str | None = None
    #: Bytes.
    input_size: OrDefault[int] = sent(int)
    #: Bytes.
    output_size: OrDefault[int] = sent(int)
