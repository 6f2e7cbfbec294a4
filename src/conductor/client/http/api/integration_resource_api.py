"""`/integrations`: models and other services that a server can use.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.integration import Integration
from conductor.client.http.models.integration_api import IntegrationApi
from conductor.client.http.models.integration_def import IntegrationDef
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class IntegrationResourceApi(GeneratedApi):
    """`/integrations`: models and other services that a server can use. Each is one blocking call."""

    associate_prompt_with_integration = endpoint(
        "POST",
        "/integrations/provider/{integration_provider}/integration/{integration_name}/prompt/{prompt_name}",
        "integration_provider",
        "integration_name",
        "prompt_name",
    )
    delete_integration_api = endpoint(
        "DELETE", "/integrations/provider/{name}/integration/{integration_name}", "name", "integration_name"
    )
    delete_integration_provider = endpoint("DELETE", "/integrations/provider/{name}", "name")
    delete_tag_for_integration = endpoint(
        "DELETE",
        "/integrations/provider/{name}/integration/{integration_name}/tags",
        "body",
        "name",
        "integration_name",
    )
    delete_tag_for_integration_provider = endpoint("DELETE", "/integrations/provider/{name}/tags", "body", "name")
    get_integration_api = endpoint(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}",
        "name",
        "integration_name",
        returns=IntegrationApi,
    )
    get_integration_apis = endpoint(
        "GET", "/integrations/provider/{name}/integration", "name", query="active_only", returns=list[IntegrationApi]
    )
    get_integration_available_apis = endpoint(
        "GET", "/integrations/provider/{name}/integration/all", "name", returns=list[str]
    )
    get_integration_provider = endpoint("GET", "/integrations/provider/{name}", "name", returns=Integration)
    get_integration_provider_defs = endpoint("GET", "/integrations/def", returns=list[IntegrationDef])
    get_integration_providers = endpoint(
        "GET", "/integrations/provider", query="type active_only", returns=list[Integration]
    )
    get_prompts_with_integration = endpoint(
        "GET",
        "/integrations/provider/{integration_provider}/integration/{integration_name}/prompt",
        "integration_provider",
        "integration_name",
        returns=list[PromptTemplate],
    )
    get_providers_and_integrations = endpoint("GET", "/integrations/all", query="type active_only", returns=list[str])
    get_tags_for_integration = endpoint(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}/tags",
        "name",
        "integration_name",
        returns=list[TagObject],
    )
    get_tags_for_integration_provider = endpoint(
        "GET", "/integrations/provider/{name}/tags", "name", returns=list[TagObject]
    )
    get_token_usage_for_integration = endpoint(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}/metrics",
        "name",
        "integration_name",
        returns=int,
    )
    get_token_usage_for_integration_provider = endpoint(
        "GET", "/integrations/provider/{name}/metrics", "name", returns=dict[str, str]
    )
    put_tag_for_integration = endpoint(
        "PUT", "/integrations/provider/{name}/integration/{integration_name}/tags", "body", "name", "integration_name"
    )
    put_tag_for_integration_provider = endpoint("PUT", "/integrations/provider/{name}/tags", "body", "name")
    register_token_usage = endpoint(
        "POST",
        "/integrations/provider/{name}/integration/{integration_name}/metrics",
        "body",
        "name",
        "integration_name",
    )
    save_integration_api = endpoint(
        "POST", "/integrations/provider/{name}/integration/{integration_name}", "body", "name", "integration_name"
    )
    save_integration_provider = endpoint("POST", "/integrations/provider/{name}", "body", "name")
