"""Schemas of inputs and outputs, on servers that keep them."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_schema_resource_api import AsyncSchemaResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncSchemaClient(AsyncSchemaResourceApi):
    """Schemas on a server.

    async with AsyncSchemaClient(Configuration()) as schemas:
        schema = await schemas.get_schema("greet_input", 1)
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class SchemaClient(SyncClient[AsyncSchemaClient]):
    """Schemas on a server, for code without an event loop.

    with SchemaClient(Configuration()) as schemas:
        schema = schemas.get_schema("greet_input", 1)
    """

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncSchemaClient(configuration))

    register_schema = blocking(AsyncSchemaClient.register_schema)
    get_schema = blocking(AsyncSchemaClient.get_schema)
    get_all_schemas = blocking(AsyncSchemaClient.get_all_schemas)
    delete_schema = blocking(AsyncSchemaClient.delete_schema)
    delete_schema_by_name = blocking(AsyncSchemaClient.delete_schema_by_name)
