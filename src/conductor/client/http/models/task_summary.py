"""A task as a search shows it."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent


class TaskSummary(Model, kw_only=True):
    """A task as a search shows it: times are texts, input and output are cut."""

    task_id: OrDefault[str] = sent(str)
    task_type: OrDefault[str] = sent(str)
    task_def_name: OrDefault[str] = sent(str)
    status: OrDefault[str] = sent(str)
    workflow_id: OrDefault[str] = sent(str)
    workflow_type: str | None = None
    correlation_id: str | None = None
    scheduled_time: str | None = None
    start_time: str | None = None
    update_time: str | None = None
    end_time: str | None = None
    reason_for_incompletion: str | None = None
    #: Milliseconds.
    execution_time: OrDefault[int] = sent(int)
    #: Milliseconds.
    queue_wait_time: OrDefault[int] = sent(int)
    input: str | None = None
    output: str | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    workflow_priority: OrDefault[int] = sent(int)
    domain: str | None = None
