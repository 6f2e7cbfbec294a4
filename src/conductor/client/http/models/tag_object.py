"""Tags."""

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model


class TypeEnum(StrEnum):
    """The purposes of a tag."""

    METADATA = "METADATA"
    RATE_LIMIT = "RATE_LIMIT"


class TagObject(Model):
    """A tag: a key, a type and a value."""

    key: str | None = None
    type: str | None = None
    value: Any = None
