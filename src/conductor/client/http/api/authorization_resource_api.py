from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated


class AuthorizationResourceApi(GeneratedApi):
    """Permissions."""

    get_permissions = generated("GET", "/auth/authorization/{type}/{id}", "type, id", returns=Any)
    grant_permissions = generated("POST", "/auth/authorization", "body", returns=Any)
    remove_permissions = generated("DELETE", "/auth/authorization", "body", returns=Any)
