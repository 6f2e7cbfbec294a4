"""Converters of types that contain other types: optional values, unions, arrays, tuples, dicts, objects and bounds."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from conductor.client.worker.conversion.converter import (
    AnyConverter,
    Converter,
    InputError,
    NoSchemaError,
    Schema,
    SchemaWriter,
    add_keywords,
    format_key,
    format_value,
)
from conductor.client.worker.conversion.scalars import FloatConverter, IntConverter, StrConverter


class OptionalConverter(Converter):
    """Converts the values of another converter, and null to None."""

    nullable = True

    def __init__(self, inner: Converter) -> None:
        self.inner = inner
        self.name = f"{inner.name} or null"
        self.hashable = inner.hashable

    def read_strict(self, value: object) -> object:
        return None if value is None else self.inner.read_strict(value)

    def read_lenient(self, value: object) -> object:
        return None if value is None else self.inner.read_lenient(value)

    def write_schema(self, writer: SchemaWriter) -> Schema:
        inner = writer.write(self.inner)
        return add_keywords(inner, {"nullable": True}) if inner else inner


class UnionConverter(Converter):
    """Converts values of a union type.

    It uses the first union member that accepts a value strictly, or else the first member that accepts it leniently.
    """

    def __init__(self, members: Sequence[Converter]) -> None:
        self.members = members
        self.name = " or ".join(member.name for member in members)
        self.nullable = any(member.nullable for member in members)
        self.hashable = all(member.hashable for member in members)

    def read_strict(self, value: object) -> object:
        return self._first([member.read_strict for member in self.members], value)

    def read_lenient(self, value: object) -> object:
        exact = [member.read_strict for member in self.members]
        return self._first(exact + [member.read_lenient for member in self.members], value)

    def _first(self, readers: Sequence[Callable[[object], object]], value: object) -> object:
        errors = []
        for reader in readers:
            try:
                return reader(value)
            except InputError as error:
                errors.append(error)
        # Report the error deepest inside the value: probably the value was meant for the union member that raised it.
        deepest = max(errors, key=lambda error: (not error.is_other_type, error.depth))
        raise deepest if deepest.path else self.make_error(value)

    def write_schema(self, writer: SchemaWriter) -> Schema:
        return {"anyOf": [writer.write(member) for member in self.members]}


class ArrayConverter(Converter):
    """Converts a JSON array with items of one type to a list, set, frozenset, deque or tuple."""

    hashable = False

    def __init__(self, item: Converter, build: Callable[[Iterable[object]], object] = list) -> None:
        self.item = item
        self.build = build
        self.name = f"array of {item.name}" if not isinstance(item, AnyConverter) else "array"

    def read_strict(self, value: object) -> object:
        if not isinstance(value, list):
            raise self.make_error(value)
        return self._read(self.item.read_strict, value)

    def read_lenient(self, value: object) -> object:
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise self.make_error(value)
        return self._read(self.item.read_lenient, value)

    def _read(self, reader: Callable[[object], object], value: Iterable[object]) -> object:
        if type(self.item) is AnyConverter:
            return self.build(value)
        items = []
        for i, item in enumerate(value):
            try:
                items.append(reader(item))
            except InputError as error:
                raise error.add_parent(f"[{i}]") from None
        try:
            return items if self.build is list else self.build(items)
        except TypeError as error:  # an item of a set is not hashable
            raise InputError("", str(error)) from None

    def write_schema(self, writer: SchemaWriter) -> Schema:
        if self.build in (set, frozenset) and not self.item.hashable:
            raise NoSchemaError(self.name)
        items = writer.write(self.item)
        return {"type": "array", "items": items} if items else {"type": "array"}


class TupleConverter(Converter):
    """Converts a JSON array of fixed length to a tuple."""

    def __init__(self, items: Sequence[Converter]) -> None:
        self.items = items
        self.name = f"array of {len(items)}"
        self.hashable = all(item.hashable for item in items)

    def read_strict(self, value: object) -> tuple[object, ...]:
        return self._read([item.read_strict for item in self.items], value)

    def read_lenient(self, value: object) -> tuple[object, ...]:
        return self._read(
            [item.read_lenient for item in self.items], list(value) if isinstance(value, tuple) else value
        )

    def _read(self, readers: Sequence[Callable[[object], object]], value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise self.make_error(value)
        items = []
        for i, (reader, item) in enumerate(zip(readers, value, strict=True)):
            try:
                items.append(reader(item))
            except InputError as error:
                raise error.add_parent(f"[{i}]") from None
        return tuple(items)

    def write_schema(self, writer: SchemaWriter) -> Schema:
        length = {"minItems": len(self.items), "maxItems": len(self.items)}
        items = {"items": [writer.write(item) for item in self.items]} if self.items else {}
        return {"type": "array", **items, **length}


class DictConverter(Converter):
    """Converts a JSON object with keys of one type and values of one type to a dict or another mapping."""

    name = "object"
    hashable = False

    def __init__(
        self, key: Converter | None, value: Converter, build: Callable[[dict[object, object]], object] = dict
    ) -> None:
        #: The converter of the keys; None for text keys, which need no conversion.
        self.key = key
        self.value = value
        self.build = build

    def read_strict(self, value: object) -> object:
        return self._read(value, None if self.key is None else self.key.read_strict, self.value.read_strict)

    def read_lenient(self, value: object) -> object:
        return self._read(value, None if self.key is None else self.key.read_lenient, self.value.read_lenient)

    def _read(self, table: Any, key: Callable[[object], object] | None, reader: Callable[[object], object]) -> object:
        if not isinstance(table, dict):
            raise self.make_error(table)
        if key is None and type(self.value) is AnyConverter:
            return table if self.build is dict else self.build(table)
        result = {}
        for name, item in table.items():
            try:
                result[name if key is None else key(name)] = reader(item)
            except InputError as error:
                raise error.add_parent(format_key(name)) from None
        return result if self.build is dict else self.build(result)

    def write_schema(self, writer: SchemaWriter) -> Schema:
        schema: Schema = {"type": "object"}
        if self.key is not None:
            schema["propertyNames"] = writer.write(self.key)
        values = writer.write(self.value)
        if values:
            schema["additionalProperties"] = values
        return schema


class ObjectField(NamedTuple):
    """A field of a JSON object, and the constructor argument that it fills."""

    #: The key of the field in the JSON object.
    wire_name: str
    #: The argument of the constructor.
    argument: str
    converter: Converter
    required: bool
    #: Whether the constructor has a default for a missing field. Otherwise a missing field becomes None.
    has_default: bool
    description: str | None = None


class FieldReader(NamedTuple):
    """The data that `read` of a field needs, collected in advance to make the loop over fields fast."""

    wire_name: str
    argument: str
    read: Callable[[object], object]
    #: Whether null is passed to `read`. Otherwise a field that is null counts as missing.
    reads_null: bool
    required: bool
    has_default: bool
    expected: str


def make_readers(fields: Sequence[ObjectField], *, strict: bool) -> list[FieldReader]:
    """Return the readers of fields. Lenient readers treat null as missing, because an unresolved `${...}` is null."""
    return [
        FieldReader(
            field.wire_name,
            field.argument,
            field.converter.read_strict if strict else field.converter.read_lenient,
            strict or field.converter.nullable,
            field.required,
            field.has_default,
            field.converter.name,
        )
        for field in fields
    ]


def read_fields(given: dict[str, Any], readers: Sequence[FieldReader]) -> dict[str, Any]:
    """Convert the values of a JSON object, and return them as arguments by name.

    Raises:
        InputError: A value is wrong or missing.
    """
    arguments: dict[str, Any] = {}
    for wire_name, argument, read, reads_null, required, has_default, expected in readers:
        value = given.get(wire_name)
        if value is not None or (reads_null and wire_name in given):
            try:
                arguments[argument] = read(value)
            except InputError as error:
                raise error.add_parent(format_key(wire_name)) from None
        elif required:
            raise InputError(format_key(wire_name), f"is missing (expected {expected})")
        elif not has_default:
            arguments[argument] = None
    return arguments


class ObjectConverter(Converter):
    """Converts a JSON object with known fields to a Python object."""

    hashable = False

    def __init__(self, name: str, build: Callable[..., Any], kind: type | None = None, description: str = "") -> None:
        self.name = name
        self.build = build
        self.kind = kind
        self.description = description
        #: Whether lenient reading rejects unknown fields too, because the class forbids them.
        self.forbids_unknown = False
        self.set_fields(())

    def set_fields(self, fields: Sequence[ObjectField]) -> None:
        """Set the fields. A type may contain itself, so its converter exists before its fields are known."""
        self.fields = fields
        self._known = frozenset(field.wire_name for field in fields)
        self._strict = make_readers(fields, strict=True)
        self._lenient = make_readers(fields, strict=False)

    def read_strict(self, value: object) -> object:
        if not isinstance(value, dict):
            raise self.make_error(value)
        self._reject_unknown(value)
        return self._build_object(read_fields(value, self._strict))

    def read_lenient(self, value: object) -> object:
        if not isinstance(value, dict):
            if self.kind is not None and isinstance(value, self.kind):
                return value
            raise self.make_error(value)
        if self.forbids_unknown:
            self._reject_unknown(value)
        return self._build_object(read_fields(value, self._lenient))

    def _reject_unknown(self, value: dict[str, Any]) -> None:
        if value.keys() <= self._known:
            return
        unknown = next(key for key in value if key not in self._known)
        error = InputError(format_key(unknown), f"is not a field of {self.name}")
        error.is_other_type = True
        raise error

    def _build_object(self, arguments: dict[str, Any]) -> object:
        try:
            return self.build(**arguments)
        except (TypeError, ValueError) as error:
            raise InputError("", f"{self.name} rejected the values: {error}") from error

    def write_schema(self, writer: SchemaWriter) -> Schema:
        return write_object_schema(
            self.fields, writer, additional=not (writer.strict or self.forbids_unknown), description=self.description
        )


def write_object_schema(
    fields: Sequence[ObjectField], writer: SchemaWriter, *, additional: bool | Schema, description: str = ""
) -> Schema:
    """Return the schema of an object with these fields."""
    properties = {}
    for field in fields:
        schema = writer.write(field.converter)
        properties[field.wire_name] = (
            add_keywords(schema, {"description": field.description}) if field.description else schema
        )
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": properties,
        "required": [field.wire_name for field in fields if field.required],
        "additionalProperties": additional,
    }


class NamedTupleConverter(Converter):
    """Converts a JSON array or a JSON object to a named tuple."""

    def __init__(self, array: TupleConverter, table: ObjectConverter) -> None:
        self.array = array
        self.table = table
        self.name = table.name
        self.hashable = array.hashable

    def read_strict(self, value: object) -> object:
        return self._read(value, self.array.read_strict, self.table.read_strict)

    def read_lenient(self, value: object) -> object:
        return self._read(value, self.array.read_lenient, self.table.read_lenient)

    def _read(
        self, value: object, array: Callable[[object], tuple[object, ...]], table: Callable[[object], object]
    ) -> object:
        if not isinstance(value, list):
            return table(value)
        names = [field.argument for field in self.table.fields]
        return self.table.build(**dict(zip(names, array(value), strict=True)))

    def write_schema(self, writer: SchemaWriter) -> Schema:
        return {"anyOf": [writer.write(self.array), writer.write(self.table)]}


_LIBRARIES = ("msgspec", "annotated_types", "pydantic")
_NUMBER_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_LENGTH_KEYWORDS = {
    StrConverter: ("minLength", "maxLength"),
    ArrayConverter: ("minItems", "maxItems"),
    DictConverter: ("minProperties", "maxProperties"),
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


def add_constraints(converter: Converter, metadata: Sequence[Any]) -> Converter:
    """Return a converter that also checks the bounds in the metadata of `Annotated`."""
    bounds = {name: bound for item in _flatten(metadata) for name, bound in _list_bounds(item)}
    if not bounds:
        return converter
    if isinstance(converter, OptionalConverter):
        return OptionalConverter(BoundedConverter(converter.inner, bounds))
    return BoundedConverter(converter, bounds)


def _flatten(metadata: Iterable[Any]) -> Iterable[Any]:
    """Yield the metadata and the items inside them, because pydantic's `Field()` contains a list of metadata."""
    for item in metadata:
        yield item
        if _is_known(item):
            yield from _flatten(getattr(item, "metadata", None) or ())


def _is_known(item: Any) -> bool:
    return (type(item).__module__ or "").partition(".")[0] in _LIBRARIES


def _list_bounds(item: Any) -> Iterable[tuple[str, Any]]:
    if not _is_known(item):
        return
    for name in _CHECKS:
        bound = getattr(item, name, None)
        if bound is not None:
            yield name, getattr(bound, "pattern", bound) if name == "pattern" else bound


def find_description(annotation: Any) -> str | None:
    """Return the description in `Annotated`: a text, `Doc(...)`, or an item with a `description`."""
    for item in getattr(annotation, "__metadata__", ()):
        found = item if isinstance(item, str) else getattr(item, "documentation", None)
        if found is None and _is_known(item):
            found = getattr(item, "description", None)
        if isinstance(found, str):
            return found
    if typing.get_origin(annotation) in (typing.Required, typing.NotRequired):
        return find_description(typing.get_args(annotation)[0])
    return None


class BoundedConverter(Converter):
    """Converts with another converter, and then checks bounds such as a minimum."""

    def __init__(self, inner: Converter, bounds: dict[str, Any]) -> None:
        self.inner = inner
        self.bounds = bounds
        self.name = inner.name
        self.nullable = inner.nullable
        self.hashable = inner.hashable

    def read_strict(self, value: object) -> object:
        return self._check(self.inner.read_strict(value))

    def read_lenient(self, value: object) -> object:
        return self._check(self.inner.read_lenient(value))

    def _check(self, value: object) -> object:
        for name, bound in self.bounds.items():
            words, holds = _CHECKS[name]
            try:
                if holds(value, bound):
                    continue
            except TypeError:  # the value has a type that the bound does not apply to
                pass
            raise InputError("", f"expected {self.name} {words} {bound}, got {format_value(value)}")
        return value

    def write_schema(self, writer: SchemaWriter) -> Schema:
        keywords = {self._keyword(name): bound for name, bound in self.bounds.items()}
        if None in keywords:
            writer.omitted += [f"{self.name} with {name}" for name in self.bounds if self._keyword(name) is None]
        return add_keywords(
            writer.write(self.inner), {keyword: bound for keyword, bound in keywords.items() if keyword}
        )

    def _keyword(self, name: str) -> str | None:
        """Return the keyword of JSON Schema for a bound; None if there is none for this type."""
        inner = self.inner
        while isinstance(inner, BoundedConverter):
            inner = inner.inner
        if name in _NUMBER_KEYWORDS and isinstance(inner, (IntConverter, FloatConverter)):
            return _NUMBER_KEYWORDS[name]
        if name == "pattern" and isinstance(inner, StrConverter):
            return "pattern"
        lengths = _LENGTH_KEYWORDS.get(type(inner))
        # A schema counts the items of the array with their duplicates, but a set has none, so the lengths may differ.
        is_set = isinstance(inner, ArrayConverter) and inner.build in (set, frozenset)
        if name in ("min_length", "max_length") and lengths and not is_set:
            return lengths[name == "max_length"]
        return None
