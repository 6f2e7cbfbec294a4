"""The API client under its name in conductor-python."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient


class ApiClient(AsyncApiClient):
    """The connections and the access token of one server, for `TaskResourceApi` and the blocking clients.

    Args:
        configuration: The server; read from the environment by default.
        metrics_collector: A `MetricsCollector` that counts the requests.
    """

    def __init__(self, configuration: Configuration | None = None, *, metrics_collector: Any | None = None) -> None:
        super().__init__(configuration or Configuration(), metrics_collector=metrics_collector)
