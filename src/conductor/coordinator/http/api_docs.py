"""The OpenAPI document: drawn from the table of routes, so that it cannot be out of date. Clients can be made of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from conductor.coordinator.http.documented_answers import ANSWERS, Nothing, Text
from conductor.coordinator.http.routing import Route
from conductor.version import __version__

_NAME = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/"
_ERROR = {
    "description": "what is wrong, for people, and which fields are",
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


def api_docs(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    known = list(routes)
    answers, answered = _schemas({_key(route): ANSWERS.get(_key(route)) for route in known})
    bodies, sent = _schemas({_key(route): route.body for route in known})
    bodies, sent = _renamed(bodies, sent, answered)
    paths: dict[str, dict[str, Any]] = {}
    for route in known:
        operation = _operation(route, bodies.get(_key(route)), answers.get(_key(route)))
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "conductor-worker coordinator", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"ErrorResponse": _ERROR_SCHEMA, **answered, **sent},
            "securitySchemes": {"token": _TOKEN},
        },
        # A token is asked for only where the coordinator was given a key and a secret.
        "security": [{}, {"token": []}],
    }


def _key(route: Route) -> str:
    return f"{route.method} {route.path}"


def _schemas(types: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of each type, and those that they refer to."""
    wanted = {key: type_ for key, type_ in types.items() if type_ not in (None, Text, Nothing)}
    found, components = msgspec.json.schema_components(list(wanted.values()), ref_template=f"{_REF}{{name}}")
    return dict(zip(wanted, found, strict=True)), components


def _renamed(
    bodies: dict[str, Any], sent: dict[str, Any], answered: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sent under a name that something else is answered with gets another name."""
    text = msgspec.json.encode([bodies, sent]).decode()
    for name in sorted(set(sent) & set(answered)):
        if sent[name] != answered[name]:
            text = text.replace(f'"{_REF}{name}"', f'"{_REF}{name}Request"')
    bodies, renamed = msgspec.json.decode(text)
    changed = {name for name in sent if name in answered and sent[name] != answered[name]}
    return bodies, {f"{name}Request" if name in changed else name: schema for name, schema in renamed.items()}


def _operation(route: Route, body: dict[str, Any] | None, answer: dict[str, Any] | None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route.method, route.path),
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
        "responses": {**_answers(route, answer), "4XX": _ERROR, "5XX": _ERROR},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    elif route.text_body:
        operation["requestBody"] = {"required": True, "content": _TEXT}
    return operation


def _answers(route: Route, answer: dict[str, Any] | None) -> dict[str, Any]:
    if ANSWERS.get(_key(route)) is Nothing:
        return {"204": {"description": "done"}}
    done: dict[str, Any] = {"description": "done"}
    if answer is not None:
        done["content"] = {"application/json": {"schema": answer}}
    elif ANSWERS.get(_key(route)) is Text:
        done["content"] = _TEXT
    return {"200": done, "204": {"description": "there is nothing"}}


@cache
def _operation_id(method: str, path: str) -> str:
    """A name for a function: GET /api/workflow/{id}/tasks is getWorkflowByIdTasks."""
    words = [method.lower(), *([] if path.startswith("/api/") else ["Server"])]
    for segment in path.removeprefix("/api/").strip("/").split("/"):
        named = _NAME.fullmatch(segment)
        parts = re.split(r"[^A-Za-z0-9]+", named[1] if named else segment)
        words += ["By"] if named else []
        words += [part[:1].upper() + part[1:] for part in parts if part]
    return "".join(words)
