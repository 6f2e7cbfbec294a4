"""A program that may use a server."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class ConductorApplication(Model):
    """A program that may use a server with access keys."""

    id: str | None = None
    name: str | None = None
    created_by: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    updated_by: str | None = None
