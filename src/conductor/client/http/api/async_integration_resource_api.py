"""`/integrations`: models and other services that a server can use."""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.models.integration import Integration
from conductor.client.http.models.integration_api import IntegrationApi
from conductor.client.http.models.integration_api_update import IntegrationApiUpdate
from conductor.client.http.models.integration_def import IntegrationDef
from conductor.client.http.models.integration_update import IntegrationUpdate
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class AsyncIntegrationResourceApi(OptionalResourceApi):
    """The endpoints of `/integrations`."""

    had_by = "Orkes Conductor"

    async def associate_prompt_with_integration(self, ai_integration: str, model_name: str, prompt_name: str) -> None:
        """Let a prompt be used with a model."""
        await self._call(
            str,
            "POST",
            "/integrations/provider/{name}/integration/{integration}/prompt/{prompt}",
            ai_integration,
            model_name,
            prompt_name,
        )

    async def get_prompts_with_integration(self, ai_integration: str, model_name: str) -> list[PromptTemplate]:
        """The prompts that may be used with a model."""
        return await self._call(
            list[PromptTemplate],
            "GET",
            "/integrations/provider/{name}/integration/{integration}/prompt",
            ai_integration,
            model_name,
        )

    async def save_integration(self, integration_name: str, integration_details: IntegrationUpdate) -> None:
        """Create or change a provider."""
        await self._call(str, "POST", "/integrations/provider/{name}", integration_name, body=integration_details)

    async def get_integration(self, integration_name: str) -> Integration:
        """Read a provider."""
        return await self._call(Integration, "GET", "/integrations/provider/{name}", integration_name)

    async def get_integrations(self) -> list[Integration]:
        """Read all providers."""
        return await self._call(list[Integration], "GET", "/integrations/provider")

    async def delete_integration(self, integration_name: str) -> None:
        """Forget a provider."""
        await self._call(str, "DELETE", "/integrations/provider/{name}", integration_name)

    async def save_integration_api(
        self, integration_name: str, api_name: str, api_details: IntegrationApiUpdate
    ) -> None:
        """Create or change a model of a provider."""
        await self._call(
            str,
            "POST",
            "/integrations/provider/{name}/integration/{integration}",
            integration_name,
            api_name,
            body=api_details,
        )

    async def get_integration_api(self, api_name: str, integration_name: str) -> IntegrationApi:
        """Read a model of a provider."""
        return await self._call(
            IntegrationApi, "GET", "/integrations/provider/{name}/integration/{integration}", integration_name, api_name
        )

    async def get_integration_apis(self, integration_name: str) -> list[IntegrationApi]:
        """Read the models of a provider."""
        return await self._call(
            list[IntegrationApi], "GET", "/integrations/provider/{name}/integration", integration_name
        )

    async def get_integration_available_apis(self, integration_name: str) -> list[str]:
        """What models a provider has to offer."""
        return await self._call(list[str], "GET", "/integrations/provider/{name}/integration/all", integration_name)

    async def delete_integration_api(self, api_name: str, integration_name: str) -> None:
        """Forget a model of a provider."""
        await self._call(
            str, "DELETE", "/integrations/provider/{name}/integration/{integration}", integration_name, api_name
        )

    async def get_integration_provider_defs(self) -> list[IntegrationDef]:
        """What kinds of providers there are."""
        return await self._call(list[IntegrationDef], "GET", "/integrations/def")

    async def get_providers_and_integrations(self) -> list[str]:
        """The names of all providers and models."""
        return await self._call(list[str], "GET", "/integrations/all")

    async def get_token_usage_for_integration(self, name: str, integration_name: str) -> int:
        """How many tokens a model has used."""
        return await self._call(
            int, "GET", "/integrations/provider/{name}/integration/{integration}/metrics", name, integration_name
        )

    async def get_token_usage_for_integration_provider(self, name: str) -> dict[str, Any]:
        """How many tokens each model of a provider has used."""
        return await self._call(dict[str, Any], "GET", "/integrations/provider/{name}/metrics", name)

    async def put_tag_for_integration(self, body: list[TagObject], name: str, integration_name: str) -> None:
        """Put tags on a model."""
        await self._call(
            str,
            "PUT",
            "/integrations/provider/{name}/integration/{integration}/tags",
            name,
            integration_name,
            body=body,
        )

    async def get_tags_for_integration(self, name: str, integration_name: str) -> list[TagObject]:
        """Read a model's tags."""
        return await self._call(
            list[TagObject],
            "GET",
            "/integrations/provider/{name}/integration/{integration}/tags",
            name,
            integration_name,
        )

    async def delete_tag_for_integration(self, body: list[TagObject], tag_name: str, integration_name: str) -> None:
        """Take tags off a model."""
        await self._call(
            str,
            "DELETE",
            "/integrations/provider/{name}/integration/{integration}/tags",
            tag_name,
            integration_name,
            body=body,
        )

    async def put_tag_for_integration_provider(self, body: list[TagObject], name: str) -> None:
        """Put tags on a provider."""
        await self._call(str, "PUT", "/integrations/provider/{name}/tags", name, body=body)

    async def get_tags_for_integration_provider(self, name: str) -> list[TagObject]:
        """Read a provider's tags."""
        return await self._call(list[TagObject], "GET", "/integrations/provider/{name}/tags", name)

    async def delete_tag_for_integration_provider(self, body: list[TagObject], name: str) -> None:
        """Take tags off a provider."""
        await self._call(str, "DELETE", "/integrations/provider/{name}/tags", name, body=body)
