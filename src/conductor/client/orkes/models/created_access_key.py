"""A new access key."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CreatedAccessKey(Model):
    """A new access key with its secret, which is told only this once."""

    id: str
    secret: str
