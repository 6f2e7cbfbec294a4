from conductor.client.http.api.generated_api import GeneratedApi, generated


class AuthorizationResourceApi(GeneratedApi):
    """Permissions."""

    get_permissions = generated("GET", "/auth/authorization/{type}/{id}", "type, id")
    grant_permissions = generated("POST", "/auth/authorization", "body")
    remove_permissions = generated("DELETE", "/auth/authorization", "body")
