from typing import Any

from conductor.client.http.models.model import Model


class RerunWorkflowRequest(Model, kw_only=True):
    """Run an ended workflow again from a task, or from its start without `re_run_from_task_id`."""

    re_run_from_workflow_id: str | None = None
    workflow_input: dict[str, Any] | None = None
    re_run_from_task_id: str | None = None
    task_input: dict[str, Any] | None = None
    correlation_id: str | None = None
