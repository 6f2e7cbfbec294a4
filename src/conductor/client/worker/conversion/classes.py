"""Converters of classes with fields: dataclasses, attrs, named tuples, typed dicts, msgspec structs, pydantic models.

Pydantic itself reads pydantic models. This module also reads their fields, to write the schema.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from conductor.client.worker.conversion.containers import (
    NamedTupleConverter,
    ObjectConverter,
    ObjectField,
    TupleConverter,
    find_description,
)
from conductor.client.worker.conversion.converter import (
    Converter,
    InputError,
    NoSchemaError,
    Schema,
    SchemaWriter,
    format_key,
)
from conductor.client.worker.conversion.scalars import make_literal_converter
from conductor.client.worker.conversion.type_hints import resolve_hints
from conductor.client.worker.parameters import list_parameters

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: A function that returns the converter of an annotation.
_ReadAnnotation = Callable[[Any], Converter]


def find_field_reader(cls: type) -> Callable[[_ReadAnnotation], list[ObjectField]] | None:
    """Return the function that reads the fields of a class; None if the class has no declared fields."""
    for is_kind, fields in _KINDS:
        if is_kind(cls):
            return lambda read: list(fields(cls, read))
    return None


def is_named_tuple(cls: type) -> bool:
    """Return whether the class is a named tuple."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _constructor_fields(cls: type, read: _ReadAnnotation) -> Iterator[ObjectField]:
    """Yield the constructor parameters of a dataclass, attrs class or named tuple, with the fields' annotations."""
    hints = resolve_hints(cls)
    private = {a.alias: a.name for a in getattr(cls, "__attrs_attrs__", ())}
    metadata = {f.name: f.metadata for f in getattr(cls, "__dataclass_fields__", {}).values()}
    for name, parameter in list_parameters(cls).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(private.get(name, name), Any)
        description = metadata.get(name, {}).get("description")
        yield _field(name, name, annotation, read, parameter.default is not parameter.empty, description=description)


def _struct_fields(cls: type[msgspec.Struct], read: _ReadAnnotation) -> Iterator[ObjectField]:
    hints = resolve_hints(cls)
    for field in msgspec.structs.fields(cls):
        yield _field(field.encode_name, field.name, hints[field.name], read, not field.required)


def _typed_dict_fields(cls: Any, read: _ReadAnnotation) -> Iterator[ObjectField]:
    required = cls.__required_keys__
    for name, annotation in resolve_hints(cls).items():
        # `__required_keys__` ignores Required and NotRequired in annotations that are strings, so check these here.
        marks: Sequence[Any] = [typing.get_origin(annotation)]
        needed = typing.Required in marks or (name in required and typing.NotRequired not in marks)
        yield _field(name, name, annotation, read, not needed, always_required=True)


def _pydantic_fields(cls: Any, read: _ReadAnnotation) -> Iterator[ObjectField]:
    for name, field in cls.__pydantic_fields__.items():
        alias = field.validation_alias or field.alias or name
        annotation = field.annotation
        if field.metadata:
            annotation = typing.Annotated[annotation, *field.metadata]
        yield _field(alias, alias, annotation, read, not field.is_required(), True, field.description)


_KINDS: list[tuple[Callable[[type], bool], Callable[[Any, _ReadAnnotation], Iterator[ObjectField]]]] = [
    (lambda cls: hasattr(cls, "__pydantic_fields__"), _pydantic_fields),
    (typing.is_typeddict, _typed_dict_fields),
    (lambda cls: issubclass(cls, msgspec.Struct), _struct_fields),
    (dataclasses.is_dataclass, _constructor_fields),
    (lambda cls: hasattr(cls, "__attrs_attrs__"), _constructor_fields),
    (is_named_tuple, _constructor_fields),
]


def _field(
    wire_name: str,
    argument: str,
    annotation: Any,
    read: _ReadAnnotation,
    has_default: bool,
    always_required: bool = False,
    description: str | None = None,
) -> ObjectField:
    """Make a field. With `always_required`, a field without a default is required even if null is allowed."""
    converter = read(annotation)
    required = not has_default and (always_required or not converter.nullable)
    return ObjectField(
        wire_name, argument, converter, required, has_default, description or find_description(annotation)
    )


#: A placeholder for the tag of a struct, which is a field of the JSON but not an argument of the constructor.
_TAG = "<tag>"


def make_object_converter(cls: type, fields: Sequence[ObjectField]) -> Converter:
    """Return the converter of a class with these fields."""
    converter = ObjectConverter(cls.__name__, dict if typing.is_typeddict(cls) else cls, cls, read_docstring(cls))
    converter.set_fields(fields)
    if hasattr(cls, "__pydantic_validator__"):
        return PydanticConverter(cls, converter)
    if is_named_tuple(cls):
        return NamedTupleConverter(TupleConverter([field.converter for field in fields]), converter)
    if issubclass(cls, msgspec.Struct):
        return make_struct_converter(cls, converter)
    return converter


class PydanticConverter(Converter):
    """Lets pydantic read a pydantic model or dataclass. Lenient reading is pydantic's lax mode."""

    hashable = False

    def __init__(self, cls: Any, fields: ObjectConverter) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.fields = fields
        fields.build = self._build
        fields.forbids_unknown = self._config.get("extra") == "forbid"

    @property
    def _config(self) -> Any:
        return getattr(self.cls, "model_config", None) or getattr(self.cls, "__pydantic_config__", None) or {}

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.cls)

    @cached_property
    def _omitted(self) -> list[str] | None:
        """Return the requirements of the model that the schema of its fields omits; None if there is no schema.

        Types of pydantic (URLs, secrets) and alternative aliases have no schema here.
        """
        if self._config.get("extra") == "allow" or getattr(self.cls, "__pydantic_root_model__", False):
            return None
        if not all(isinstance(field.wire_name, str) for field in self.fields.fields):
            return None
        writer = SchemaWriter(strict=True)
        try:
            self.fields.write_schema(writer)
        except NoSchemaError:
            return None
        return writer.omitted

    @property
    def _is_exact(self) -> bool:
        """Whether the schema of the fields expresses all requirements of the model."""
        return self._omitted == []

    def read_strict(self, value: object) -> object:
        return self.fields.read_strict(value) if self._is_exact else self._validate(value, strict=True)

    def read_lenient(self, value: object) -> object:
        if isinstance(value, self.cls):
            return value
        try:
            return self._validate(value, strict=False)
        except InputError:
            if not self._is_exact:
                raise
            # Pydantic rejects floats such as 1e300 for an int, but the schema accepts every whole number.
            with suppress(InputError):
                return self.fields.read_lenient(value)
            raise

    def _validate(self, value: object, *, strict: bool) -> object:
        try:
            return self._adapter.validate_json(msgspec.json.encode(value), strict=strict)
        except TypeError:  # the value cannot be encoded as JSON
            raise self.make_error(value) from None
        except ValueError as error:
            raise _make_input_error(error) from None

    def _build(self, **arguments: Any) -> Any:
        try:
            return self._adapter.validate_python(arguments)
        except ValueError as error:
            raise _make_input_error(error) from None

    def write_schema(self, writer: SchemaWriter) -> Schema:
        if self._omitted is None:
            raise NoSchemaError(self.name)
        return self.fields.write_schema(writer)


def _make_input_error(error: Any) -> InputError:
    """Return the first error that pydantic reports, as an `InputError`."""
    first = error.errors()[0]
    result = InputError("", first["msg"])
    for part in reversed(first["loc"]):
        result = result.add_parent(f"[{part}]" if isinstance(part, int) else format_key(part))
    return result


def make_struct_converter(cls: type[msgspec.Struct], converter: ObjectConverter) -> Converter:
    """Return the converter of a msgspec struct, which may have a tag and forbid unknown fields."""
    config = cls.__struct_config__
    if config.array_like:
        return ArrayStructConverter(cls)
    converter.forbids_unknown = config.forbid_unknown_fields
    if config.tag_field is not None:
        tag = ObjectField(
            config.tag_field, _TAG, make_literal_converter((config.tag,)), required=True, has_default=False
        )
        converter.set_fields([tag, *converter.fields])
        converter.build = lambda **arguments: cls(**{k: v for k, v in arguments.items() if k != _TAG})
    return converter


class ArrayStructConverter(Converter):
    """Lets msgspec read a struct that is an array in JSON."""

    hashable = False

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        self.cls = cls
        self.name = cls.__name__

    def read_strict(self, value: object) -> object:
        return self._convert(value, strict=True)

    def read_lenient(self, value: object) -> object:
        return self._convert(value, strict=False)

    def _convert(self, value: object, *, strict: bool) -> object:
        try:
            return msgspec.convert(value, self.cls, strict=strict)
        except msgspec.ValidationError as error:
            raise InputError("", str(error)) from None


def read_docstring(documented: Any) -> str:
    """Return the first paragraph of a docstring; empty if it was generated, as for dataclasses and named tuples."""
    # `documented.__doc__` of a class may come from its base class.
    own = vars(documented).get("__doc__") if isinstance(documented, type) else documented.__doc__
    text = inspect.cleandoc(own or "")
    is_generated = text.startswith((f"{documented.__name__}(", "A Pydantic model"))
    return "" if is_generated else text.partition("\n\n")[0].replace("\n", " ")
