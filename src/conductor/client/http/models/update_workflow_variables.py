from typing import Any

from conductor.client.http.models.model import Model


class UpdateWorkflowVariables(Model, kw_only=True):
    """Variables of a workflow that an event handler sets. `append_array` appends to lists."""

    workflow_id: str | None = None
    variables: dict[str, Any] | None = None
    append_array: bool | None = None
