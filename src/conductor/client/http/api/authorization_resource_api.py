"""`/auth/authorization`: who may do what.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated


class AuthorizationResourceApi(GeneratedApi):
    """`/auth/authorization`: who may do what. Each is one blocking call."""

    get_permissions = generated("GET", "/auth/authorization/{type}/{id}", "type, id", returns=Any)
    grant_permissions = generated("POST", "/auth/authorization", "body", returns=Any)
    remove_permissions = generated("DELETE", "/auth/authorization", "body", returns=Any)
