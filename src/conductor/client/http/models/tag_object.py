"""A tag on something that a server keeps."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model


class TypeEnum(StrEnum):
    """What a tag is for."""

    METADATA = "METADATA"
    RATE_LIMIT = "RATE_LIMIT"


class TagObject(Model):
    """A tag: a key, what it is for, and a value."""

    key: str | None = None
    type: str | None = None
    value: Any = None
