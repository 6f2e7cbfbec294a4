"""What `Annotated` adds to a type: bounds, lengths, patterns, descriptions.

The metadata of msgspec, annotated-types and pydantic name their bounds alike; they are read by those names, so that
none of the three has to be imported.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conductor.client.worker.conversion.containers import ArrayNode, DictNode, OptionalNode
from conductor.client.worker.conversion.node import InputError, Node, Schema, SchemaWriter, beside, shown
from conductor.client.worker.conversion.scalars import FloatNode, IntNode, StrNode

_LIBRARIES = ("msgspec", "annotated_types", "pydantic")
_NUMBER_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_LENGTH_KEYWORDS = {
    StrNode: ("minLength", "maxLength"),
    ArrayNode: ("minItems", "maxItems"),
    DictNode: ("minProperties", "maxProperties"),
}
_CHECKS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "gt": ("greater than", lambda value, bound: value > bound),
    "ge": ("at least", lambda value, bound: value >= bound),
    "lt": ("less than", lambda value, bound: value < bound),
    "le": ("at most", lambda value, bound: value <= bound),
    "multiple_of": ("a multiple of", lambda value, bound: _is_multiple(value, bound)),
    "min_length": ("of length at least", lambda value, bound: len(value) >= bound),
    "max_length": ("of length at most", lambda value, bound: len(value) <= bound),
    "pattern": ("text that matches", lambda value, bound: re.search(bound, value) is not None),
}


def _is_multiple(value: Any, of: Any) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    quotient = value / of
    return math.isfinite(quotient) and quotient == int(quotient)


def constrained(node: Node, metadata: Sequence[Any]) -> Node:
    """The node with the bounds that the metadata state; the node itself if they state none."""
    bounds = {name: bound for item in _flat(metadata) for name, bound in _bounds(item)}
    if not bounds:
        return node
    if isinstance(node, OptionalNode):
        return OptionalNode(ConstrainedNode(node.inner, bounds))
    return ConstrainedNode(node, bounds)


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """Metadata with what is nested in it: pydantic's Field() holds a list of its own."""
    for item in metadata:
        yield item
        if _is_known(item):
            yield from _flat(getattr(item, "metadata", None) or ())


def _is_known(item: Any) -> bool:
    return (type(item).__module__ or "").partition(".")[0] in _LIBRARIES


def _bounds(item: Any) -> Iterable[tuple[str, Any]]:
    if not _is_known(item):
        return
    for name in _CHECKS:
        bound = getattr(item, name, None)
        if bound is not None:
            yield name, getattr(bound, "pattern", bound) if name == "pattern" else bound


def description_of(annotation: Any) -> str | None:
    """What an annotation says about its value in words: a text, `Doc(...)`, or a `description` in `Annotated`."""
    for item in getattr(annotation, "__metadata__", ()):
        found = item if isinstance(item, str) else getattr(item, "documentation", None)
        if found is None and _is_known(item):
            found = getattr(item, "description", None)
        if isinstance(found, str):
            return found
    if typing.get_origin(annotation) in (typing.Required, typing.NotRequired):
        return description_of(typing.get_args(annotation)[0])
    return None


class ConstrainedNode(Node):
    """A type with bounds. They are checked after the conversion."""

    def __init__(self, inner: Node, bounds: dict[str, Any]) -> None:
        self.inner = inner
        self.bounds = bounds
        self.name = inner.name
        self.nullable = inner.nullable
        self.hashable = inner.hashable

    def strict(self, value: Any) -> Any:
        return self._checked(self.inner.strict(value))

    def lenient(self, value: Any) -> Any:
        return self._checked(self.inner.lenient(value))

    def _checked(self, value: Any) -> Any:
        for name, bound in self.bounds.items():
            words, holds = _CHECKS[name]
            try:
                if holds(value, bound):
                    continue
            except TypeError:  # a bound that makes no sense for the type
                pass
            raise InputError("", f"expected {self.name} {words} {bound}, got {shown(value)}")
        return value

    def schema(self, writer: SchemaWriter) -> Schema:
        keywords = {self._keyword(name): bound for name, bound in self.bounds.items()}
        if None in keywords:
            writer.left_out += [f"{self.name} with {name}" for name in self.bounds if self._keyword(name) is None]
        return beside(writer.write(self.inner), {keyword: bound for keyword, bound in keywords.items() if keyword})

    def _keyword(self, name: str) -> str | None:
        """The keyword of JSON Schema that says the same; None if there is none for this type."""
        inner = self.inner
        while isinstance(inner, ConstrainedNode):
            inner = inner.inner
        if name in _NUMBER_KEYWORDS and isinstance(inner, (IntNode, FloatNode)):
            return _NUMBER_KEYWORDS[name]
        if name == "pattern" and isinstance(inner, StrNode):
            return "pattern"
        lengths = _LENGTH_KEYWORDS.get(type(inner))
        counted = isinstance(inner, ArrayNode) and inner.build in (set, frozenset)  # counts after duplicates fell out
        if name in ("min_length", "max_length") and lengths and not counted:
            return lengths[name == "max_length"]
        return None
