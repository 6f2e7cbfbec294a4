"""The wish to have a user."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class UpsertUserRequest(Model):
    """What a user shall be."""

    name: str | None = None
    roles: list[str] | None = None
    groups: list[str] | None = None
    contact_information: dict[str, str] | None = None
