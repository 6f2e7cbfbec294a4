"""Where a large payload lies."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class ExternalStorageLocation(Model):
    """Where a large payload lies outside of the server."""

    uri: str | None = None
    path: str | None = None
