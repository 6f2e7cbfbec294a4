"""`AuthorizationClient` under its name in conductor-python."""

from conductor.client.authorization_client import AuthorizationClient as OrkesAuthorizationClient

__all__ = ["OrkesAuthorizationClient"]
