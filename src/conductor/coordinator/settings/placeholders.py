"""Find the secrets that an input names, and insert their values when a worker gets the task.

A stored input keeps `${workflow.secrets.X}`. Values are inserted only where the definition itself names a secret. The
same text inside data stays a text; otherwise every client that can start a workflow could read any secret.
"""

from __future__ import annotations

from collections.abc import Callable

from conductor.coordinator.language.expressions import (
    MAX_DEPTH,
    ComputedObject,
    names_secrets,
    resolve,
    resolve_secrets,
    secret_placeholder,
)
from conductor.protocol.json_types import Json


def find_secret_places(template: Json, depth: int = 0) -> Json:
    """Return the part of a template that names secrets, or None if no part does."""
    if isinstance(template, str):
        return template if names_secrets(template) else None
    if depth >= MAX_DEPTH:
        return None
    if isinstance(template, dict):
        places = {key: find_secret_places(item, depth + 1) for key, item in template.items()}
        return {key: place for key, place in places.items() if place is not None} or None
    if isinstance(template, list):
        listed = [find_secret_places(item, depth + 1) for item in template]
        return listed if any(place is not None for place in listed) else None
    return None


def resolve_without_data(template: Json) -> Json:
    """Return a template resolved without any data: placeholders of secrets stay, other expressions become null."""
    workflow = {"secrets": ComputedObject(secret_placeholder)}
    return resolve(template, lambda name, _step: workflow if name == "workflow" else None)


def fill_secrets(value: Json, place: Json, get_secret: Callable[[str], str | None]) -> Json:
    """Return a stored input with the values of secrets at the places that `find_secret_places` has found."""
    if isinstance(place, str):
        return resolve_secrets(value, get_secret)
    if isinstance(place, dict) and isinstance(value, dict):
        return {
            key: fill_secrets(item, place[key], get_secret) if key in place else item for key, item in value.items()
        }
    if isinstance(place, list) and isinstance(value, list):
        pairs = zip(value, place, strict=False)
        return [item if inner is None else fill_secrets(item, inner, get_secret) for item, inner in pairs]
    return value
