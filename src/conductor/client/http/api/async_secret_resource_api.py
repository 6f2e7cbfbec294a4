"""`/secrets`: what definitions may use and nobody shall read."""

from __future__ import annotations

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.models.tag_object import TagObject


class AsyncSecretResourceApi(OptionalResourceApi):
    """The endpoints of `/secrets`."""

    had_by = "Conductor 3.32 and newer, in part, and Orkes Conductor"

    async def put_secret(self, key: str, value: str) -> None:
        """Keep a secret."""
        await self._call(str, "PUT", "/secrets/{key}", key, text=value)

    async def get_secret(self, key: str) -> str:
        """Read a secret."""
        return await self._call(str, "GET", "/secrets/{key}", key)

    async def list_all_secret_names(self) -> set[str]:
        """The names of all secrets."""
        return await self._call(set[str], "POST", "/secrets", body={})

    async def list_secrets_that_user_can_grant_access_to(self) -> list[str]:
        """The names of the secrets that this user may share."""
        return await self._call(list[str], "GET", "/secrets")

    async def delete_secret(self, key: str) -> None:
        """Forget a secret."""
        await self._call(str, "DELETE", "/secrets/{key}", key)

    async def secret_exists(self, key: str) -> bool:
        """Whether there is such a secret."""
        return await self._call(bool, "GET", "/secrets/{key}/exists", key)

    async def set_secret_tags(self, tags: list[TagObject], key: str) -> None:
        """Replace a secret's tags."""
        await self._call(str, "PUT", "/secrets/{key}/tags", key, body=tags)

    async def get_secret_tags(self, key: str) -> list[TagObject]:
        """Read a secret's tags."""
        return await self._call(list[TagObject], "GET", "/secrets/{key}/tags", key)

    async def delete_secret_tags(self, tags: list[TagObject], key: str) -> list[TagObject]:
        """Take tags off a secret; the answer is what is left."""
        return await self._call(list[TagObject], "DELETE", "/secrets/{key}/tags", key, body=tags)
