from typing import Any

from conductor.client.http.models.model import Model


class Health(Model, kw_only=True):
    """The health of one part of a server."""

    details: dict[str, Any] | None = None
    error_message: str | None = None
    healthy: bool | None = None
