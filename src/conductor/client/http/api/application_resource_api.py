from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.conductor_application import ConductorApplication
from conductor.client.http.models.tag_object import TagObject


class ApplicationResourceApi(GeneratedApi):
    """Applications and their access keys."""

    add_role_to_application_user = generated(
        "POST", "/applications/{applicationId}/roles/{role}", "application_id, role"
    )
    create_access_key = generated("POST", "/applications/{id}/accessKeys", "id")
    create_application = generated("POST", "/applications", "body")
    delete_access_key = generated(
        "DELETE", "/applications/{applicationId}/accessKeys/{keyId}", "application_id, key_id"
    )
    delete_application = generated("DELETE", "/applications/{id}", "id")
    delete_tags_for_application = generated("DELETE", "/applications/{id}/tags", "body, id")
    get_access_keys = generated("GET", "/applications/{id}/accessKeys", "id")
    get_app_by_access_key_id = generated("GET", "/applications/key/{accessKeyId}", "access_key_id")
    get_application = generated("GET", "/applications/{id}", "id")
    get_tags_for_application = generated("GET", "/applications/{id}/tags", "id", returns=list[TagObject])
    list_applications = generated("GET", "/applications", returns=list[ConductorApplication])
    put_tags_for_application = generated("PUT", "/applications/{id}/tags", "body, id")
    remove_role_from_application_user = generated(
        "DELETE", "/applications/{applicationId}/roles/{role}", "application_id, role"
    )
    toggle_access_key_status = generated(
        "POST", "/applications/{applicationId}/accessKeys/{keyId}/status", "application_id, key_id"
    )
    update_application = generated("PUT", "/applications/{id}", "body, id")
