from conductor.client.http.models.model import Model


class CacheConfig(Model, kw_only=True):
    """The key and the lifetime of a cached task output. The server reuses the output for the same key."""

    key: str | None = None
    ttl_in_second: int | None = None
