"""Prompts for language models, on servers that store them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import Any

from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.prompt_test_request import PromptTemplateTestRequest
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation

__all__ = ["AsyncPromptClient", "PromptClient"]


class PromptOperations(Operations):
    """The operations of `AsyncPromptClient` and `PromptClient`."""

    only_on = "Orkes Conductor"

    @endpoint("POST", "/prompts/{name}", body="prompt_template", as_text=True, prompt_name="name")
    async def save_prompt(
        self,
        prompt_name: str,
        description: str,
        prompt_template: str,
        models: list[str] | None = None,
        version: int | None = None,
        auto_increment: bool = False,
    ) -> None:
        """Create or replace a prompt."""

    @endpoint("GET", "/prompts/{name}", prompt_name="name")
    async def get_prompt(self, prompt_name: str) -> PromptTemplate:
        """Return a prompt."""

    @endpoint("GET", "/prompts")
    async def get_prompts(self) -> list[PromptTemplate]:
        """Return all prompts."""

    @endpoint("DELETE", "/prompts/{name}", prompt_name="name")
    async def delete_prompt(self, prompt_name: str) -> None:
        """Delete a prompt."""

    @endpoint("GET", "/prompts/{name}/tags", prompt_name="name")
    async def get_tags_for_prompt_template(self, prompt_name: str) -> list[TagObject]:
        """Return the tags of a prompt."""

    @endpoint("PUT", "/prompts/{name}/tags", body="tags", prompt_name="name")
    async def update_tag_for_prompt_template(self, prompt_name: str, tags: list[TagObject]) -> None:
        """Replace the tags of a prompt."""

    @endpoint("DELETE", "/prompts/{name}/tags", body="tags", prompt_name="name")
    async def delete_tag_for_prompt_template(self, prompt_name: str, tags: list[TagObject]) -> None:
        """Remove tags from a prompt."""

    @operation
    async def test_prompt(
        self,
        prompt_text: str,
        variables: dict[str, Any],
        ai_integration: str,
        text_complete_model: str,
        temperature: float = 0.1,
        top_p: float = 0.9,
        stop_words: list[str] | None = None,
    ) -> str:
        """Send a prompt to a language model and return its answer."""
        request = PromptTemplateTestRequest(
            prompt=prompt_text,
            prompt_variables=variables,
            llm_provider=ai_integration,
            model=text_complete_model,
            temperature=temperature,
            top_p=top_p,
            stop_words=stop_words,
        )
        return await self._test_prompt(request)

    @endpoint("POST", "/prompts/test")
    async def _test_prompt(self, body: PromptTemplateTestRequest) -> str: ...


class AsyncPromptClient(PromptOperations, AsyncClient):
    """Prompts for language models, for async code."""


class PromptClient(PromptOperations, SyncClient[AsyncPromptClient]):
    """Prompts for language models."""

    async_class = AsyncPromptClient
