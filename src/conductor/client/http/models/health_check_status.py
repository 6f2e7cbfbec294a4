"""How a server is."""

from __future__ import annotations

from conductor.client.http.models.health import Health
from conductor.client.http.models.model import Model


class HealthCheckStatus(Model, kw_only=True):
    """How a server is, part by part."""

    health_results: list[Health] | None = None
    suppressed_health_results: list[Health] | None = None
    healthy: bool | None = None
