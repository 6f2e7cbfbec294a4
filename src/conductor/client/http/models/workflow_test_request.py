"""Test runs of a workflow without workers."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.protocol.json_types import JsonObject


class TaskMock(Model):
    """The result of one attempt of a task in a test run. Times are milliseconds."""

    status: OrDefault[str] = sent_default("COMPLETED")
    output: JsonObject | None = None
    execution_time: OrDefault[int] = sent_default(int)
    queue_wait_time: OrDefault[int] = sent_default(int)


class WorkflowTestRequest(Model, kw_only=True):
    """A workflow to test. `task_ref_to_mock_output` has one `TaskMock` for each attempt of a task."""

    name: str | None = None
    version: int | None = None
    correlation_id: str | None = None
    created_by: str | None = None
    external_input_payload_storage_path: str | None = None
    input: JsonObject | None = None
    priority: int | None = None
    sub_workflow_test_request: dict[str, WorkflowTestRequest] | None = None
    task_ref_to_mock_output: dict[str, list[TaskMock]] | None = None
    task_to_domain: dict[str, str] | None = None
    workflow_def: WorkflowDef | None = None
