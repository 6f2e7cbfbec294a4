from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.integration import Integration
from conductor.client.http.models.integration_api import IntegrationApi
from conductor.client.http.models.integration_def import IntegrationDef
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class IntegrationResourceApi(GeneratedApi):
    """Language models and other services that a server uses."""

    associate_prompt_with_integration = generated(
        "POST",
        "/integrations/provider/{integration_provider}/integration/{integration_name}/prompt/{prompt_name}",
        "integration_provider, integration_name, prompt_name",
    )
    delete_integration_api = generated(
        "DELETE", "/integrations/provider/{name}/integration/{integration_name}", "name, integration_name"
    )
    delete_integration_provider = generated("DELETE", "/integrations/provider/{name}", "name")
    delete_tag_for_integration = generated(
        "DELETE", "/integrations/provider/{name}/integration/{integration_name}/tags", "body, name, integration_name"
    )
    delete_tag_for_integration_provider = generated("DELETE", "/integrations/provider/{name}/tags", "body, name")
    get_integration_api = generated(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}",
        "name, integration_name",
        returns=IntegrationApi,
    )
    get_integration_apis = generated(
        "GET", "/integrations/provider/{name}/integration", "name, *, active_only", returns=list[IntegrationApi]
    )
    get_integration_available_apis = generated(
        "GET", "/integrations/provider/{name}/integration/all", "name", returns=list[str]
    )
    get_integration_provider = generated("GET", "/integrations/provider/{name}", "name", returns=Integration)
    get_integration_provider_defs = generated("GET", "/integrations/def", returns=list[IntegrationDef])
    get_integration_providers = generated(
        "GET", "/integrations/provider", "*, type, active_only", returns=list[Integration]
    )
    get_prompts_with_integration = generated(
        "GET",
        "/integrations/provider/{integration_provider}/integration/{integration_name}/prompt",
        "integration_provider, integration_name",
        returns=list[PromptTemplate],
    )
    get_providers_and_integrations = generated("GET", "/integrations/all", "*, type, active_only", returns=list[str])
    get_tags_for_integration = generated(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}/tags",
        "name, integration_name",
        returns=list[TagObject],
    )
    get_tags_for_integration_provider = generated(
        "GET", "/integrations/provider/{name}/tags", "name", returns=list[TagObject]
    )
    get_token_usage_for_integration = generated(
        "GET",
        "/integrations/provider/{name}/integration/{integration_name}/metrics",
        "name, integration_name",
        returns=int,
    )
    get_token_usage_for_integration_provider = generated(
        "GET", "/integrations/provider/{name}/metrics", "name", returns=dict[str, str]
    )
    put_tag_for_integration = generated(
        "PUT", "/integrations/provider/{name}/integration/{integration_name}/tags", "body, name, integration_name"
    )
    put_tag_for_integration_provider = generated("PUT", "/integrations/provider/{name}/tags", "body, name")
    register_token_usage = generated(
        "POST", "/integrations/provider/{name}/integration/{integration_name}/metrics", "body, name, integration_name"
    )
    save_integration_api = generated(
        "POST", "/integrations/provider/{name}/integration/{integration_name}", "body, name, integration_name"
    )
    save_integration_provider = generated("POST", "/integrations/provider/{name}", "body, name")
