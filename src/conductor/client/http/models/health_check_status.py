from conductor.client.http.models.health import Health
from conductor.client.http.models.model import Model


class HealthCheckStatus(Model, kw_only=True):
    """The health of a server, part by part."""

    health_results: list[Health] | None = None
    suppressed_health_results: list[Health] | None = None
    healthy: bool | None = None
