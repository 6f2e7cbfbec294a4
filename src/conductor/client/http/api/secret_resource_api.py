"""`/secrets`: secrets that definitions may use.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.tag_object import TagObject


class SecretResourceApi(GeneratedApi):
    """`/secrets`: secrets that definitions may use. Each is one blocking call."""

    delete_secret = endpoint("DELETE", "/secrets/{key}", "key", returns=Any)
    delete_tag_for_secret = endpoint("DELETE", "/secrets/{key}/tags", "body", "key")
    get_secret = endpoint("GET", "/secrets/{key}", "key", returns=Any)
    get_tags = endpoint("GET", "/secrets/{key}/tags", "key", returns=list[TagObject])
    list_all_secret_names = endpoint("POST", "/secrets", returns=Any)
    list_secrets_that_user_can_grant_access_to = endpoint("GET", "/secrets", returns=list[str])
    list_secrets_with_tags_that_user_can_grant_access_to = endpoint("GET", "/secrets-v2", returns=list[dict[str, Any]])
    put_secret = endpoint("PUT", "/secrets/{key}", "body", "key", text=True, returns=Any)
    put_tag_for_secret = endpoint("PUT", "/secrets/{key}/tags", "body", "key")
    secret_exists = endpoint("GET", "/secrets/{key}/exists", "key", returns=Any)
