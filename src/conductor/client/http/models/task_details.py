from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class TaskDetails(Model, kw_only=True):
    """A task that an event handler ends, and its output."""

    workflow_id: str | None = None
    task_ref_name: str | None = None
    output: JsonObject | None = None
    task_id: str | None = None
