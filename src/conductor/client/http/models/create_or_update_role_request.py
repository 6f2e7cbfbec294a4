from conductor.client.http.models.model import Model


class CreateOrUpdateRoleRequest(Model, kw_only=True):
    """The new name and permissions of a role."""

    name: str | None = None
    permissions: list[str] | None = None
