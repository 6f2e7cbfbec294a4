"""The wish to change a model of a provider."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model


class Frequency(StrEnum):
    """How often a limit starts anew."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class IntegrationApiUpdate(Model, kw_only=True):
    """What a model of a provider shall be."""

    configuration: dict[str, Any] | None = None
    description: str | None = None
    enabled: bool | None = None
    max_tokens: int | None = None
    frequency: Frequency | None = None
