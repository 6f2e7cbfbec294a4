"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from conductor.coordinator.http.documented_answers import ANSWERS, NoBody, PlainText
from conductor.coordinator.http.routing import Route
from conductor.protocol.json_types import JsonObject
from conductor.version import __version__

_NAME = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/"
_ERROR = {
    "description": "The error. `validationErrors` lists the invalid fields.",
    "content": {"application/json": {"schema": {"$ref": f"{_REF}ErrorResponse"}}},
}
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["status", "message", "retryable"],
    "properties": {
        "status": {"type": "integer"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "error": {"type": "string"},
        "verdict": {"type": "string"},
        "validationErrors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_TOKEN = {"type": "apiKey", "in": "header", "name": "X-Authorization"}


def make_api_docs(routes: Iterable[Route]) -> JsonObject:
    """Return the OpenAPI 3.1 document of these routes."""
    known = list(routes)
    answers, answer_components = _make_schemas({_key(route): ANSWERS.get(_key(route)) for route in known})
    bodies, body_components = _make_schemas({_key(route): route.body for route in known})
    bodies, body_components = _rename_collisions(bodies, body_components, answer_components)
    paths: dict[str, JsonObject] = {}
    for route in known:
        operation = _make_operation(route, bodies.get(_key(route)), answers.get(_key(route)))
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "conductor-worker coordinator", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"ErrorResponse": _ERROR_SCHEMA, **answer_components, **body_components},
            "securitySchemes": {"token": _TOKEN},
        },
        # Requests need a token only if the coordinator has keys.
        "security": [{}, {"token": []}],
    }


def _key(route: Route) -> str:
    return f"{route.method} {route.path}"


def _make_schemas(types: dict[str, Any]) -> tuple[JsonObject, JsonObject]:
    """Return the schema of each type, and the components that these schemas refer to."""
    wanted = {key: type_ for key, type_ in types.items() if type_ not in (None, PlainText, NoBody)}
    found, components = msgspec.json.schema_components(list(wanted.values()), ref_template=f"{_REF}{{name}}")
    return dict(zip(wanted, found, strict=True)), components


def _rename_collisions(
    bodies: JsonObject, body_components: JsonObject, answer_components: JsonObject
) -> tuple[JsonObject, JsonObject]:
    """Return the bodies and their components with unique names.

    `Request` is appended to the name of each body schema that differs from the answer schema with that name.
    """
    collisions = {
        name
        for name, schema in body_components.items()
        if name in answer_components and schema != answer_components[name]
    }
    text = msgspec.json.encode([bodies, body_components]).decode()
    for name in sorted(collisions):
        text = text.replace(f'"{_REF}{name}"', f'"{_REF}{name}Request"')
    bodies, renamed = msgspec.json.decode(text)
    return bodies, {f"{name}Request" if name in collisions else name: schema for name, schema in renamed.items()}


def _make_operation(route: Route, body: JsonObject | None, answer: JsonObject | None) -> JsonObject:
    operation: JsonObject = {
        "operationId": _make_operation_id(route.method, route.path),
        "summary": (route.handler.__doc__ or route.path).strip().splitlines()[0],
        "tags": [route.path.split("/")[2] if route.path.startswith("/api/") else "health"],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _NAME.findall(route.path)
        ]
        + [
            {"name": name, "in": "query", "required": False, "schema": {"type": kind}}
            for name, kind in route.query.items()
        ],
        "responses": {**_make_answers(route, answer), "4XX": _ERROR, "5XX": _ERROR},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    elif route.text_body:
        operation["requestBody"] = {"required": True, "content": _TEXT}
    return operation


def _make_answers(route: Route, answer: JsonObject | None) -> JsonObject:
    if ANSWERS.get(_key(route)) is NoBody:
        return {"204": {"description": "Success."}}
    done: JsonObject = {"description": "Success."}
    if answer is not None:
        done["content"] = {"application/json": {"schema": answer}}
    elif ANSWERS.get(_key(route)) is PlainText:
        done["content"] = _TEXT
    return {"200": done, "204": {"description": "There is no content."}}


@cache
def _make_operation_id(method: str, path: str) -> str:
    """Return a function name: GET /api/workflow/{id}/tasks becomes getWorkflowByIdTasks."""
    words = [method.lower(), *([] if path.startswith("/api/") else ["Server"])]
    for segment in path.removeprefix("/api/").strip("/").split("/"):
        parameter = _NAME.fullmatch(segment)
        parts = re.split(r"[^A-Za-z0-9]+", parameter[1] if parameter else segment)
        words += ["By"] if parameter else []
        words += [part[:1].upper() + part[1:] for part in parts if part]
    return "".join(words)
