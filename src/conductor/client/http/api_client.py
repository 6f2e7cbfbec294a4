"""The API client under the name that programs without async use."""

from __future__ import annotations

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient


class ApiClient(AsyncApiClient):
    """What `TaskResourceApi` and the blocking clients stand on: connections and access token of one server."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration or Configuration())
