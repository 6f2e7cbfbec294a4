"""How one part of a server is."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model


class Health(Model, kw_only=True):
    """How one part of a server is."""

    details: dict[str, Any] | None = None
    error_message: str | None = None
    healthy: bool | None = None
