from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.conductor_application import ConductorApplication
from conductor.client.http.models.tag_object import TagObject


class ApplicationResourceApi(GeneratedApi):
    """Applications and their access keys."""

    add_role_to_application_user = generated(
        "POST", "/applications/{applicationId}/roles/{role}", "application_id, role", returns=Any
    )
    create_access_key = generated("POST", "/applications/{id}/accessKeys", "id", returns=Any)
    create_application = generated("POST", "/applications", "body", returns=Any)
    delete_access_key = generated(
        "DELETE", "/applications/{applicationId}/accessKeys/{keyId}", "application_id, key_id", returns=Any
    )
    delete_application = generated("DELETE", "/applications/{id}", "id", returns=Any)
    delete_tags_for_application = generated("DELETE", "/applications/{id}/tags", "body, id")
    get_access_keys = generated("GET", "/applications/{id}/accessKeys", "id", returns=Any)
    get_app_by_access_key_id = generated("GET", "/applications/key/{accessKeyId}", "access_key_id", returns=Any)
    get_application = generated("GET", "/applications/{id}", "id", returns=Any)
    get_tags_for_application = generated("GET", "/applications/{id}/tags", "id", returns=list[TagObject])
    list_applications = generated("GET", "/applications", returns=list[ConductorApplication])
    put_tags_for_application = generated("PUT", "/applications/{id}/tags", "body, id")
    remove_role_from_application_user = generated(
        "DELETE", "/applications/{applicationId}/roles/{role}", "application_id, role", returns=Any
    )
    toggle_access_key_status = generated(
        "POST", "/applications/{applicationId}/accessKeys/{keyId}/status", "application_id, key_id", returns=Any
    )
    update_application = generated("PUT", "/applications/{id}", "body, id", returns=Any)
