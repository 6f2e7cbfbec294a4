"""A run of a workflow with made-up outputs."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.workflow_def import WorkflowDef


def _completed() -> str:
    return "COMPLETED"


class TaskMock(Model):
    """How one attempt at a task shall end: its status and output, and how long it is said to have taken (ms)."""

    status: OrDefault[str] = sent(_completed)
    output: dict[str, Any] | None = None
    execution_time: OrDefault[int] = sent(int)
    queue_wait_time: OrDefault[int] = sent(int)


class WorkflowTestRequest(Model, kw_only=True):
    """Which workflow to run, and how its tasks shall end: reference name to one `TaskMock` for each attempt."""

    name: str | None = None
    version: int | None = None
    correlation_id: str | None = None
    created_by: str | None = None
    external_input_payload_storage_path: str | None = None
    input: dict[str, Any] | None = None
    priority: int | None = None
    sub_workflow_test_request: dict[str, WorkflowTestRequest] | None = None
    task_ref_to_mock_output: dict[str, list[TaskMock]] | None = None
    task_to_domain: dict[str, str] | None = None
    workflow_def: WorkflowDef | None = None
