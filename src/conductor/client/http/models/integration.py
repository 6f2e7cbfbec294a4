from conductor.client.http.models.integration_api import IntegrationApi
from conductor.client.http.models.model import Model
from conductor.client.http.models.tag_object import TagObject
from conductor.protocol.json_types import JsonObject


class Integration(Model, kw_only=True):
    """A provider that a server uses: language models, vector databases, queues."""

    category: str | None = None
    configuration: JsonObject | None = None
    created_by: str | None = None
    created_on: int | None = None
    description: str | None = None
    enabled: bool | None = None
    models_count: int | None = None
    name: str | None = None
    tags: list[TagObject] | None = None
    type: str | None = None
    updated_by: str | None = None
    updated_on: int | None = None
    apis: list[IntegrationApi] | None = None
