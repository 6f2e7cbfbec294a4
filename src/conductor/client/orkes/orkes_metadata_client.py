"""`MetadataClient` under its name in conductor-python."""

from conductor.client.metadata_client import MetadataClient as OrkesMetadataClient

__all__ = ["OrkesMetadataClient"]
