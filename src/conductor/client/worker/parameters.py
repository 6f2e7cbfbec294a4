"""The parameters of callables: functions behind wrappers, partials and callable objects."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

#: A function of the user, with any parameters and result.
UserFunction = Callable[..., Any]


def unwrap_function(function: UserFunction) -> Any:
    """Return the function whose annotations describe the callable."""
    innermost = unwrap(function)
    if inspect.isroutine(innermost) or isinstance(innermost, type):
        return getattr(innermost, "__func__", innermost)
    return unwrap(type(innermost).__call__)


def unwrap(function: Any) -> Any:
    """Return the callable behind all wrappers and partials."""
    *_, innermost = _unwrap_all(function)
    return innermost


def is_coroutine_function(function: Any) -> bool:
    """Return whether a call needs an event loop: `async def`, an async `__call__`, or a partial of either."""
    while hasattr(function, "func") and not inspect.isfunction(function):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def list_parameters(function: UserFunction) -> Mapping[str, inspect.Parameter]:
    """Return the parameters by name. Undefined names in annotations raise no error."""
    if sys.version_info >= (3, 14):  # annotations are evaluated lazily
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF).parameters
    return inspect.signature(function).parameters


def list_open_parameters(function: UserFunction) -> Sequence[inspect.Parameter]:
    """Return the parameters that a call may pass, without those that a partial passes by name."""
    partials = [layer for layer in _unwrap_all(function) if isinstance(layer, functools.partial)]
    filled = {name for layer in partials for name in layer.keywords}
    return [p for name, p in list_parameters(function).items() if name not in filled]


def _unwrap_all(function: Any) -> Iterator[Any]:
    """Yield the function, the function that it wraps, and so on."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return
