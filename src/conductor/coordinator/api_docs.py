"""The OpenAPI document: drawn from the table of routes, so that it cannot be out of date."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from conductor.coordinator.app import Route
from conductor.version import __version__

_NAME = re.compile(r"\{(\w+)\}")
_ERROR = {"description": "Conductor's error body", "content": {"application/json": {"schema": {"type": "object"}}}}


def api_docs(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    known = list(routes)
    with_body = [index for index, route in enumerate(known) if route.body is not None]
    schemas, components = msgspec.json.schema_components(
        [known[index].body for index in with_body], ref_template="#/components/schemas/{name}"
    )
    bodies = dict(zip(with_body, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for index, route in enumerate(known):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, bodies.get(index))
    info = {"title": "conductor-worker coordinator", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}


def _operation(route: Route, body: dict[str, Any] | None) -> dict[str, Any]:
    operation: dict[str, Any] = {
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
        "responses": {"200": {"description": "done"}, "204": {"description": "nothing"}, "4XX": _ERROR},
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation
