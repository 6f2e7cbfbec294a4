"""Prompts for models, on servers that keep them."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_prompt_resource_api import AsyncPromptResourceApi
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncPromptClient(AsyncPromptResourceApi):
    """Prompts for models, on servers that keep them."""

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class PromptClient(SyncClient[AsyncPromptClient]):
    """Prompts for models, on servers that keep them. For code without an event loop."""

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncPromptClient(configuration))

    save_prompt = blocking(AsyncPromptClient.save_prompt)
    get_prompt = blocking(AsyncPromptClient.get_prompt)
    get_prompts = blocking(AsyncPromptClient.get_prompts)
    delete_prompt = blocking(AsyncPromptClient.delete_prompt)
    get_tags_for_prompt_template = blocking(AsyncPromptClient.get_tags_for_prompt_template)
    update_tag_for_prompt_template = blocking(AsyncPromptClient.update_tag_for_prompt_template)
    delete_tag_for_prompt_template = blocking(AsyncPromptClient.delete_tag_for_prompt_template)
    test_prompt = blocking(AsyncPromptClient.test_prompt)
