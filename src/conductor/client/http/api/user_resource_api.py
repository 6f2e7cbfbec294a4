from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.conductor_user import ConductorUser


class UserResourceApi(GeneratedApi):
    """Users of a server."""

    check_permissions = generated("GET", "/users/{userId}/checkPermissions", "user_id, *, type, id")
    delete_user = generated("DELETE", "/users/{id}", "id")
    get_granted_permissions = generated("GET", "/users/{userId}/permissions", "user_id")
    get_user = generated("GET", "/users/{id}", "id")
    list_users = generated("GET", "/users", "*, apps", returns=list[ConductorUser])
    upsert_user = generated("PUT", "/users/{id}", "body, id")
