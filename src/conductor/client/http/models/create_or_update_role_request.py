"""The wish to have a role."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CreateOrUpdateRoleRequest(Model, kw_only=True):
    """What a role shall be."""

    name: str | None = None
    permissions: list[str] | None = None
