from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class IntegrationUpdate(Model, kw_only=True):
    """New settings for a provider."""

    category: str | None = None
    configuration: JsonObject | None = None
    description: str | None = None
    enabled: bool | None = None
    type: str | None = None
