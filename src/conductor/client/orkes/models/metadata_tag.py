from conductor.client.http.models.tag_object import TagObject


def MetadataTag(key: str, value: str) -> TagObject:  # noqa: N802 (a class in conductor-python)
    """Return a tag with a key and a value."""
    return TagObject(key, "METADATA", value)
