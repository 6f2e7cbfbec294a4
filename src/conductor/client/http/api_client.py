"""The API client under the name that programs without async use."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient


class ApiClient(AsyncApiClient):
    """What `TaskResourceApi` and the blocking clients stand on: connections and access token of one server."""

    def __init__(self, configuration: Configuration | None = None, *, metrics_collector: Any | None = None) -> None:
        super().__init__(configuration or Configuration(), metrics_collector=metrics_collector)
