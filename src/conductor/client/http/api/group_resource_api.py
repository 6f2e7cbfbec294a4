from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.group import Group


class GroupResourceApi(GeneratedApi):
    """Groups of users."""

    add_user_to_group = generated("POST", "/groups/{groupId}/users/{userId}", "group_id, user_id", returns=Any)
    add_users_to_group = generated("POST", "/groups/{groupId}/users", "group_id, body", returns=Any)
    delete_group = generated("DELETE", "/groups/{id}", "id", returns=Any)
    get_granted_permissions1 = generated("GET", "/groups/{groupId}/permissions", "group_id", returns=Any)
    get_group = generated("GET", "/groups/{id}", "id", returns=Any)
    get_users_in_group = generated("GET", "/groups/{id}/users", "id", returns=Any)
    list_groups = generated("GET", "/groups", returns=list[Group])
    remove_user_from_group = generated("DELETE", "/groups/{groupId}/users/{userId}", "group_id, user_id", returns=Any)
    remove_users_from_group = generated("DELETE", "/groups/{groupId}/users", "group_id, body", returns=Any)
    upsert_group = generated("PUT", "/groups/{id}", "body, id", returns=Any)
