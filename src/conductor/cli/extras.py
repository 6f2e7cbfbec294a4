"""What comes with other extras than the command line's own; when it is missing, how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.cli.complaint import Complaint
from conductor.client.configuration.settings.metrics_settings import MetricsSettings

if TYPE_CHECKING:
    from conductor.coordinator import Coordinator


def coordinator_class() -> type[Coordinator]:
    """The coordinator, of the extra `server`."""
    try:
        from conductor.coordinator import Coordinator
    except ImportError as error:
        raise Complaint(f"the coordinator needs {error.name}: pip install 'conductor-worker[all]'") from None
    return Coordinator


def metrics_on(host: str, port: int) -> MetricsSettings:
    """Metrics over HTTP, of the extra `metrics`."""
    from conductor.client.telemetry.exposition import MetricsUnavailable, require_prometheus

    try:
        require_prometheus()
    except MetricsUnavailable as error:
        raise Complaint(error) from None
    return MetricsSettings(host=host, http_port=port)
