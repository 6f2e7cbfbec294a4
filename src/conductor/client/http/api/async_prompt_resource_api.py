"""`/prompts`: prompts for models, kept on the server."""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.prompt_test_request import PromptTemplateTestRequest
from conductor.client.http.models.tag_object import TagObject


class AsyncPromptResourceApi(OptionalResourceApi):
    """The endpoints of `/prompts`."""

    had_by = "Orkes Conductor"

    async def save_prompt(
        self,
        prompt_name: str,
        description: str,
        prompt_template: str,
        models: list[str] | None = None,
        version: int | None = None,
        auto_increment: bool = False,
    ) -> None:
        """Keep a prompt."""
        await self._call(
            str,
            "POST",
            "/prompts/{name}",
            prompt_name,
            query={
                "description": description,
                "models": models,
                "version": version,
                "autoIncrement": auto_increment or None,
            },
            text=prompt_template,
        )

    async def get_prompt(self, prompt_name: str) -> PromptTemplate:
        """Read a prompt."""
        return await self._call(PromptTemplate, "GET", "/prompts/{name}", prompt_name)

    async def get_prompts(self) -> list[PromptTemplate]:
        """Read all prompts."""
        return await self._call(list[PromptTemplate], "GET", "/prompts")

    async def delete_prompt(self, prompt_name: str) -> None:
        """Forget a prompt."""
        await self._call(str, "DELETE", "/prompts/{name}", prompt_name)

    async def get_tags_for_prompt_template(self, prompt_name: str) -> list[TagObject]:
        """Read a prompt's tags."""
        return await self._call(list[TagObject], "GET", "/prompts/{name}/tags", prompt_name)

    async def update_tag_for_prompt_template(self, prompt_name: str, tags: list[TagObject]) -> None:
        """Replace a prompt's tags."""
        await self._call(str, "PUT", "/prompts/{name}/tags", prompt_name, body=tags)

    async def delete_tag_for_prompt_template(self, prompt_name: str, tags: list[TagObject]) -> None:
        """Take tags off a prompt."""
        await self._call(str, "DELETE", "/prompts/{name}/tags", prompt_name, body=tags)

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
        """Try a prompt with a model; the answer is what the model says."""
        return await self._call(
            str,
            "POST",
            "/prompts/test",
            body=PromptTemplateTestRequest(
                prompt=prompt_text,
                prompt_variables=variables,
                llm_provider=ai_integration,
                model=text_complete_model,
                temperature=temperature,
                top_p=top_p,
                stop_words=stop_words,
            ),
        )
