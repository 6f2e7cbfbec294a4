from typing import Any

from conductor.client.http.models.model import Model
from conductor.client.http.models.tag_object import TagObject


class IntegrationApi(Model, kw_only=True):
    """A language model, or another single API, of a provider."""

    api: str | None = None
    configuration: dict[str, Any] | None = None
    created_by: str | None = None
    created_on: int | None = None
    description: str | None = None
    enabled: bool | None = None
    integration_name: str | None = None
    tags: list[TagObject] | None = None
    updated_by: str | None = None
    updated_on: int | None = None
