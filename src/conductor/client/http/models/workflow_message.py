from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class WorkflowMessage(Model, kw_only=True):
    """A message that was sent to a workflow."""

    id: str | None = None
    workflow_id: str | None = None
    payload: JsonObject | None = None
    received_at: str | None = None
