"""`SchemaClient` under its name in conductor-python."""

from conductor.client.schema_client import SchemaClient as OrkesSchemaClient

__all__ = ["OrkesSchemaClient"]
