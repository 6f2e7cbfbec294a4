"""The annotations of functions and classes, with the names in strings resolved."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any


class Unresolved:
    """An annotation with a name that is not defined, for example because only type checkers import it."""

    def __init__(self, text: str) -> None:
        self.text = text


def resolve_hints(owner: Any, annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of a function or class. An annotation with an undefined name becomes an `Unresolved`."""
    if isinstance(owner, type) and annotations is None:
        merged: dict[str, Any] = {}
        for base in reversed(owner.__mro__):
            merged |= resolve_hints(base, _get_annotations(base))
        return merged
    found = _get_annotations(owner) if annotations is None else annotations
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    namespace = getattr(owner, "__globals__", None) or getattr(module, "__dict__", {})
    scope = _Scope(owner, namespace)
    return {name: _resolve(annotation, namespace, scope) for name, annotation in found.items()}


def _get_annotations(owner: Any) -> Mapping[str, Any]:
    """Return the annotations. This call evaluates them on Python 3.14, where FORWARDREF accepts undefined names."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(owner)


def _resolve(annotation: Any, namespace: dict[str, Any], scope: _Scope) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, namespace, scope, include_extras=True)["it"]
    except Exception:  # an annotation may be any expression and raise any error
        text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
        return Unresolved(text if isinstance(text, str) else repr(text))


class _Scope(Mapping[str, Any]):
    """The names that annotations can use besides those of the module: names of closures and of enclosing functions.

    A function holds no reference to a local class that only its annotations name. A decorator reads the signature while
    the enclosing function is running, so the class is found in the frame of that function.
    """

    def __init__(self, owner: Any, namespace: Mapping[str, Any]) -> None:
        self._owner = owner
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        for names in self._scopes():
            if name in names:
                return names[name]
        raise KeyError(name)

    def _scopes(self) -> Iterator[Mapping[str, Any]]:
        if isinstance(self._owner, type):
            yield {self._owner.__name__: self._owner}
        if isinstance(self._owner, types.FunctionType):
            # ValueError means that a closure variable has no value yet. The function that will set it is still
            # running, so its frame, which is read below, has the names.
            with contextlib.suppress(ValueError):
                yield inspect.getclosurevars(self._owner).nonlocals
        enclosing, _, _ = getattr(self._owner, "__qualname__", "").rpartition(".<locals>.")
        frame = inspect.currentframe() if enclosing else None
        while frame is not None:
            name = frame.f_code.co_qualname
            is_around = enclosing == name or enclosing.startswith(f"{name}.<locals>.")
            if frame.f_globals is self._namespace and is_around:
                yield frame.f_locals
            frame = frame.f_back

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names, because `get_type_hints` of Python 3.14 copies them to a dict."""
        return iter({name for names in self._scopes() for name in names})

    def __len__(self) -> int:
        return sum(1 for _ in self)
