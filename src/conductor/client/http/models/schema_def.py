"""The shape of a task's or workflow's input or output."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent


class SchemaType(StrEnum):
    """The language a schema is written in."""

    JSON = "JSON"
    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"


def _first() -> int:
    return 1


def _json() -> str:
    return SchemaType.JSON.value


class SchemaDef(Model, kw_only=True):
    """A named, versioned schema. `data` holds it, or `external_ref` says where it is."""

    name: OrDefault[str] = sent(str)
    version: OrDefault[int] = sent(_first)
    #: One of `SchemaType`.
    type: OrDefault[str] = sent(_json)
    data: dict[str, Any] | None = None
    external_ref: str | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
