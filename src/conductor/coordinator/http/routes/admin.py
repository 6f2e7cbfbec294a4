"""Health and version."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.protocol.wire import FEATURES_HEADER, SERVER_FEATURES
from conductor.version import __version__


async def health(request: Request) -> Answer:
    """GET /health: 200 while the database can be written, 503 with the reason otherwise."""
    problem = await request.core.probe.problem()
    if problem is not None:
        return as_json(_health([{"message": problem}], healthy=False), status=503)
    return as_json(_health([], healthy=True))


def _health(results: list[dict[str, str]], *, healthy: bool) -> dict[str, Any]:
    return {"healthy": healthy, "healthResults": results, "suppressedHealthResults": []}


async def version(_request: Request) -> Answer:
    """GET /version: the version of this server. Its header Conductor-Features lists what a coordinator adds."""
    return as_text(__version__, (FEATURES_HEADER, SERVER_FEATURES))


async def docs(_request: Request) -> Answer:
    """GET /api-docs: OpenAPI."""
    # Drawn when it is asked for: the models of all answers are not loaded for anything else.
    from conductor.coordinator.http.api_docs import api_docs
    from conductor.coordinator.http.routes import ROUTES as ALL

    return as_json(api_docs(ALL))


ROUTES = [
    Route("GET", "/api-docs", docs, public=True),
    Route("GET", "/health", health, public=True),
    Route("GET", "/api/health", health, public=True),
    Route("GET", "/api/version", version),
]
