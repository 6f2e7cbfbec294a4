from conductor.client.http.models.model import Model


class RateLimit(Model, kw_only=True):
    """The limit on concurrent workflows with the same key.

    `tag` and `concurrent_execution_limit` are the older names of `rate_limit_key` and `concurrent_exec_limit`.
    """

    tag: str | None = None
    concurrent_execution_limit: int | None = None
    rate_limit_key: str | None = None
    concurrent_exec_limit: int | None = None
