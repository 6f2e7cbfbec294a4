from conductor.client.http.models.model import Model


class CacheConfig(Model, kw_only=True):
    """Reuse an earlier output with the same key until it expires."""

    key: str | None = None
    ttl_in_second: int | None = None
