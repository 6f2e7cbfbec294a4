"""Language models and other services that a server uses, on servers that have integrations.

An integration is a provider, which is a service such as OpenAI. An integration API is one of its models.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import Any

from conductor.client.http.models.integration import Integration
from conductor.client.http.models.integration_api import IntegrationApi
from conductor.client.http.models.integration_api_update import IntegrationApiUpdate
from conductor.client.http.models.integration_def import IntegrationDef
from conductor.client.http.models.integration_update import IntegrationUpdate
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint

__all__ = ["AsyncIntegrationClient", "IntegrationClient"]

_PROVIDER = "/integrations/provider/{provider}"
_MODEL = _PROVIDER + "/integration/{model}"


class IntegrationOperations(Operations):
    """The operations of `AsyncIntegrationClient` and `IntegrationClient`."""

    only_on = "Orkes Conductor"

    @endpoint("POST", _MODEL + "/prompt/{promptName}", ai_integration="provider", model_name="model")
    async def associate_prompt_with_integration(self, ai_integration: str, model_name: str, prompt_name: str) -> None:
        """Allow a prompt to be used with a model."""

    @endpoint("GET", _MODEL + "/prompt", ai_integration="provider", model_name="model")
    async def get_prompts_with_integration(self, ai_integration: str, model_name: str) -> list[PromptTemplate]:
        """Return the prompts that may be used with a model."""

    @endpoint("POST", _PROVIDER, body="integration_details", integration_name="provider")
    async def save_integration(self, integration_name: str, integration_details: IntegrationUpdate) -> None:
        """Create or change an integration (a provider)."""

    @endpoint("GET", _PROVIDER, integration_name="provider")
    async def get_integration(self, integration_name: str) -> Integration:
        """Return an integration (a provider)."""

    @endpoint("GET", "/integrations/provider")
    async def get_integrations(self) -> list[Integration]:
        """Return all integrations (providers)."""

    @endpoint("DELETE", _PROVIDER, integration_name="provider")
    async def delete_integration(self, integration_name: str) -> None:
        """Delete an integration (a provider)."""

    @endpoint("POST", _MODEL, body="api_details", integration_name="provider", api_name="model")
    async def save_integration_api(
        self, integration_name: str, api_name: str, api_details: IntegrationApiUpdate
    ) -> None:
        """Create or change a model of a provider."""

    @endpoint("GET", _MODEL, integration_name="provider", api_name="model")
    async def get_integration_api(self, api_name: str, integration_name: str) -> IntegrationApi:
        """Return a model of a provider."""

    @endpoint("GET", _PROVIDER + "/integration", integration_name="provider")
    async def get_integration_apis(self, integration_name: str) -> list[IntegrationApi]:
        """Return the models of a provider."""

    @endpoint("GET", _PROVIDER + "/integration/all", integration_name="provider")
    async def get_integration_available_apis(self, integration_name: str) -> list[str]:
        """Return the names of the models that a provider offers."""

    @endpoint("DELETE", _MODEL, integration_name="provider", api_name="model")
    async def delete_integration_api(self, api_name: str, integration_name: str) -> None:
        """Delete a model of a provider."""

    @endpoint("GET", "/integrations/def")
    async def get_integration_provider_defs(self) -> list[IntegrationDef]:
        """Return the kinds of providers that the server supports."""

    @endpoint("GET", "/integrations/all")
    async def get_providers_and_integrations(self) -> list[str]:
        """Return the names of all providers and models."""

    @endpoint("GET", _MODEL + "/metrics", name="provider", integration_name="model")
    async def get_token_usage_for_integration(self, name: str, integration_name: str) -> int:
        """Return the number of tokens that a model has used."""

    @endpoint("GET", _PROVIDER + "/metrics", name="provider")
    async def get_token_usage_for_integration_provider(self, name: str) -> dict[str, Any]:
        """Return the number of tokens that each model of a provider has used."""

    @endpoint("PUT", _MODEL + "/tags", name="provider", integration_name="model")
    async def put_tag_for_integration(self, body: list[TagObject], name: str, integration_name: str) -> None:
        """Add tags to a model."""

    @endpoint("GET", _MODEL + "/tags", name="provider", integration_name="model")
    async def get_tags_for_integration(self, name: str, integration_name: str) -> list[TagObject]:
        """Return the tags of a model."""

    @endpoint("DELETE", _MODEL + "/tags", tag_name="provider", integration_name="model")
    async def delete_tag_for_integration(self, body: list[TagObject], tag_name: str, integration_name: str) -> None:
        """Remove tags from a model. As in conductor-python, `tag_name` is the name of the provider."""

    @endpoint("PUT", _PROVIDER + "/tags", name="provider")
    async def put_tag_for_integration_provider(self, body: list[TagObject], name: str) -> None:
        """Add tags to a provider."""

    @endpoint("GET", _PROVIDER + "/tags", name="provider")
    async def get_tags_for_integration_provider(self, name: str) -> list[TagObject]:
        """Return the tags of a provider."""

    @endpoint("DELETE", _PROVIDER + "/tags", name="provider")
    async def delete_tag_for_integration_provider(self, body: list[TagObject], name: str) -> None:
        """Remove tags from a provider."""


class AsyncIntegrationClient(IntegrationOperations, AsyncClient):
    """Language models and other services that a server uses, for async code."""


class IntegrationClient(IntegrationOperations, SyncClient[AsyncIntegrationClient]):
    """Language models and other services that a server uses."""

    async_class = AsyncIntegrationClient
