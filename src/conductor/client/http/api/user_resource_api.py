"""`/users`: people who may use a server.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.conductor_user import ConductorUser


class UserResourceApi(GeneratedApi):
    """`/users`: people who may use a server. Each is one blocking call."""

    check_permissions = generated("GET", "/users/{userId}/checkPermissions", "user_id, *, type, id", returns=Any)
    delete_user = generated("DELETE", "/users/{id}", "id", returns=Any)
    get_granted_permissions = generated("GET", "/users/{userId}/permissions", "user_id", returns=Any)
    get_user = generated("GET", "/users/{id}", "id", returns=Any)
    list_users = generated("GET", "/users", "*, apps", returns=list[ConductorUser])
    upsert_user = generated("PUT", "/users/{id}", "body, id", returns=Any)
