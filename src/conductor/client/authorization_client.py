"""Applications, users, groups, roles and permissions, on servers that have them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from conductor.client.http.models.authorization_request import AuthorizationRequest
from conductor.client.http.models.conductor_application import ConductorApplication
from conductor.client.http.models.conductor_user import ConductorUser
from conductor.client.http.models.create_or_update_application_request import CreateOrUpdateApplicationRequest
from conductor.client.http.models.generate_token_request import GenerateTokenRequest
from conductor.client.http.models.group import Group
from conductor.client.http.models.subject_ref import SubjectRef
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.target_ref import TargetRef
from conductor.client.http.models.upsert_group_request import UpsertGroupRequest
from conductor.client.http.models.upsert_user_request import UpsertUserRequest
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation
from conductor.client.orkes.models.access_key import AccessKey
from conductor.client.orkes.models.created_access_key import CreatedAccessKey
from conductor.client.orkes.models.granted_permission import GrantedAccess, GrantedPermission
from conductor.protocol.json_types import JsonObject

__all__ = ["AsyncAuthorizationClient", "AuthorizationClient"]

_APPLICATION = "/applications/{applicationId}"
_USER = "/users/{userId}"
_GROUP = "/groups/{groupId}"
_ROLE = "/roles/{roleName}"
_GATEWAY = "/gateway/config/auth"


class AuthorizationOperations(Operations):
    """The operations of `AsyncAuthorizationClient` and `AuthorizationClient`."""

    only_on = "Orkes Conductor"

    @endpoint("POST", "/applications", body="create_or_update_application_request")
    async def create_application(
        self, create_or_update_application_request: CreateOrUpdateApplicationRequest
    ) -> ConductorApplication:
        """Create an application and return it."""

    @endpoint("GET", _APPLICATION)
    async def get_application(self, application_id: str) -> ConductorApplication:
        """Return an application."""

    @endpoint("GET", "/applications")
    async def list_applications(self) -> list[ConductorApplication]:
        """Return all applications."""

    @endpoint("PUT", _APPLICATION, body="create_or_update_application_request")
    async def update_application(
        self, create_or_update_application_request: CreateOrUpdateApplicationRequest, application_id: str
    ) -> ConductorApplication:
        """Change an application and return it."""

    @endpoint("DELETE", _APPLICATION)
    async def delete_application(self, application_id: str) -> None:
        """Delete an application."""

    @endpoint("GET", "/applications/key/{accessKeyId}")
    async def get_app_by_access_key_id(self, access_key_id: str) -> JsonObject:
        """Return the application that an access key belongs to."""

    @endpoint("POST", _APPLICATION + "/roles/{role}")
    async def add_role_to_application_user(self, application_id: str, role: str) -> None:
        """Give a role to an application."""

    @endpoint("DELETE", _APPLICATION + "/roles/{role}")
    async def remove_role_from_application_user(self, application_id: str, role: str) -> None:
        """Remove a role from an application."""

    @endpoint("PUT", _APPLICATION + "/tags", body="tags")
    async def set_application_tags(self, tags: list[TagObject], application_id: str) -> None:
        """Replace the tags of an application."""

    @endpoint("GET", _APPLICATION + "/tags")
    async def get_application_tags(self, application_id: str) -> list[TagObject]:
        """Return the tags of an application."""

    @endpoint("DELETE", _APPLICATION + "/tags", body="tags")
    async def delete_application_tags(self, tags: list[TagObject], application_id: str) -> None:
        """Remove tags from an application."""

    @endpoint("POST", _APPLICATION + "/accessKeys")
    async def create_access_key(self, application_id: str) -> CreatedAccessKey:
        """Create an access key and return it. Only this answer contains its secret."""

    @endpoint("GET", _APPLICATION + "/accessKeys")
    async def get_access_keys(self, application_id: str) -> list[AccessKey]:
        """Return the access keys of an application."""

    @endpoint("POST", _APPLICATION + "/accessKeys/{keyId}/status")
    async def toggle_access_key_status(self, application_id: str, key_id: str) -> AccessKey:
        """Turn an active access key off, or an inactive one on, and return the key."""

    @endpoint("DELETE", _APPLICATION + "/accessKeys/{keyId}")
    async def delete_access_key(self, application_id: str, key_id: str) -> None:
        """Delete an access key."""

    @endpoint("PUT", _USER, body="upsert_user_request")
    async def upsert_user(self, upsert_user_request: UpsertUserRequest, user_id: str) -> ConductorUser:
        """Create or change a user, and return the user."""

    @endpoint("GET", _USER)
    async def get_user(self, user_id: str) -> ConductorUser:
        """Return a user."""

    @endpoint("GET", "/users")
    async def list_users(self, apps: bool | None = False) -> list[ConductorUser]:
        """Return all users; with `apps`, also the users of applications."""

    @endpoint("DELETE", _USER)
    async def delete_user(self, user_id: str) -> None:
        """Delete a user."""

    @operation
    async def get_granted_permissions_for_user(self, user_id: str) -> list[GrantedPermission]:
        """Return the permissions of a user."""
        return (await self._get_access_of_user(user_id)).granted_access

    @endpoint("GET", _USER + "/permissions")
    async def _get_access_of_user(self, user_id: str) -> GrantedAccess: ...

    @endpoint("GET", _USER + "/checkPermissions", target_type="type", target_id="id")
    async def check_permissions(self, user_id: str, target_type: str, target_id: str) -> JsonObject:
        """Return the permissions that a user has for one target."""

    @endpoint("PUT", _GROUP, body="upsert_group_request")
    async def upsert_group(self, upsert_group_request: UpsertGroupRequest, group_id: str) -> Group:
        """Create or change a group, and return it."""

    @endpoint("GET", _GROUP)
    async def get_group(self, group_id: str) -> Group:
        """Return a group."""

    @endpoint("GET", "/groups")
    async def list_groups(self) -> list[Group]:
        """Return all groups."""

    @endpoint("DELETE", _GROUP)
    async def delete_group(self, group_id: str) -> None:
        """Delete a group."""

    @endpoint("POST", _GROUP + "/users/{userId}")
    async def add_user_to_group(self, group_id: str, user_id: str) -> None:
        """Add a user to a group."""

    @endpoint("POST", _GROUP + "/users", body="user_ids")
    async def add_users_to_group(self, group_id: str, user_ids: list[str]) -> None:
        """Add users to a group."""

    @endpoint("GET", _GROUP + "/users")
    async def get_users_in_group(self, group_id: str) -> list[ConductorUser]:
        """Return the users of a group."""

    @endpoint("DELETE", _GROUP + "/users/{userId}")
    async def remove_user_from_group(self, group_id: str, user_id: str) -> None:
        """Remove a user from a group."""

    @endpoint("DELETE", _GROUP + "/users", body="user_ids")
    async def remove_users_from_group(self, group_id: str, user_ids: list[str]) -> None:
        """Remove users from a group."""

    @operation
    async def get_granted_permissions_for_group(self, group_id: str) -> list[GrantedPermission]:
        """Return the permissions of a group."""
        return (await self._get_access_of_group(group_id)).granted_access

    @endpoint("GET", _GROUP + "/permissions")
    async def _get_access_of_group(self, group_id: str) -> GrantedAccess: ...

    @operation
    async def grant_permissions(self, subject: SubjectRef, target: TargetRef, access: list[str]) -> None:
        """Give a user, a group or an application access to a target."""
        await self._grant(AuthorizationRequest(subject, target, access))

    @endpoint("POST", "/auth/authorization")
    async def _grant(self, body: AuthorizationRequest) -> None: ...

    @operation
    async def remove_permissions(self, subject: SubjectRef, target: TargetRef, access: list[str]) -> None:
        """Revoke the access of a user, a group or an application to a target."""
        await self._revoke(AuthorizationRequest(subject, target, access))

    @endpoint("DELETE", "/auth/authorization")
    async def _revoke(self, body: AuthorizationRequest) -> None: ...

    @operation
    async def get_permissions(self, target: TargetRef) -> dict[str, list[SubjectRef]]:
        """Return the users, groups and applications that have access to a target, by kind of access."""
        return await self._get_subjects(target.type, target.id)

    @endpoint("GET", "/auth/authorization/{type}/{id}", target_type="type", target_id="id")
    async def _get_subjects(self, target_type: str | None, target_id: str | None) -> dict[str, list[SubjectRef]]: ...

    @operation
    async def generate_token(self, key_id: str, key_secret: str) -> JsonObject:
        """Exchange an access key for a token."""
        return await self._generate_token(GenerateTokenRequest(key_id, key_secret))

    @endpoint("POST", "/token")
    async def _generate_token(self, body: GenerateTokenRequest) -> JsonObject: ...

    @endpoint("GET", "/token/userInfo")
    async def get_user_info_from_token(self) -> JsonObject:
        """Return the user that the access token of this client belongs to."""

    @endpoint("GET", "/roles")
    async def list_all_roles(self) -> list[JsonObject]:
        """Return all roles."""

    @endpoint("GET", "/roles/system")
    async def list_system_roles(self) -> dict[str, JsonObject]:
        """Return the predefined roles."""

    @endpoint("GET", "/roles/custom")
    async def list_custom_roles(self) -> list[JsonObject]:
        """Return the roles that users have created."""

    @endpoint("GET", "/roles/permissions")
    async def list_available_permissions(self) -> dict[str, JsonObject]:
        """Return the permissions that a role can have."""

    @endpoint("POST", "/roles", body="create_role_request")
    async def create_role(self, create_role_request: JsonObject) -> JsonObject:
        """Create a role."""

    @endpoint("GET", _ROLE)
    async def get_role(self, role_name: str) -> JsonObject:
        """Return a role."""

    @endpoint("PUT", _ROLE, body="update_role_request")
    async def update_role(self, role_name: str, update_role_request: JsonObject) -> JsonObject:
        """Change a role."""

    @endpoint("DELETE", _ROLE)
    async def delete_role(self, role_name: str) -> None:
        """Delete a role."""

    @endpoint("POST", _GATEWAY, body="auth_config")
    async def create_gateway_auth_config(self, auth_config: JsonObject) -> JsonObject:
        """Create an authentication configuration of the gateway."""

    @endpoint("GET", _GATEWAY)
    async def list_gateway_auth_configs(self) -> list[JsonObject]:
        """Return all authentication configurations of the gateway."""

    @endpoint("GET", _GATEWAY + "/{configId}")
    async def get_gateway_auth_config(self, config_id: str) -> JsonObject:
        """Return an authentication configuration of the gateway."""

    @endpoint("PUT", _GATEWAY + "/{configId}", body="auth_config")
    async def update_gateway_auth_config(self, config_id: str, auth_config: JsonObject) -> JsonObject:
        """Change an authentication configuration of the gateway."""

    @endpoint("DELETE", _GATEWAY + "/{configId}")
    async def delete_gateway_auth_config(self, config_id: str) -> None:
        """Delete an authentication configuration of the gateway."""


class AsyncAuthorizationClient(AuthorizationOperations, AsyncClient):
    """Applications, users, groups, roles and permissions, for async code."""


class AuthorizationClient(AuthorizationOperations, SyncClient[AsyncAuthorizationClient]):
    """Applications, users, groups, roles and permissions.

    Example:
        with AuthorizationClient(Configuration()) as authorization:
            users = authorization.list_users()
    """

    async_class = AsyncAuthorizationClient
