"""Whether the outcome of a step or workflow may be reused."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CacheConfig(Model, kw_only=True):
    """Reuse an earlier outcome with the same key, for a while."""

    key: str | None = None
    ttl_in_second: int | None = None
