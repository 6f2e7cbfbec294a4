"""The wish to have an access token."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class GenerateTokenRequest(Model):
    """An access key, to be changed into a token."""

    key_id: str | None = None
    key_secret: str | None = None
