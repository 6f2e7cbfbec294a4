"""The fields a class is made of: dataclass, struct, attrs, named tuple, typed dict, pydantic model."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from conductor.client.worker.conversion.hints import hints_of


class Declared(NamedTuple):
    """One field as the class declares it."""

    wire_name: str
    argument: str
    annotation: Any
    has_default: bool
    #: Whether it must be given even where null is allowed.
    always_required: bool = False
    description: str | None = None


def fields_of_class(cls: type) -> list[Declared] | None:
    """The fields that make an instance, or None if the class is not one that is made of fields."""
    if hasattr(cls, "__pydantic_fields__"):
        return list(_pydantic_fields(cls))
    if typing.is_typeddict(cls):
        return list(_typed_dict_fields(cls))
    if issubclass(cls, msgspec.Struct):
        return list(_struct_fields(cls))
    if dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__") or is_named_tuple(cls):
        return list(_constructor_fields(cls))
    return None


def is_named_tuple(cls: type) -> bool:
    """Whether the class is a named tuple, typed or not."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _constructor_fields(cls: type) -> Iterator[Declared]:
    """Dataclass, attrs, named tuple: what the constructor takes, under the annotation of the field of that name."""
    hints = hints_of(cls)
    private = {a.alias: a.name for a in getattr(cls, "__attrs_attrs__", ())}
    metadata = {f.name: f.metadata for f in getattr(cls, "__dataclass_fields__", {}).values()}
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(private.get(name, name), Any)
        description = metadata.get(name, {}).get("description")
        yield Declared(name, name, annotation, parameter.default is not parameter.empty, description=description)


def _struct_fields(cls: type[msgspec.Struct]) -> Iterator[Declared]:
    hints = hints_of(cls)
    for field in msgspec.structs.fields(cls):
        yield Declared(field.encode_name, field.name, hints[field.name], not field.required)


def _typed_dict_fields(cls: Any) -> Iterator[Declared]:
    required = cls.__required_keys__
    for name, annotation in hints_of(cls).items():
        # Inside a string Required and NotRequired were not seen when the class was made.
        marks: Sequence[Any] = [typing.get_origin(annotation)]
        needed = typing.Required in marks or (name in required and typing.NotRequired not in marks)
        yield Declared(name, name, annotation, has_default=not needed, always_required=True)


def _pydantic_fields(cls: Any) -> Iterator[Declared]:
    for name, field in cls.__pydantic_fields__.items():
        alias = field.validation_alias or field.alias or name
        annotation = field.annotation
        if field.metadata:
            annotation = typing.Annotated[annotation, *field.metadata]
        yield Declared(alias, alias, annotation, not field.is_required(), True, field.description)
