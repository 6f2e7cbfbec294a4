"""An event handler's order to set variables of an execution."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model


class UpdateWorkflowVariables(Model, kw_only=True):
    """Which variables of which execution are set; `append_array` adds to lists instead of replacing them."""

    workflow_id: str | None = None
    variables: dict[str, Any] | None = None
    append_array: bool | None = None
