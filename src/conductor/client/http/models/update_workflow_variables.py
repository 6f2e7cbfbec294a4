from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class UpdateWorkflowVariables(Model, kw_only=True):
    """Variables of a workflow that an event handler sets. `append_array` appends to lists."""

    workflow_id: str | None = None
    variables: JsonObject | None = None
    append_array: bool | None = None
