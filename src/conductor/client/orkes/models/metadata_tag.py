"""A tag that people made."""

from __future__ import annotations

from conductor.client.http.models.tag_object import TagObject


def MetadataTag(key: str, value: str) -> TagObject:  # noqa: N802 (a class in conductor-python)
    """A tag that people made: a key and a value."""
    return TagObject(key, "METADATA", value)
