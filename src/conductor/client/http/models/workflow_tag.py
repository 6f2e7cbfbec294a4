"""The limit that a tag of a workflow sets."""

from __future__ import annotations

from conductor.client.http.models.model import Model
from conductor.client.http.models.rate_limit import RateLimit


class WorkflowTag(Model, kw_only=True):
    """The limit that a tag of a workflow sets."""

    rate_limit: RateLimit | None = None
