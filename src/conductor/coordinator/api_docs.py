"""The OpenAPI document: drawn from the table of routes, so that it cannot be out of date."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from conductor.coordinator.app import Route
from conductor.version import __version__

_NAME = re.compile(r"\{(\w+)\}")
_ERROR = {"description": "Conductor's error body", "content": {"application/json": {"schema": {"type": "object"}}}}


def api_docs(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3 of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    info = {"title": "conductor-worker coordinator", "version": __version__}
    return {"openapi": "3.0.3", "info": info, "paths": paths}


def _operation(route: Route) -> dict[str, Any]:
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
    if route.method in ("POST", "PUT"):
        operation["requestBody"] = {"content": {"application/json": {"schema": {}}}}
    return operation
