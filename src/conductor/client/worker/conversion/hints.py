"""Annotations as types: names in strings are looked up where the function or class was written."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any


class Unresolved:
    """An annotation whose names could not be found, for example one imported for type checkers only."""

    def __init__(self, text: str) -> None:
        self.text = text


def hints_of(owner: Any, annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a function or class, each resolved or `Unresolved`; one bad name does not spoil the others."""
    if isinstance(owner, type) and annotations is None:
        merged: dict[str, Any] = {}
        for base in reversed(owner.__mro__):
            merged |= hints_of(base, inspect.get_annotations(base))
        return merged
    found = inspect.get_annotations(owner) if annotations is None else annotations
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    namespace = getattr(owner, "__globals__", None) or getattr(module, "__dict__", {})
    scope = _Scope(owner, namespace)
    return {name: _resolved(annotation, namespace, scope) for name, annotation in found.items()}


def _resolved(annotation: Any, namespace: dict[str, Any], scope: _Scope) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, namespace, scope, include_extras=True)["it"]
    except Exception:  # the text of an annotation may be any expression, and fail in any way
        return Unresolved(annotation if isinstance(annotation, str) else repr(annotation))


class _Scope(Mapping[str, Any]):
    """Names that are visible where the owner was defined and are not in its module: closures and enclosing functions.

    A function's local classes are not reachable from the function itself once it has been compiled, but while the
    enclosing function is still running (as it is when a decorator reads the signature) its frame is on the stack.
    """

    def __init__(self, owner: Any, namespace: Mapping[str, Any]) -> None:
        self._owner = owner
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        for names in self._places():
            if name in names:
                return names[name]
        raise KeyError(name)

    def _places(self) -> Iterator[Mapping[str, Any]]:
        if isinstance(self._owner, type):
            yield {self._owner.__name__: self._owner}
        if isinstance(self._owner, types.FunctionType):
            cells = zip(self._owner.__code__.co_freevars, self._owner.__closure__ or (), strict=False)
            yield {name: cell.cell_contents for name, cell in cells if _filled(cell)}
        enclosing, _, _ = getattr(self._owner, "__qualname__", "").rpartition(".<locals>.")
        frame = inspect.currentframe() if enclosing else None
        while frame is not None:
            if frame.f_globals is self._namespace and enclosing.startswith(frame.f_code.co_qualname):
                yield frame.f_locals
            frame = frame.f_back

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises while the variable has no value yet
    except ValueError:
        return False
    return True
