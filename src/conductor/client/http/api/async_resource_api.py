"""What the typed resources have in common."""

from __future__ import annotations

from typing import Any, Self

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient


class AsyncResourceApi:
    """A part of the API over one `AsyncApiClient`. `async with` closes the client's connections at the end."""

    def __init__(self, api_client: AsyncApiClient) -> None:
        self.api_client = api_client

    async def close(self) -> None:
        """Close the connections, which other resources on the same client lose too."""
        await self.api_client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def api_client_of(server: Configuration | AsyncApiClient | None, http_client: Any | None = None) -> AsyncApiClient:
    """The client given, or a new one for that Configuration (the environment's when there is none)."""
    if isinstance(server, AsyncApiClient):
        return server
    return AsyncApiClient(server or Configuration(), http_client=http_client)
