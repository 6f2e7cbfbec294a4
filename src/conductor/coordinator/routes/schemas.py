"""JSON schemas of task inputs and outputs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from conductor.coordinator import queries
from conductor.coordinator.app import DONE, Answer, Request, Route, as_json, read_json, whole_number
from conductor.coordinator.errors import not_found
from conductor.coordinator.store import Tx


class Named(msgspec.Struct):
    """What every schema must have."""

    name: Annotated[str, Meta(min_length=1)]
    version: Annotated[int, Meta(ge=0, lt=2**31)] = 1


async def register(request: Request) -> Answer:
    """POST /schema: one schema or an array; each is created or replaced."""
    many = request.body.lstrip().startswith(b"[")
    schemas = request.json(list[dict[str, Any]]) if many else [request.json(dict[str, Any])]
    named = [read_json(msgspec.json.encode(schema), Named) for schema in schemas]

    def put_all(tx: Tx) -> None:
        for schema, key in zip(schemas, named, strict=True):
            tx.run("set schema", key.name, key.version, msgspec.json.encode({**schema, "version": key.version}))

    await request.core.write(put_all)
    return DONE


async def everything(request: Request) -> Answer:
    """GET /schema: all of them."""
    return as_json(await request.core.read(lambda tx: queries.decoded(tx.rows("schemas"))))


async def get(request: Request) -> Answer:
    """GET /schema/{name}[/{version}]: that version, or the latest."""
    name, version = request.params["name"], request.params.get("version")
    if version is None:
        rows = await request.core.read(lambda tx: tx.rows("latest schema", name))
    else:
        number = whole_number("a version", version)
        rows = await request.core.read(lambda tx: tx.rows("schema", name, number))
    if not rows:
        raise not_found(f"No such schema: {name}" + (f" version {version}" if version else ""))
    return as_json(queries.decoded(rows)[0])


async def drop(request: Request) -> Answer:
    """DELETE /schema/{name}[/{version}]: that version, or all of them."""
    name, version = request.params["name"], request.params.get("version")
    if version is None:
        dropped = await request.core.write(lambda tx: tx.run("drop schemas", name))
    else:
        number = whole_number("a version", version)
        dropped = await request.core.write(lambda tx: tx.run("drop schema", name, number))
    if not dropped:
        raise not_found(f"No such schema: {name}")
    return DONE


ROUTES = [
    Route("POST", "/api/schema", register, body=Named | list[Named]),
    Route("GET", "/api/schema", everything),
    Route("GET", "/api/schema/{name}", get),
    Route("GET", "/api/schema/{name}/{version}", get),
    Route("DELETE", "/api/schema/{name}", drop),
    Route("DELETE", "/api/schema/{name}/{version}", drop),
]
