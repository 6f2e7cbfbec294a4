"""How an execution of a workflow stands."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.workflow_state import WorkflowState


class WorkflowStatus(WorkflowState, kw_only=True):
    """How an execution stands, without its tasks."""

    output: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
