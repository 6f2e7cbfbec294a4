"""The wish to have an application."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CreateOrUpdateApplicationRequest(Model):
    """What an application shall be called."""

    name: str | None = None
