from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.tag_object import TagObject


class SecretResourceApi(GeneratedApi):
    """Secrets that workflow definitions use."""

    delete_secret = generated("DELETE", "/secrets/{key}", "key")
    delete_tag_for_secret = generated("DELETE", "/secrets/{key}/tags", "body, key")
    get_secret = generated("GET", "/secrets/{key}", "key")
    get_tags = generated("GET", "/secrets/{key}/tags", "key", returns=list[TagObject])
    list_all_secret_names = generated("POST", "/secrets")
    list_secrets_that_user_can_grant_access_to = generated("GET", "/secrets", returns=list[str])
    list_secrets_with_tags_that_user_can_grant_access_to = generated("GET", "/secrets-v2", returns=list[dict[str, Any]])
    put_secret = generated("PUT", "/secrets/{key}", "body, key", as_text=True)
    put_tag_for_secret = generated("PUT", "/secrets/{key}/tags", "body, key")
    secret_exists = generated("GET", "/secrets/{key}/exists", "key")
