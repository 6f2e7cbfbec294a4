from conductor.client.http.models.model import Model


class RateLimitConfig(Model, kw_only=True):
    """A limit of concurrent workflows with the same key."""

    rate_limit_key: str | None = None
    concurrent_exec_limit: int | None = None
    #: QUEUE (the server's default) or REJECT.
    policy: str | None = None
