"""Users, groups, applications and rights, on servers that have them."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_authorization_resource_api import AsyncAuthorizationResourceApi
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncAuthorizationClient(AsyncAuthorizationResourceApi):
    """Users, groups, applications and rights, on servers that have them."""

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class AuthorizationClient(SyncClient[AsyncAuthorizationClient]):
    """Users, groups, applications and rights, on servers that have them. For code without an event loop."""

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncAuthorizationClient(configuration))

    create_application = blocking(AsyncAuthorizationClient.create_application)
    get_application = blocking(AsyncAuthorizationClient.get_application)
    list_applications = blocking(AsyncAuthorizationClient.list_applications)
    update_application = blocking(AsyncAuthorizationClient.update_application)
    delete_application = blocking(AsyncAuthorizationClient.delete_application)
    get_app_by_access_key_id = blocking(AsyncAuthorizationClient.get_app_by_access_key_id)
    add_role_to_application_user = blocking(AsyncAuthorizationClient.add_role_to_application_user)
    remove_role_from_application_user = blocking(AsyncAuthorizationClient.remove_role_from_application_user)
    set_application_tags = blocking(AsyncAuthorizationClient.set_application_tags)
    get_application_tags = blocking(AsyncAuthorizationClient.get_application_tags)
    delete_application_tags = blocking(AsyncAuthorizationClient.delete_application_tags)
    create_access_key = blocking(AsyncAuthorizationClient.create_access_key)
    get_access_keys = blocking(AsyncAuthorizationClient.get_access_keys)
    toggle_access_key_status = blocking(AsyncAuthorizationClient.toggle_access_key_status)
    delete_access_key = blocking(AsyncAuthorizationClient.delete_access_key)
    upsert_user = blocking(AsyncAuthorizationClient.upsert_user)
    get_user = blocking(AsyncAuthorizationClient.get_user)
    list_users = blocking(AsyncAuthorizationClient.list_users)
    delete_user = blocking(AsyncAuthorizationClient.delete_user)
    get_granted_permissions_for_user = blocking(AsyncAuthorizationClient.get_granted_permissions_for_user)
    check_permissions = blocking(AsyncAuthorizationClient.check_permissions)
    upsert_group = blocking(AsyncAuthorizationClient.upsert_group)
    get_group = blocking(AsyncAuthorizationClient.get_group)
    list_groups = blocking(AsyncAuthorizationClient.list_groups)
    delete_group = blocking(AsyncAuthorizationClient.delete_group)
    add_user_to_group = blocking(AsyncAuthorizationClient.add_user_to_group)
    add_users_to_group = blocking(AsyncAuthorizationClient.add_users_to_group)
    get_users_in_group = blocking(AsyncAuthorizationClient.get_users_in_group)
    remove_user_from_group = blocking(AsyncAuthorizationClient.remove_user_from_group)
    remove_users_from_group = blocking(AsyncAuthorizationClient.remove_users_from_group)
    get_granted_permissions_for_group = blocking(AsyncAuthorizationClient.get_granted_permissions_for_group)
    grant_permissions = blocking(AsyncAuthorizationClient.grant_permissions)
    remove_permissions = blocking(AsyncAuthorizationClient.remove_permissions)
    get_permissions = blocking(AsyncAuthorizationClient.get_permissions)
    generate_token = blocking(AsyncAuthorizationClient.generate_token)
    get_user_info_from_token = blocking(AsyncAuthorizationClient.get_user_info_from_token)
    list_all_roles = blocking(AsyncAuthorizationClient.list_all_roles)
    list_system_roles = blocking(AsyncAuthorizationClient.list_system_roles)
    list_custom_roles = blocking(AsyncAuthorizationClient.list_custom_roles)
    list_available_permissions = blocking(AsyncAuthorizationClient.list_available_permissions)
    create_role = blocking(AsyncAuthorizationClient.create_role)
    get_role = blocking(AsyncAuthorizationClient.get_role)
    update_role = blocking(AsyncAuthorizationClient.update_role)
    delete_role = blocking(AsyncAuthorizationClient.delete_role)
    create_gateway_auth_config = blocking(AsyncAuthorizationClient.create_gateway_auth_config)
    list_gateway_auth_configs = blocking(AsyncAuthorizationClient.list_gateway_auth_configs)
    get_gateway_auth_config = blocking(AsyncAuthorizationClient.get_gateway_auth_config)
    update_gateway_auth_config = blocking(AsyncAuthorizationClient.update_gateway_auth_config)
    delete_gateway_auth_config = blocking(AsyncAuthorizationClient.delete_gateway_auth_config)
