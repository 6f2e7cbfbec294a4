"""Settings of a language model."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model


class Frequency(StrEnum):
    """How often a token limit is reset."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class IntegrationApiUpdate(Model, kw_only=True):
    """New settings for a language model of a provider."""

    configuration: dict[str, Any] | None = None
    description: str | None = None
    enabled: bool | None = None
    max_tokens: int | None = None
    frequency: Frequency | None = None
