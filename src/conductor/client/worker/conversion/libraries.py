"""What pydantic models and msgspec structs say beyond their fields.

Pydantic itself judges its models; where our reading of the fields is exact, it is asked first and gives the schema.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from conductor.client.worker.conversion.node import InputError, Node, NoSchemaError, Schema, SchemaWriter, member
from conductor.client.worker.conversion.objects import ObjectField, ObjectNode
from conductor.client.worker.conversion.scalars import literal_node

_TAG = "<tag>"


def is_pydantic(cls: type) -> bool:
    """Whether the class is a pydantic model or dataclass; asks without importing pydantic."""
    return hasattr(cls, "__pydantic_validator__")


class PydanticNode(Node):
    """A pydantic model. Lenient input is pydantic's own lax mode, validators, aliases and all."""

    hashable = False

    def __init__(self, cls: Any, reading: ObjectNode) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.reading = reading
        reading.build = self._build
        reading.closed = self._config.get("extra") == "forbid"

    @property
    def _config(self) -> Any:
        return getattr(self.cls, "model_config", None) or getattr(self.cls, "__pydantic_config__", None) or {}

    @cached_property
    def _left_out(self) -> list[str] | None:
        """What the schema of our reading leaves out; None if there can be no schema.

        Our reading does not know types of pydantic's own (a URL, a secret), nor which of several aliases will come.
        """
        if self._config.get("extra") == "allow" or getattr(self.cls, "__pydantic_root_model__", False):
            return None
        if not all(isinstance(field.wire_name, str) for field in self.reading.fields):
            return None
        writer = SchemaWriter(strict=True)
        try:
            self.reading.schema(writer)
        except NoSchemaError:
            return None
        return writer.left_out

    @property
    def _is_exact(self) -> bool:
        """Whether our reading knows all that the model demands."""
        return self._left_out == []

    def strict(self, value: Any) -> Any:
        return self.reading.strict(value) if self._is_exact else self._validate(value, strict=True)

    def lenient(self, value: Any) -> Any:
        if isinstance(value, self.cls):
            return value
        try:
            return self._validate(value, strict=False)
        except InputError:
            if not self._is_exact:
                raise
            # Pydantic reads no whole number like 1e300 as an int, which the schema promises.
            with suppress(InputError):
                return self.reading.lenient(value)
            raise

    def _validate(self, value: Any, *, strict: bool) -> Any:
        try:
            return self.cls.__pydantic_validator__.validate_json(msgspec.json.encode(value), strict=strict)
        except TypeError:  # not JSON: something that only code can have put there
            raise self.wrong(value) from None
        except ValueError as error:
            raise _input_error(error) from None

    def _build(self, **arguments: Any) -> Any:
        try:
            return self.cls.__pydantic_validator__.validate_python(arguments)
        except ValueError as error:
            raise _input_error(error) from None

    def schema(self, writer: SchemaWriter) -> Schema:
        if self._left_out is None:
            raise NoSchemaError(self.name)
        return self.reading.schema(writer)


def _input_error(error: Any) -> InputError:
    """The first of the errors that pydantic found."""
    first = error.errors()[0]
    result = InputError("", first["msg"])
    for part in reversed(first["loc"]):
        result = result.inside(f"[{part}]" if isinstance(part, int) else member(part))
    return result


def struct_node(cls: type[msgspec.Struct], node: ObjectNode) -> Node:
    """The node of a struct: its fields, its tag, and whether it forbids unknown fields."""
    config = cls.__struct_config__
    if config.array_like:
        return ArrayStructNode(cls)
    node.closed = config.forbid_unknown_fields
    if config.tag_field is not None:
        tag = ObjectField(config.tag_field, _TAG, literal_node((config.tag,)), required=True, has_default=False)
        node.set_fields([tag, *node.fields])
        node.build = lambda **arguments: cls(**{k: v for k, v in arguments.items() if k != _TAG})
    return node


class ArrayStructNode(Node):
    """A struct that travels as an array: msgspec reads it."""

    hashable = False

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        self.cls = cls
        self.name = cls.__name__

    def strict(self, value: Any) -> Any:
        return self._convert(value, strict=True)

    def lenient(self, value: Any) -> Any:
        return self._convert(value, strict=False)

    def _convert(self, value: Any, *, strict: bool) -> Any:
        try:
            return msgspec.convert(value, self.cls, strict=strict)
        except msgspec.ValidationError as error:
            raise InputError("", str(error)) from None
