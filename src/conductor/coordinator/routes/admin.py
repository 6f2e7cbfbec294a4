"""Health and version."""

from __future__ import annotations

from conductor.coordinator.api_docs import api_docs
from conductor.coordinator.app import Answer, Request, Route, as_json, as_text
from conductor.version import __version__


async def health(request: Request) -> Answer:
    """GET /health: 200 while the store answers."""
    await request.core.read(lambda tx: tx.value("secret"))
    return as_json({"healthy": True, "healthResults": [], "suppressedHealthResults": []})


async def version(_request: Request) -> Answer:
    """GET /version: the version of this server."""
    return as_text(__version__)


async def docs(_request: Request) -> Answer:
    """GET /api-docs: OpenAPI."""
    from conductor.coordinator.routes import ROUTES as ALL

    return as_json(api_docs(ALL))


ROUTES = [
    Route("GET", "/api-docs", docs, public=True),
    Route("GET", "/health", health, public=True),
    Route("GET", "/api/health", health, public=True),
    Route("GET", "/api/version", version),
]
