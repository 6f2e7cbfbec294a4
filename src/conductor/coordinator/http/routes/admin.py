"""Health, version and the OpenAPI document."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.protocol.wire import FEATURES_HEADER, SERVER_FEATURES
from conductor.version import __version__


async def get_health(request: ApiRequest) -> Answer:
    """GET /health: return whether the database is writable (200) or why not (503), and the replica's state."""
    core = request.core
    problem, replication = await core.probe.find_problem(), await core.read_replication()
    results = [] if problem is None else [{"message": problem}]
    body: dict[str, Any] = {"healthy": problem is None, "healthResults": results, "suppressedHealthResults": []}
    if replication is not None:
        # The route needs no token, so the URL of the replica is left out.
        state = msgspec.to_builtins(replication)
        body["replication"] = {name: value for name, value in state.items() if name != "url"}
    return as_json(body, status=200 if problem is None else 503)


async def get_ready(request: ApiRequest) -> Answer:
    """GET /ready: return 200 if the coordinator accepts work, otherwise 503 with the reason."""
    core = request.core
    problem = "the coordinator is shutting down" if core.is_draining else await core.probe.find_problem()
    return as_json({"ready": problem is None, "reason": problem}, status=200 if problem is None else 503)


async def get_version(_request: ApiRequest) -> Answer:
    """GET /version: return the version; the header Conductor-Features lists the coordinator's additions."""
    return as_text(__version__, (FEATURES_HEADER, SERVER_FEATURES))


async def get_api_docs(_request: ApiRequest) -> Answer:
    """GET /api-docs: return the OpenAPI document."""
    return _make_api_docs()


@functools.cache
def _make_api_docs() -> Answer:
    """Return the OpenAPI document, made once, because that takes 15 ms and clients need no key to request it."""
    # Imported on demand: only this document needs the models of all answers.
    from conductor.coordinator.http.api_docs import make_api_docs
    from conductor.coordinator.http.routes import ROUTES as ALL

    return as_json(make_api_docs(ALL))


ROUTES = [
    Route("GET", "/api-docs", get_api_docs, Access.PUBLIC),
    Route("GET", "/health", get_health, Access.PUBLIC),
    Route("GET", "/api/health", get_health, Access.PUBLIC),
    Route("GET", "/api/version", get_version, Access.ANY_KEY),
    Route("GET", "/ready", get_ready, Access.PUBLIC),
    Route("GET", "/api/ready", get_ready, Access.PUBLIC),
]
