"""A tag whose value is text."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class TagString(Model):
    """A tag whose value is text."""

    key: str | None = None
    type: str | None = None
    value: str | None = None
