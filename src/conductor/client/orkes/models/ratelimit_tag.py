from conductor.client.http.models.tag_object import TagObject


def RateLimitTag(key: str, value: int) -> TagObject:  # noqa: N802 (a class in conductor-python)
    """Return a tag that limits the concurrent workflows of the name `key`."""
    return TagObject(key, "RATE_LIMIT", value)
