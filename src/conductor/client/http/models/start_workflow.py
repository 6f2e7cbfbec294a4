from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class StartWorkflow(Model, kw_only=True):
    """A workflow that an event handler starts."""

    name: str | None = None
    version: int | None = None
    correlation_id: str | None = None
    input: JsonObject | None = None
    task_to_domain: dict[str, str] | None = None
