"""Settings of a language model."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class Frequency(StrEnum):
    """How often a token limit is reset."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class IntegrationApiUpdate(Model, kw_only=True):
    """New settings for a language model of a provider."""

    configuration: JsonObject | None = None
    description: str | None = None
    enabled: bool | None = None
    max_tokens: int | None = None
    frequency: Frequency | None = None
