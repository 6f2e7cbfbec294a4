"""`/users`: people who may use a server.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.conductor_user import ConductorUser


class UserResourceApi(GeneratedApi):
    """`/users`: people who may use a server. Each is one blocking call."""

    check_permissions = endpoint("GET", "/users/{userId}/checkPermissions", "user_id", query="type id", returns=Any)
    delete_user = endpoint("DELETE", "/users/{id}", "id", returns=Any)
    get_granted_permissions = endpoint("GET", "/users/{userId}/permissions", "user_id", returns=Any)
    get_user = endpoint("GET", "/users/{id}", "id", returns=Any)
    list_users = endpoint("GET", "/users", query="apps", returns=list[ConductorUser])
    upsert_user = endpoint("PUT", "/users/{id}", "body", "id", returns=Any)
