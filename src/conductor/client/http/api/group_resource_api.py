from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.group import Group


class GroupResourceApi(GeneratedApi):
    """Groups of users."""

    add_user_to_group = generated("POST", "/groups/{groupId}/users/{userId}", "group_id, user_id")
    add_users_to_group = generated("POST", "/groups/{groupId}/users", "group_id, body")
    delete_group = generated("DELETE", "/groups/{id}", "id")
    get_granted_permissions1 = generated("GET", "/groups/{groupId}/permissions", "group_id")
    get_group = generated("GET", "/groups/{id}", "id")
    get_users_in_group = generated("GET", "/groups/{id}/users", "id")
    list_groups = generated("GET", "/groups", returns=list[Group])
    remove_user_from_group = generated("DELETE", "/groups/{groupId}/users/{userId}", "group_id, user_id")
    remove_users_from_group = generated("DELETE", "/groups/{groupId}/users", "group_id, body")
    upsert_group = generated("PUT", "/groups/{id}", "body, id")
