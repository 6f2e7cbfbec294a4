"""An access token."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class Token(Model):
    """An access token."""

    token: str | None = None
