"""The wish to change a provider."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model


class IntegrationUpdate(Model, kw_only=True):
    """What a provider shall be."""

    category: str | None = None
    configuration: dict[str, Any] | None = None
    description: str | None = None
    enabled: bool | None = None
    type: str | None = None
