"""Secrets that workflow definitions use, on servers that store them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint

__all__ = ["AsyncSecretClient", "SecretClient"]


class SecretOperations(Operations):
    """The operations of `AsyncSecretClient` and `SecretClient`."""

    only_on = "Conductor 3.32 and newer, in part, and Orkes Conductor"

    @endpoint("PUT", "/secrets/{key}", body="value", as_text=True)
    async def put_secret(self, key: str, value: str) -> None:
        """Store a secret."""

    @endpoint("GET", "/secrets/{key}")
    async def get_secret(self, key: str) -> str:
        """Return the value of a secret."""

    @endpoint("POST", "/secrets")
    async def list_all_secret_names(self) -> set[str]:
        """Return the names of all secrets."""

    @endpoint("GET", "/secrets")
    async def list_secrets_that_user_can_grant_access_to(self) -> list[str]:
        """Return the names of the secrets that this user may share."""

    @endpoint("DELETE", "/secrets/{key}")
    async def delete_secret(self, key: str) -> None:
        """Delete a secret."""

    @endpoint("GET", "/secrets/{key}/exists")
    async def secret_exists(self, key: str) -> bool:
        """Return whether there is a secret with this name."""

    @endpoint("PUT", "/secrets/{key}/tags", body="tags")
    async def set_secret_tags(self, tags: list[TagObject], key: str) -> None:
        """Replace the tags of a secret."""

    @endpoint("GET", "/secrets/{key}/tags")
    async def get_secret_tags(self, key: str) -> list[TagObject]:
        """Return the tags of a secret."""

    @endpoint("DELETE", "/secrets/{key}/tags", body="tags")
    async def delete_secret_tags(self, tags: list[TagObject], key: str) -> list[TagObject]:
        """Remove tags from a secret. Return the remaining tags."""


class AsyncSecretClient(SecretOperations, AsyncClient):
    """Secrets on a server, for async code."""


class SecretClient(SecretOperations, SyncClient[AsyncSecretClient]):
    """Secrets on a server.

    Example:
        with SecretClient(Configuration()) as secrets:
            secrets.put_secret("payment_key", "s3cr3t")
    """

    async_class = AsyncSecretClient
