"""One thing that a role may do."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class Permission(Model):
    """One thing that a role may do."""

    name: str | None = None
