from typing import Any

from conductor.client.http.models.model import Model


class WorkflowMessage(Model, kw_only=True):
    """A message that was sent to a workflow."""

    id: str | None = None
    workflow_id: str | None = None
    payload: dict[str, Any] | None = None
    received_at: str | None = None
