"""`/schema`: schemas of inputs and outputs. Not every server has it: `NotFoundException` for every call says so."""

from __future__ import annotations

from conductor.client.http.api.async_resource_api import AsyncResourceApi
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.models.schema_def import SchemaDef

_SCHEMA = "/schema/{name}/{version}"


class AsyncSchemaResourceApi(AsyncResourceApi):
    """The endpoints of schemas."""

    async def register_schema(self, schema: SchemaDef) -> None:
        """Create a schema, or replace the one of that name and version."""
        await self.api_client.call_for(str, "POST", "/schema", body=schema.encode())

    async def get_schema(self, schema_name: str, version: int) -> SchemaDef:
        """Read one version of a schema."""
        path = f"/schema/{quote_segment(schema_name)}/{version}"
        return await self.api_client.call_for(SchemaDef, "GET", path, template=_SCHEMA)

    async def get_all_schemas(self) -> list[SchemaDef]:
        """Read every schema."""
        return await self.api_client.call_for(list[SchemaDef], "GET", "/schema")

    async def delete_schema(self, schema_name: str, version: int) -> None:
        """Delete one version of a schema."""
        path = f"/schema/{quote_segment(schema_name)}/{version}"
        await self.api_client.call_for(str, "DELETE", path, template=_SCHEMA)

    async def delete_schema_by_name(self, schema_name: str) -> None:
        """Delete every version of a schema."""
        await self.api_client.call_for(
            str, "DELETE", f"/schema/{quote_segment(schema_name)}", template="/schema/{name}"
        )
