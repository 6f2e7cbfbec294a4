from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class Health(Model, kw_only=True):
    """The health of one part of a server."""

    details: JsonObject | None = None
    error_message: str | None = None
    healthy: bool | None = None
