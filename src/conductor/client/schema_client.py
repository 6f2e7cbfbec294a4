"""Schemas of inputs and outputs. On a server without schemas every call raises `NotFoundException`."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint

__all__ = ["AsyncSchemaClient", "SchemaClient"]


class SchemaOperations(Operations):
    """The operations of `AsyncSchemaClient` and `SchemaClient`."""

    @endpoint("POST", "/schema", body="schema")
    async def register_schema(self, schema: SchemaDef) -> None:
        """Create a schema, or replace the one with the same name and version."""

    @endpoint("GET", "/schema/{name}/{version}", schema_name="name")
    async def get_schema(self, schema_name: str, version: int) -> SchemaDef:
        """Return one version of a schema."""

    @endpoint("GET", "/schema")
    async def get_all_schemas(self) -> list[SchemaDef]:
        """Return all schemas."""

    @endpoint("DELETE", "/schema/{name}/{version}", schema_name="name")
    async def delete_schema(self, schema_name: str, version: int) -> None:
        """Delete one version of a schema."""

    @endpoint("DELETE", "/schema/{name}", schema_name="name")
    async def delete_schema_by_name(self, schema_name: str) -> None:
        """Delete all versions of a schema."""


class AsyncSchemaClient(SchemaOperations, AsyncClient):
    """Schemas on a server, for async code.

    Example:
        async with AsyncSchemaClient(Configuration()) as schemas:
            schema = await schemas.get_schema("greet_input", 1)
    """


class SchemaClient(SchemaOperations, SyncClient[AsyncSchemaClient]):
    """Schemas on a server.

    Example:
        with SchemaClient(Configuration()) as schemas:
            schema = schemas.get_schema("greet_input", 1)
    """

    async_class = AsyncSchemaClient
