"""Models and other services, on servers that use them."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_integration_resource_api import AsyncIntegrationResourceApi
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncIntegrationClient(AsyncIntegrationResourceApi):
    """Models and other services, on servers that use them."""

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class IntegrationClient(SyncClient[AsyncIntegrationClient]):
    """Models and other services, on servers that use them. For code without an event loop."""

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncIntegrationClient(configuration))

    associate_prompt_with_integration = blocking(AsyncIntegrationClient.associate_prompt_with_integration)
    get_prompts_with_integration = blocking(AsyncIntegrationClient.get_prompts_with_integration)
    save_integration = blocking(AsyncIntegrationClient.save_integration)
    get_integration = blocking(AsyncIntegrationClient.get_integration)
    get_integrations = blocking(AsyncIntegrationClient.get_integrations)
    delete_integration = blocking(AsyncIntegrationClient.delete_integration)
    save_integration_api = blocking(AsyncIntegrationClient.save_integration_api)
    get_integration_api = blocking(AsyncIntegrationClient.get_integration_api)
    get_integration_apis = blocking(AsyncIntegrationClient.get_integration_apis)
    get_integration_available_apis = blocking(AsyncIntegrationClient.get_integration_available_apis)
    delete_integration_api = blocking(AsyncIntegrationClient.delete_integration_api)
    get_integration_provider_defs = blocking(AsyncIntegrationClient.get_integration_provider_defs)
    get_providers_and_integrations = blocking(AsyncIntegrationClient.get_providers_and_integrations)
    get_token_usage_for_integration = blocking(AsyncIntegrationClient.get_token_usage_for_integration)
    get_token_usage_for_integration_provider = blocking(AsyncIntegrationClient.get_token_usage_for_integration_provider)
    put_tag_for_integration = blocking(AsyncIntegrationClient.put_tag_for_integration)
    get_tags_for_integration = blocking(AsyncIntegrationClient.get_tags_for_integration)
    delete_tag_for_integration = blocking(AsyncIntegrationClient.delete_tag_for_integration)
    put_tag_for_integration_provider = blocking(AsyncIntegrationClient.put_tag_for_integration_provider)
    get_tags_for_integration_provider = blocking(AsyncIntegrationClient.get_tags_for_integration_provider)
    delete_tag_for_integration_provider = blocking(AsyncIntegrationClient.delete_tag_for_integration_provider)
