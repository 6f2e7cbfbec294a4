"""What a call of something may still fill in: its parameters, seen through wrappers, partials and objects."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def unwrap_function(function: Callable[..., Any]) -> Any:
    """The function whose annotations count."""
    innermost = unwrap(function)
    if inspect.isroutine(innermost) or isinstance(innermost, type):
        return getattr(innermost, "__func__", innermost)
    return unwrap(type(innermost).__call__)


def unwrap(function: Any) -> Any:
    """What is behind all wrappers and partials."""
    *_, innermost = _layers(function)
    return innermost


def is_coroutine_function(function: Any) -> bool:
    """Whether it is to be called on a loop: an `async def`, an object with an async `__call__`, a partial of either."""
    while hasattr(function, "func") and not inspect.isfunction(function):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def list_parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters by name. A name in an annotation that is not there raises nothing: it is not looked up here."""
    if sys.version_info >= (3, 14):  # annotations are evaluated when somebody asks for them
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF).parameters
    return inspect.signature(function).parameters


def list_open_parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    """The parameters that a call may still fill: not those that a partial has filled by name."""
    partials = [layer for layer in _layers(function) if isinstance(layer, functools.partial)]
    filled = {name for layer in partials for name in layer.keywords}
    return [p for name, p in list_parameters(function).items() if name not in filled]


def _layers(function: Any) -> Iterator[Any]:
    """The function, what it wraps, what that wraps, and so on."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return
