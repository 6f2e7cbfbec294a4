from typing import Any

from conductor.client.http.models.workflow_state import WorkflowState


class WorkflowStatus(WorkflowState, kw_only=True):
    """The status of a workflow, without its tasks."""

    output: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
