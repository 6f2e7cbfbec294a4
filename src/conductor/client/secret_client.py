"""Secrets, on servers that keep them."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_secret_resource_api import AsyncSecretResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncSecretClient(AsyncSecretResourceApi):
    """Secrets, on servers that keep them."""

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class SecretClient(SyncClient[AsyncSecretClient]):
    """Secrets, on servers that keep them. For code without an event loop."""

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncSecretClient(configuration))

    put_secret = blocking(AsyncSecretClient.put_secret)
    get_secret = blocking(AsyncSecretClient.get_secret)
    list_all_secret_names = blocking(AsyncSecretClient.list_all_secret_names)
    list_secrets_that_user_can_grant_access_to = blocking(AsyncSecretClient.list_secrets_that_user_can_grant_access_to)
    delete_secret = blocking(AsyncSecretClient.delete_secret)
    secret_exists = blocking(AsyncSecretClient.secret_exists)
    set_secret_tags = blocking(AsyncSecretClient.set_secret_tags)
    get_secret_tags = blocking(AsyncSecretClient.get_secret_tags)
    delete_secret_tags = blocking(AsyncSecretClient.delete_secret_tags)
