"""Decorators of conductor-python that convert exceptions. They do nothing, because clients raise `ApiException`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def api_exception_handler(function: F) -> F:
    """Return the function unchanged, because the clients already raise `ApiException`."""
    return function


def for_all_methods(decorator: Callable[[Any], Any], exclude: list[str] | None = None) -> Callable[[C], C]:
    """Return a class decorator that decorates all methods of a class, except those in `exclude`."""

    def decorate(cls: C) -> C:
        for name, value in list(vars(cls).items()):
            if callable(value) and name not in (exclude or ()) and not name.startswith("__"):
                setattr(cls, name, decorator(value))
        return cls

    return decorate
