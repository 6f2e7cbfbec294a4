"""Finds the converter of an annotation, and writes the schema of a return annotation. Knows all supported types."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

from conductor.client.context.task_context import TaskInProgress
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.conversion.classes import PydanticConverter, find_field_reader, make_object_converter
from conductor.client.worker.conversion.containers import (
    ArrayConverter,
    DictConverter,
    NamedTupleConverter,
    ObjectConverter,
    OptionalConverter,
    TupleConverter,
    UnionConverter,
    add_constraints,
)
from conductor.client.worker.conversion.converter import (
    AnyConverter,
    Converter,
    DeferredConverter,
    NoSchemaError,
    OpaqueConverter,
    RawConverter,
    Schema,
    SchemaWriter,
)
from conductor.client.worker.conversion.scalars import (
    BoolConverter,
    ChoiceConverter,
    DecimalConverter,
    FloatConverter,
    IntConverter,
    IntTextConverter,
    NullConverter,
    PathConverter,
    ScalarConverter,
    StrConverter,
    make_enum_converter,
    make_literal_converter,
    make_text_converters,
)
from conductor.client.worker.conversion.type_hints import Unresolved

_SCALARS: Mapping[Any, Converter] = {
    Any: AnyConverter(),
    object: AnyConverter(),
    str: StrConverter(),
    typing.LiteralString: StrConverter(),
    Path: PathConverter(),
    PurePath: PathConverter(),
    int: IntConverter(),
    float: FloatConverter(),
    bool: BoolConverter(),
    None: NullConverter(),
    types.NoneType: NullConverter(),
    Decimal: DecimalConverter(),
    **make_text_converters(),
}
_ARRAYS: Mapping[Any, Callable[[Iterable[object]], object]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_DICTS: Mapping[Any, Callable[[dict[object, object]], object]] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
#: Types that are texts in JSON and therefore can be keys of an object.
_KEY_TYPES = (uuid.UUID, date, datetime)
_Variables = Mapping[Any, Any]


def read_annotation(annotation: Any) -> Converter:
    """Return the converter of an annotation. A type that cannot be created from JSON gets an `OpaqueConverter`."""
    return _Reader().read(annotation, {})


class _Reader:
    """Finds the converter of one annotation.

    Tracks the classes that it is reading, because a class may contain itself.
    """

    def __init__(self) -> None:
        self._inside: dict[Any, DeferredConverter] = {}

    def read(self, annotation: Any, variables: _Variables) -> Converter:
        annotation = variables.get(annotation, annotation) if isinstance(annotation, typing.TypeVar) else annotation
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            return self._read_annotated(annotation, variables)
        if _is_scalar(annotation):
            return _SCALARS[annotation]
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.read(typing.get_args(annotation)[0], variables)
        if origin is typing.Union or origin is types.UnionType:
            return self._read_union(typing.get_args(annotation), variables)
        if origin is typing.Literal:
            return make_literal_converter(typing.get_args(annotation))
        return self._read_class_or_alias(annotation, variables)

    def _read_annotated(self, annotation: Any, variables: _Variables) -> Converter:
        inner, *metadata = typing.get_args(annotation)
        return add_constraints(self.read(inner, variables), metadata)

    def _read_union(self, members: Sequence[Any], variables: _Variables) -> Converter:
        converters = [self.read(m, variables) for m in members if m is not types.NoneType]
        converter = converters[0] if len(converters) == 1 else UnionConverter(converters)
        return OptionalConverter(converter) if types.NoneType in members and not converter.nullable else converter

    def _read_class_or_alias(self, annotation: Any, variables: _Variables) -> Converter:
        if isinstance(annotation, Unresolved):
            return RawConverter()
        if isinstance(annotation, typing.NewType):
            return self.read(annotation.__supertype__, variables)
        if isinstance(annotation, typing.TypeVar):
            return self.read(annotation.__bound__ or Any, variables)
        if isinstance(annotation, dataclasses.InitVar):
            return self.read(annotation.type, variables)
        if hasattr(annotation, "__value__"):  # an alias from `type Name = ...`
            return self.read(annotation.__value__, variables)
        origin = typing.get_origin(annotation) or annotation
        arguments = typing.get_args(annotation)
        if not isinstance(origin, type):
            return OpaqueConverter(_format_type(annotation))
        if origin is tuple:
            bare = annotation in (tuple, typing.Tuple)  # noqa: UP006
            return self._read_tuple((Any, ...) if bare else arguments, variables)
        if origin in _ARRAYS:
            return self._read_array(_ARRAYS[origin], arguments, variables)
        if origin in _DICTS:
            return self._read_dict(_DICTS[origin], arguments, variables)
        return self._read_class(annotation, origin, arguments, variables)

    def _read_tuple(self, arguments: Sequence[Any], variables: _Variables) -> Converter:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ArrayConverter(self.read(arguments[0], variables), tuple)
        return TupleConverter([self.read(argument, variables) for argument in arguments])

    def _read_array(
        self, build: Callable[[Iterable[object]], object], arguments: Sequence[Any], variables: _Variables
    ) -> Converter:
        item = self.read(arguments[0], variables) if arguments else AnyConverter()
        if build in (set, frozenset) and type(item) is AnyConverter:
            item = ScalarConverter()
        return ArrayConverter(item, build)

    def _read_dict(
        self, build: Callable[[dict[object, object]], object], arguments: Sequence[Any], variables: _Variables
    ) -> Converter:
        if not arguments:
            return DictConverter(None, AnyConverter(), build)
        key = self.read(arguments[0], variables)
        value = self.read(arguments[1], variables)
        if isinstance(key, (StrConverter, AnyConverter)):
            return DictConverter(None, value, build)
        if isinstance(key, IntConverter):
            return DictConverter(IntTextConverter(), value, build)
        if isinstance(key, ChoiceConverter):
            return DictConverter(key.as_keys(), value, build)
        if arguments[0] in _KEY_TYPES:
            return DictConverter(key, value, build)
        return OpaqueConverter(f"a mapping with keys of type {key.name}")

    def _read_class(self, annotation: Any, cls: type, arguments: Sequence[Any], variables: _Variables) -> Converter:
        if issubclass(cls, Enum):
            return make_enum_converter(cls)
        read_fields = find_field_reader(cls)
        if read_fields is None:
            return OpaqueConverter(_format_type(annotation))
        # The `repr` is the key, because arguments may contain metadata that is not hashable.
        key = (cls, repr(arguments))
        if key in self._inside:
            return self._inside[key]
        bound = _bind_type_variables(cls, [variables.get(a, a) for a in arguments])
        self._inside[key] = deferred = DeferredConverter(cls.__name__)
        try:
            deferred.target = make_object_converter(cls, read_fields(lambda inner: self.read(inner, bound)))
        finally:
            del self._inside[key]
        return deferred.target


def _bind_type_variables(cls: Any, arguments: Sequence[Any]) -> dict[Any, Any]:
    """Return the values of the type variables of a generic class and its generic base classes."""
    bound = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if isinstance(origin, type) and origin not in (typing.Generic, typing.Protocol):
            bound |= _bind_type_variables(origin, [bound.get(a, a) for a in typing.get_args(base)])
    return bound


def _is_scalar(annotation: Any) -> bool:
    try:
        return annotation in _SCALARS
    except TypeError:  # not hashable, hence not a scalar type
        return False


def _format_type(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def write_output_schema(annotation: Any, writer: SchemaWriter) -> Schema:
    """Return the schema of the task output of a function with this return annotation."""
    members = _list_members(annotation)
    schemas = [_write_member(member, writer) for member in members if member is not types.NoneType]
    if not schemas:
        raise NoSchemaError("no result")
    if types.NoneType in members:
        schemas.append(_wrap_schema({"type": "null"}, writer))
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def wraps_result(annotation: Any) -> bool | None:
    """Return whether a return value becomes `{"result": value}`; None if the annotation does not determine it."""
    try:
        converters = [read_annotation(member) for member in _list_members(annotation) if member is not types.NoneType]
    except NoSchemaError:
        return None
    kinds = {
        _is_object(converter.table if isinstance(converter, NamedTupleConverter) else converter)
        for converter in converters
    }
    if any(isinstance(converter, AnyConverter) for converter in converters) or len(kinds) > 1:
        return None
    return not kinds or not kinds.pop()


def _list_members(annotation: Any) -> list[Any]:
    """Return the types in a return annotation whose values become the task output. `TaskInProgress` is left out."""
    origin = typing.get_origin(annotation)
    if origin in (collections.abc.Awaitable, collections.abc.Coroutine):
        return _list_members(typing.get_args(annotation)[-1])
    if origin is typing.Union or origin is types.UnionType:
        return [m for member in typing.get_args(annotation) for m in _list_members(member)]
    if annotation is TaskResult:
        raise NoSchemaError("TaskResult")
    if annotation is TaskInProgress:
        return []
    return [types.NoneType if annotation is None else annotation]


def _write_member(annotation: Any, writer: SchemaWriter) -> Schema:
    converter = read_annotation(annotation)
    if isinstance(converter, NamedTupleConverter):
        converter = converter.table
    schema = writer.write(converter)
    if not schema:
        raise NoSchemaError("any result")
    return schema if _is_object(converter) else _wrap_schema(schema, writer)


def _wrap_schema(schema: Schema, writer: SchemaWriter) -> Schema:
    """Return the schema of `{"result": value}`, the output for a value that is not an object."""
    return {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "additionalProperties": not writer.strict,
    }


def _is_object(converter: Converter) -> bool:
    return isinstance(converter, (DictConverter, ObjectConverter, PydanticConverter))
