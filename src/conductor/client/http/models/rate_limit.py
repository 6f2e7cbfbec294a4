"""How many executions of a workflow may run at once."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class RateLimit(Model, kw_only=True):
    """How many executions may run at once, by a key. The first two are older names for the others."""

    tag: str | None = None
    concurrent_execution_limit: int | None = None
    rate_limit_key: str | None = None
    concurrent_exec_limit: int | None = None
