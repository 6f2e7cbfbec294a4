"""`IntegrationClient` under its name in conductor-python."""

from conductor.client.integration_client import IntegrationClient as OrkesIntegrationClient

__all__ = ["OrkesIntegrationClient"]
