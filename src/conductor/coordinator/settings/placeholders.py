"""Where an input names secrets, and how the values come in when a task is handed out.

A stored input keeps `${workflow.secrets.X}`. Only what the definition itself says is filled in: the same text inside of
data that somebody sent stays a text, or whoever starts a workflow could have any secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.coordinator.language.expressions import MAX_DEPTH, names_secrets, resolve_secrets


def find_secret_places(template: Any, depth: int = 0) -> Any:
    """The part of a template that names secrets; None if there is none."""
    if isinstance(template, str):
        return template if names_secrets(template) else None
    if depth >= MAX_DEPTH:
        return None
    if isinstance(template, dict):
        found = {
            key: place for key, item in template.items() if (place := find_secret_places(item, depth + 1)) is not None
        }
        return found or None
    if isinstance(template, list):
        listed = [find_secret_places(item, depth + 1) for item in template]
        return listed if any(place is not None for place in listed) else None
    return None


def fill_secrets(value: Any, place: Any, secret: Callable[[str], str | None]) -> Any:
    """A stored input with the secrets in their places."""
    if isinstance(place, str):
        return resolve_secrets(value, _Values(secret))
    if isinstance(place, dict) and isinstance(value, dict):
        return {key: fill_secrets(item, place[key], secret) if key in place else item for key, item in value.items()}
    if isinstance(place, list) and isinstance(value, list):
        pairs = zip(value, place, strict=False)
        return [item if inner is None else fill_secrets(item, inner, secret) for item, inner in pairs]
    return value


class _Values(dict[str, Any]):
    """Looks a secret up when it is asked for."""

    def __init__(self, secret: Callable[[str], str | None]) -> None:
        super().__init__()
        self._secret = secret

    def get(self, name: Any, default: Any = None) -> Any:
        return self._secret(str(name)) if default is None else default
