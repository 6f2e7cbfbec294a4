"""The wish to have a group."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class UpsertGroupRequest(Model):
    """What a group shall be."""

    description: str | None = None
    roles: list[str] | None = None
    default_access: dict[str, list[str]] | None = None
