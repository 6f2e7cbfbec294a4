"""`/roles`: what users may be.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.role import Role


class RoleResourceApi(GeneratedApi):
    """`/roles`: what users may be. Each is one blocking call."""

    create_role = endpoint("POST", "/roles", "body", returns=Any)
    delete_role = endpoint("DELETE", "/roles/{name}", "name", returns=Any)
    get_role = endpoint("GET", "/roles/{name}", "name", returns=Any)
    list_all_roles = endpoint("GET", "/roles", returns=list[Role])
    list_available_permissions = endpoint("GET", "/roles/permissions", returns=Any)
    list_custom_roles = endpoint("GET", "/roles/custom", returns=list[Role])
    list_system_roles = endpoint("GET", "/roles/system", returns=Any)
    update_role = endpoint("PUT", "/roles/{name}", "name", "body", returns=Any)
