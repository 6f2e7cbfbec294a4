from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.role import Role


class RoleResourceApi(GeneratedApi):
    """Roles of users."""

    create_role = generated("POST", "/roles", "body")
    delete_role = generated("DELETE", "/roles/{name}", "name")
    get_role = generated("GET", "/roles/{name}", "name")
    list_all_roles = generated("GET", "/roles", returns=list[Role])
    list_available_permissions = generated("GET", "/roles/permissions")
    list_custom_roles = generated("GET", "/roles/custom", returns=list[Role])
    list_system_roles = generated("GET", "/roles/system")
    update_role = generated("PUT", "/roles/{name}", "name, body")
