from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.authentication_config import AuthenticationConfig


class GatewayAuthResourceApi(GeneratedApi):
    """Authentication configurations of a server's gateway."""

    create_config = generated("POST", "/gateway/config/auth", "body", returns=str)
    delete_config = generated("DELETE", "/gateway/config/auth/{id}", "id")
    get_config = generated("GET", "/gateway/config/auth/{id}", "id", returns=AuthenticationConfig)
    list_all_configs = generated("GET", "/gateway/config/auth", returns=list[AuthenticationConfig])
    update_config = generated("PUT", "/gateway/config/auth/{id}", "id, body")
