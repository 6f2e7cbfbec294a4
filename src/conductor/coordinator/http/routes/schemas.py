"""JSON schemas of task inputs and outputs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from conductor.coordinator.audit import Action
from conductor.coordinator.definitions import json_schemas
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.request import ApiRequest, read_json, whole_number
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import invalid, not_found
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject


class SchemaKey(msgspec.Struct):
    """Name and version of a schema."""

    name: Annotated[str, Meta(min_length=1)]
    version: Annotated[int, Meta(ge=0, lt=2**31)] = 1


async def register(request: ApiRequest) -> Answer:
    """POST /schema: create or replace one schema, or each of an array."""
    many = request.body.lstrip().startswith(b"[")
    found = request.json(list[JsonObject]) if many else [request.json(JsonObject)]
    keys = [read_json(msgspec.json.encode(schema), SchemaKey) for schema in found]
    await request.offload_if_large(lambda: _check_schemas(found, keys))

    def put_all(tx: Tx) -> None:
        for schema, key in zip(found, keys, strict=True):
            json_schemas.put_schema(tx, key.name, key.version, schema)
            request.audit(tx, Action.REGISTER_SCHEMA, f"{key.name} version {key.version}")

    await request.write(put_all)
    return DONE


def _check_schemas(found: list[JsonObject], keys: list[SchemaKey]) -> None:
    problems = [
        (f"schema.{key.name}", f"schema {key.name} cannot be used: {wrong}")
        for schema, key in zip(found, keys, strict=True)
        if schema.get("type") in (None, "JSON") and (wrong := json_schemas.find_schema_problem(schema)) is not None
    ]
    if problems:
        raise invalid(problems)


async def list_schemas(request: ApiRequest) -> Answer:
    """GET /schema: return all schemas."""
    return as_json(await request.reader.read(json_schemas.all_schemas))


async def get_schema(request: ApiRequest) -> Answer:
    """GET /schema/{name}[/{version}]: return a version of a schema, or the latest."""
    name, version = _read_key(request)
    found = await request.reader.read(lambda tx: json_schemas.get_schema(tx, name, version))
    if found is None:
        raise not_found(f"No such schema: {name}" + ("" if version is None else f" version {version}"))
    return as_json(found)


async def remove_schema(request: ApiRequest) -> Answer:
    """DELETE /schema/{name}[/{version}]: delete a version of a schema, or all versions."""
    name, version = _read_key(request)

    def remove(tx: Tx) -> None:
        if not json_schemas.drop_schema(tx, name, version):
            raise not_found(f"No such schema: {name}")
        request.audit(tx, Action.DELETE_SCHEMA, name if version is None else f"{name} version {version}")

    await request.write(remove)
    return DONE


def _read_key(request: ApiRequest) -> tuple[str, int | None]:
    version = request.params.get("version")
    return request.params["name"], None if version is None else whole_number("a version", version)


ROUTES = [
    Route("POST", "/api/schema", register, Access.ADMIN, body=SchemaKey | list[SchemaKey]),
    Route("GET", "/api/schema", list_schemas, Access.READ),
    Route("GET", "/api/schema/{name}", get_schema, Access.READ),
    Route("GET", "/api/schema/{name}/{version}", get_schema, Access.READ),
    Route("DELETE", "/api/schema/{name}", remove_schema, Access.ADMIN),
    Route("DELETE", "/api/schema/{name}/{version}", remove_schema, Access.ADMIN),
]
