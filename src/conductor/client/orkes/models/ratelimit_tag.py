"""A tag that limits how many executions run at once."""

from __future__ import annotations

from conductor.client.http.models.tag_object import TagObject


def RateLimitTag(key: str, value: int) -> TagObject:  # noqa: N802 (a class in conductor-python)
    """A tag that limits how many executions of the workflow `key` run at once."""
    return TagObject(key, "RATE_LIMIT", value)
