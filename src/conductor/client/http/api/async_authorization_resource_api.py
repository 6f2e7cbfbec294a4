"""`/applications`, `/users`, `/groups`, `/roles`, `/auth`: who may do what."""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
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
from conductor.client.orkes.models.access_key import AccessKey
from conductor.client.orkes.models.created_access_key import CreatedAccessKey
from conductor.client.orkes.models.granted_permission import GrantedAccess, GrantedPermission


class AsyncAuthorizationResourceApi(OptionalResourceApi):
    """The endpoints of `/applications`, `/users`, `/groups`, `/roles`, `/auth`."""

    had_by = "Orkes Conductor"

    async def create_application(
        self, create_or_update_application_request: CreateOrUpdateApplicationRequest
    ) -> ConductorApplication:
        """Create an application."""
        return await self._call(
            ConductorApplication, "POST", "/applications", body=create_or_update_application_request
        )

    async def get_application(self, application_id: str) -> ConductorApplication:
        """Read an application."""
        return await self._call(ConductorApplication, "GET", "/applications/{id}", application_id)

    async def list_applications(self) -> list[ConductorApplication]:
        """Read all applications."""
        return await self._call(list[ConductorApplication], "GET", "/applications")

    async def update_application(
        self, create_or_update_application_request: CreateOrUpdateApplicationRequest, application_id: str
    ) -> ConductorApplication:
        """Change an application."""
        return await self._call(
            ConductorApplication, "PUT", "/applications/{id}", application_id, body=create_or_update_application_request
        )

    async def delete_application(self, application_id: str) -> None:
        """Delete an application."""
        await self._call(str, "DELETE", "/applications/{id}", application_id)

    async def get_app_by_access_key_id(self, access_key_id: str) -> dict[str, Any]:
        """Which application an access key belongs to."""
        return await self._call(dict[str, Any], "GET", "/applications/key/{key}", access_key_id)

    async def add_role_to_application_user(self, application_id: str, role: str) -> None:
        """Give an application a role."""
        await self._call(str, "POST", "/applications/{id}/roles/{role}", application_id, role)

    async def remove_role_from_application_user(self, application_id: str, role: str) -> None:
        """Take a role from an application."""
        await self._call(str, "DELETE", "/applications/{id}/roles/{role}", application_id, role)

    async def set_application_tags(self, tags: list[TagObject], application_id: str) -> None:
        """Replace an application's tags."""
        await self._call(str, "PUT", "/applications/{id}/tags", application_id, body=tags)

    async def get_application_tags(self, application_id: str) -> list[TagObject]:
        """Read an application's tags."""
        return await self._call(list[TagObject], "GET", "/applications/{id}/tags", application_id)

    async def delete_application_tags(self, tags: list[TagObject], application_id: str) -> None:
        """Take tags off an application."""
        await self._call(str, "DELETE", "/applications/{id}/tags", application_id, body=tags)

    async def create_access_key(self, application_id: str) -> CreatedAccessKey:
        """Create an access key; its secret is told only this once."""
        return await self._call(CreatedAccessKey, "POST", "/applications/{id}/accessKeys", application_id)

    async def get_access_keys(self, application_id: str) -> list[AccessKey]:
        """Read an application's access keys."""
        return await self._call(list[AccessKey], "GET", "/applications/{id}/accessKeys", application_id)

    async def toggle_access_key_status(self, application_id: str, key_id: str) -> AccessKey:
        """Turn an access key on or off."""
        return await self._call(AccessKey, "POST", "/applications/{id}/accessKeys/{key}/status", application_id, key_id)

    async def delete_access_key(self, application_id: str, key_id: str) -> None:
        """Delete an access key."""
        await self._call(str, "DELETE", "/applications/{id}/accessKeys/{key}", application_id, key_id)

    async def upsert_user(self, upsert_user_request: UpsertUserRequest, user_id: str) -> ConductorUser:
        """Create or change a user."""
        return await self._call(ConductorUser, "PUT", "/users/{id}", user_id, body=upsert_user_request)

    async def get_user(self, user_id: str) -> ConductorUser:
        """Read a user."""
        return await self._call(ConductorUser, "GET", "/users/{id}", user_id)

    async def list_users(self, apps: bool | None = False) -> list[ConductorUser]:
        """Read all users; with `apps`, those of applications too."""
        return await self._call(list[ConductorUser], "GET", "/users", query={"apps": bool(apps)})

    async def delete_user(self, user_id: str) -> None:
        """Delete a user."""
        await self._call(str, "DELETE", "/users/{id}", user_id)

    async def get_granted_permissions_for_user(self, user_id: str) -> list[GrantedPermission]:
        """What a user was granted."""
        return (await self._call(GrantedAccess, "GET", "/users/{id}/permissions", user_id)).granted_access

    async def check_permissions(self, user_id: str, target_type: str, target_id: str) -> dict[str, Any]:
        """What a user may do with a thing."""
        return await self._call(
            dict[str, Any], "GET", "/users/{id}/checkPermissions", user_id, query={"type": target_type, "id": target_id}
        )

    async def upsert_group(self, upsert_group_request: UpsertGroupRequest, group_id: str) -> Group:
        """Create or change a group."""
        return await self._call(Group, "PUT", "/groups/{id}", group_id, body=upsert_group_request)

    async def get_group(self, group_id: str) -> Group:
        """Read a group."""
        return await self._call(Group, "GET", "/groups/{id}", group_id)

    async def list_groups(self) -> list[Group]:
        """Read all groups."""
        return await self._call(list[Group], "GET", "/groups")

    async def delete_group(self, group_id: str) -> None:
        """Delete a group."""
        await self._call(str, "DELETE", "/groups/{id}", group_id)

    async def add_user_to_group(self, group_id: str, user_id: str) -> None:
        """Put a user into a group."""
        await self._call(str, "POST", "/groups/{id}/users/{user}", group_id, user_id)

    async def add_users_to_group(self, group_id: str, user_ids: list[str]) -> None:
        """Put users into a group."""
        await self._call(str, "POST", "/groups/{id}/users", group_id, body=user_ids)

    async def get_users_in_group(self, group_id: str) -> list[ConductorUser]:
        """The users of a group."""
        return await self._call(list[ConductorUser], "GET", "/groups/{id}/users", group_id)

    async def remove_user_from_group(self, group_id: str, user_id: str) -> None:
        """Take a user out of a group."""
        await self._call(str, "DELETE", "/groups/{id}/users/{user}", group_id, user_id)

    async def remove_users_from_group(self, group_id: str, user_ids: list[str]) -> None:
        """Take users out of a group."""
        await self._call(str, "DELETE", "/groups/{id}/users", group_id, body=user_ids)

    async def get_granted_permissions_for_group(self, group_id: str) -> list[GrantedPermission]:
        """What a group was granted."""
        return (await self._call(GrantedAccess, "GET", "/groups/{id}/permissions", group_id)).granted_access

    async def grant_permissions(self, subject: SubjectRef, target: TargetRef, access: list[str]) -> None:
        """Let somebody do these things with that."""
        await self._call(str, "POST", "/auth/authorization", body=AuthorizationRequest(subject, target, access))

    async def remove_permissions(self, subject: SubjectRef, target: TargetRef, access: list[str]) -> None:
        """Let somebody no longer do these things with that."""
        await self._call(str, "DELETE", "/auth/authorization", body=AuthorizationRequest(subject, target, access))

    async def get_permissions(self, target: TargetRef) -> dict[str, list[SubjectRef]]:
        """Who may do what with a thing."""
        return await self._call(
            dict[str, list[SubjectRef]], "GET", "/auth/authorization/{type}/{id}", target.type, target.id
        )

    async def generate_token(self, key_id: str, key_secret: str) -> dict[str, Any]:
        """Change an access key into a token."""
        return await self._call(dict[str, Any], "POST", "/token", body=GenerateTokenRequest(key_id, key_secret))

    async def get_user_info_from_token(self) -> dict[str, Any]:
        """Who the access token says that we are."""
        return await self._call(dict[str, Any], "GET", "/token/userInfo")

    async def list_all_roles(self) -> list[dict[str, Any]]:
        """Read all roles."""
        return await self._call(list[dict[str, Any]], "GET", "/roles")

    async def list_system_roles(self) -> dict[str, dict[str, Any]]:
        """Read the roles that the server brings along."""
        return await self._call(dict[str, dict[str, Any]], "GET", "/roles/system")

    async def list_custom_roles(self) -> list[dict[str, Any]]:
        """Read the roles that were made here."""
        return await self._call(list[dict[str, Any]], "GET", "/roles/custom")

    async def list_available_permissions(self) -> dict[str, dict[str, Any]]:
        """What permissions there are."""
        return await self._call(dict[str, dict[str, Any]], "GET", "/roles/permissions")

    async def create_role(self, create_role_request: dict[str, Any]) -> dict[str, Any]:
        """Create a role."""
        return await self._call(dict[str, Any], "POST", "/roles", body=create_role_request)

    async def get_role(self, role_name: str) -> dict[str, Any]:
        """Read a role."""
        return await self._call(dict[str, Any], "GET", "/roles/{name}", role_name)

    async def update_role(self, role_name: str, update_role_request: dict[str, Any]) -> dict[str, Any]:
        """Change a role."""
        return await self._call(dict[str, Any], "PUT", "/roles/{name}", role_name, body=update_role_request)

    async def delete_role(self, role_name: str) -> None:
        """Delete a role."""
        await self._call(str, "DELETE", "/roles/{name}", role_name)

    async def create_gateway_auth_config(self, auth_config: dict[str, Any]) -> dict[str, Any]:
        """Create a configuration for calls through the gateway."""
        return await self._call(dict[str, Any], "POST", "/gateway/config/auth", body=auth_config)

    async def list_gateway_auth_configs(self) -> list[dict[str, Any]]:
        """Read all configurations of the gateway."""
        return await self._call(list[dict[str, Any]], "GET", "/gateway/config/auth")

    async def get_gateway_auth_config(self, config_id: str) -> dict[str, Any]:
        """Read a configuration of the gateway."""
        return await self._call(dict[str, Any], "GET", "/gateway/config/auth/{id}", config_id)

    async def update_gateway_auth_config(self, config_id: str, auth_config: dict[str, Any]) -> dict[str, Any]:
        """Change a configuration of the gateway."""
        return await self._call(dict[str, Any], "PUT", "/gateway/config/auth/{id}", config_id, body=auth_config)

    async def delete_gateway_auth_config(self, config_id: str) -> None:
        """Delete a configuration of the gateway."""
        await self._call(str, "DELETE", "/gateway/config/auth/{id}", config_id)
