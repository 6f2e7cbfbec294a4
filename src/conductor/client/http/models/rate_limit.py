from conductor.client.http.models.model import Model


class RateLimit(Model, kw_only=True):
    """A limit of concurrent workflows with the same key. The first two fields are older names of the others."""

    tag: str | None = None
    concurrent_execution_limit: int | None = None
    rate_limit_key: str | None = None
    concurrent_exec_limit: int | None = None
