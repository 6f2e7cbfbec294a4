from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class IntegrationDef(Model, kw_only=True):
    """A kind of provider that a server supports, and its configuration fields."""

    category: str | None = None
    category_label: str | None = None
    configuration: list[JsonObject] | None = None
    description: str | None = None
    enabled: bool | None = None
    icon_name: str | None = None
    name: str | None = None
    tags: list[str] | None = None
    type: str | None = None
