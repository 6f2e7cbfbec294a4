"""How many executions of a workflow may run at once."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class RateLimitConfig(Model, kw_only=True):
    """How many executions of a workflow with the same key may run at once."""

    rate_limit_key: str | None = None
    concurrent_exec_limit: int | None = None
    #: QUEUE (the server's default) or REJECT.
    policy: str | None = None
