"""Health, version and the OpenAPI document."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.protocol.wire import FEATURES_HEADER, SERVER_FEATURES
from conductor.version import __version__


async def get_health(request: ApiRequest) -> Answer:
    """GET /health: return 200 while the database is writable, otherwise 503 with the reason."""
    problem = await request.core.probe.find_problem()
    if problem is not None:
        return as_json(_health_body([{"message": problem}], healthy=False), status=503)
    return as_json(_health_body([], healthy=True))


def _health_body(results: list[dict[str, str]], *, healthy: bool) -> dict[str, Any]:
    return {"healthy": healthy, "healthResults": results, "suppressedHealthResults": []}


async def get_version(_request: ApiRequest) -> Answer:
    """GET /version: return the version; the header Conductor-Features lists the coordinator's additions."""
    return as_text(__version__, (FEATURES_HEADER, SERVER_FEATURES))


async def get_api_docs(_request: ApiRequest) -> Answer:
    """GET /api-docs: return the OpenAPI document."""
    # Imported on demand: only this document needs the models of all answers.
    from conductor.coordinator.http.api_docs import make_api_docs
    from conductor.coordinator.http.routes import ROUTES as ALL

    return as_json(make_api_docs(ALL))


ROUTES = [
    Route("GET", "/api-docs", get_api_docs, public=True),
    Route("GET", "/health", get_health, public=True),
    Route("GET", "/api/health", get_health, public=True),
    Route("GET", "/api/version", get_version),
]
