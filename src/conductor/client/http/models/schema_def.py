"""Schemas of inputs and outputs."""

from enum import StrEnum

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.protocol.json_types import JsonObject


class SchemaType(StrEnum):
    """The language of a schema."""

    JSON = "JSON"
    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"


class SchemaDef(Model, kw_only=True):
    """A named, versioned schema. `data` contains it, or `external_ref` is its address."""

    name: OrDefault[str] = sent_default(str)
    version: OrDefault[int] = sent_default(1)
    #: A name of `SchemaType`.
    type: OrDefault[str] = sent_default(SchemaType.JSON.value)
    data: JsonObject | None = None
    external_ref: str | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
