"""Types that hold other types: optional, union, array, tuple, table. See `node` for what a node promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conductor.client.worker.conversion.node import (
    AnyNode,
    InputError,
    Node,
    NoSchemaError,
    Schema,
    SchemaWriter,
    beside,
    member,
)


class OptionalNode(Node):
    """T or null."""

    nullable = True

    def __init__(self, inner: Node) -> None:
        self.inner = inner
        self.name = f"{inner.name} or null"
        self.hashable = inner.hashable

    def strict(self, value: Any) -> Any:
        return None if value is None else self.inner.strict(value)

    def lenient(self, value: Any) -> Any:
        return None if value is None else self.inner.lenient(value)

    def schema(self, writer: SchemaWriter) -> Schema:
        inner = writer.write(self.inner)
        return beside(inner, {"nullable": True}) if inner else inner


class UnionNode(Node):
    """The first member that takes the value: exactly if any does, else with conversion."""

    def __init__(self, members: Sequence[Node]) -> None:
        self.members = members
        self.name = " or ".join(member.name for member in members)
        self.nullable = any(member.nullable for member in members)
        self.hashable = all(member.hashable for member in members)

    def strict(self, value: Any) -> Any:
        return self._first([member.strict for member in self.members], value)

    def lenient(self, value: Any) -> Any:
        exact = [member.strict for member in self.members]
        return self._first(exact + [member.lenient for member in self.members], value)

    def _first(self, readers: Sequence[Callable[[Any], Any]], value: Any) -> Any:
        errors = []
        for reader in readers:
            try:
                return reader(value)
            except InputError as error:
                errors.append(error)
        # The member that got furthest into the value is the one that was meant.
        deepest = max(errors, key=lambda error: (not error.elsewhere, error.depth))
        raise deepest if deepest.path else self.wrong(value)

    def schema(self, writer: SchemaWriter) -> Schema:
        return {"anyOf": [writer.write(member) for member in self.members]}


class ArrayNode(Node):
    """A JSON array of equal items, as list, set, frozenset, deque or tuple."""

    hashable = False

    def __init__(self, item: Node, build: Callable[[list[Any]], Any] = list) -> None:
        self.item = item
        self.build = build
        self.name = f"array of {item.name}" if not isinstance(item, AnyNode) else "array"

    def strict(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise self.wrong(value)
        return self._read(self.item.strict, value)

    def lenient(self, value: Any) -> Any:
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise self.wrong(value)
        return self._read(self.item.lenient, value)

    def _read(self, reader: Callable[[Any], Any], value: Any) -> Any:
        if type(self.item) is AnyNode:
            return self.build(value)
        items = []
        for i, item in enumerate(value):
            try:
                items.append(reader(item))
            except InputError as error:
                raise error.inside(f"[{i}]") from None
        try:
            return items if self.build is list else self.build(items)
        except TypeError as error:  # a set of what cannot be in a set
            raise InputError("", str(error)) from None

    def schema(self, writer: SchemaWriter) -> Schema:
        if self.build in (set, frozenset) and not self.item.hashable:
            raise NoSchemaError(self.name)
        items = writer.write(self.item)
        return {"type": "array", "items": items} if items else {"type": "array"}


class TupleNode(Node):
    """A JSON array of fixed length."""

    def __init__(self, items: Sequence[Node]) -> None:
        self.items = items
        self.name = f"array of {len(items)}"
        self.hashable = all(item.hashable for item in items)

    def strict(self, value: Any) -> Any:
        return self._read([item.strict for item in self.items], value)

    def lenient(self, value: Any) -> Any:
        return self._read([item.lenient for item in self.items], list(value) if isinstance(value, tuple) else value)

    def _read(self, readers: Sequence[Callable[[Any], Any]], value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise self.wrong(value)
        items = []
        for i, (reader, item) in enumerate(zip(readers, value, strict=True)):
            try:
                items.append(reader(item))
            except InputError as error:
                raise error.inside(f"[{i}]") from None
        return tuple(items)

    def schema(self, writer: SchemaWriter) -> Schema:
        length = {"minItems": len(self.items), "maxItems": len(self.items)}
        items = {"items": [writer.write(item) for item in self.items]} if self.items else {}
        return {"type": "array", **items, **length}


class DictNode(Node):
    """A JSON object used as a table: keys of one type, values of one type."""

    name = "object"
    hashable = False

    def __init__(self, key: Node | None, value: Node, build: Callable[[dict[Any, Any]], Any] = dict) -> None:
        self.key = key  # None: text, as JSON has it
        self.value = value
        self.build = build

    def strict(self, value: Any) -> Any:
        return self._read(value, None if self.key is None else self.key.strict, self.value.strict)

    def lenient(self, value: Any) -> Any:
        return self._read(value, None if self.key is None else self.key.lenient, self.value.lenient)

    def _read(self, table: Any, key: Callable[[Any], Any] | None, reader: Callable[[Any], Any]) -> Any:
        if not isinstance(table, dict):
            raise self.wrong(table)
        if key is None and type(self.value) is AnyNode:
            return table if self.build is dict else self.build(table)
        result = {}
        for name, item in table.items():
            try:
                result[name if key is None else key(name)] = reader(item)
            except InputError as error:
                raise error.inside(member(name)) from None
        return result if self.build is dict else self.build(result)

    def schema(self, writer: SchemaWriter) -> Schema:
        schema: Schema = {"type": "object"}
        if self.key is not None:
            schema["propertyNames"] = writer.write(self.key)
        values = writer.write(self.value)
        if values:
            schema["additionalProperties"] = values
        return schema
