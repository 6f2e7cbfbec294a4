"""`SecretClient` under its name in conductor-python."""

from conductor.client.secret_client import SecretClient as OrkesSecretClient

__all__ = ["OrkesSecretClient"]
