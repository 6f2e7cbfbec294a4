from conductor.client.http.models.model import Model
from conductor.client.http.models.tag_object import TagObject
from conductor.protocol.json_types import JsonObject


class IntegrationApi(Model, kw_only=True):
    """A language model, or another single API, of a provider."""

    api: str | None = None
    configuration: JsonObject | None = None
    created_by: str | None = None
    created_on: int | None = None
    description: str | None = None
    enabled: bool | None = None
    integration_name: str | None = None
    tags: list[TagObject] | None = None
    updated_by: str | None = None
    updated_on: int | None = None
