"""Decorators of conductor-python that turn its exceptions into others. Here there is one kind only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def api_exception_handler(function: F) -> F:
    """The function as it is: what a server says no to is an `ApiException`, which is `APIError` here."""
    return function


def for_all_methods(decorator: Callable[[Any], Any], exclude: list[str] | None = None) -> Callable[[C], C]:
    """A class decorator that decorates all methods of the class but those named."""

    def decorate(cls: C) -> C:
        for name, value in list(vars(cls).items()):
            if callable(value) and name not in (exclude or ()) and not name.startswith("__"):
                setattr(cls, name, decorator(value))
        return cls

    return decorate
