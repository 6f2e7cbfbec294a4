from typing import Any

from conductor.client.http.models.model import Model


class IntegrationUpdate(Model, kw_only=True):
    """New settings for a provider."""

    category: str | None = None
    configuration: dict[str, Any] | None = None
    description: str | None = None
    enabled: bool | None = None
    type: str | None = None
