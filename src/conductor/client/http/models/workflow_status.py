from typing import Any

from conductor.client.http.models.base_workflow import BaseWorkflow


class WorkflowStatus(BaseWorkflow, kw_only=True):
    """The status of a workflow, without its tasks."""

    output: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
