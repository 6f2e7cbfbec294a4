"""Types made of named fields. See `node` for what a node promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from conductor.client.worker.conversion.containers import TupleNode
from conductor.client.worker.conversion.node import InputError, Node, Schema, SchemaWriter, beside, member


class ObjectField(NamedTuple):
    """One field of an object: the name it travels under and how it is read."""

    wire_name: str
    argument: str
    node: Node
    required: bool
    #: Left out when not given: the constructor has a default. Otherwise a missing one becomes None.
    has_default: bool
    description: str | None = None


class ObjectNode(Node):
    """A JSON object with known fields, and the Python object that is made of them."""

    hashable = False

    def __init__(self, name: str, build: Callable[..., Any], kind: type | None = None, description: str = "") -> None:
        self.name = name
        self.build = build
        self.kind = kind
        self.description = description
        #: Whether the class itself forbids unknown fields; a lenient reader ignores them otherwise.
        self.closed = False
        self.fields: Sequence[ObjectField] = ()
        self.known: frozenset[str] = frozenset()

    def set_fields(self, fields: Sequence[ObjectField]) -> None:
        """A type may contain itself: the node exists before its fields are read."""
        self.fields = fields
        self.known = frozenset(field.wire_name for field in fields)

    def strict(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise self.wrong(value)
        self._refuse_unknown(value)
        arguments: dict[str, Any] = {}
        for field in self.fields:
            if field.wire_name in value:
                self._put(arguments, field, field.node.strict, value[field.wire_name])
            elif field.required:
                raise InputError(field.wire_name, f"is missing (expected {field.node.name})")
            elif not field.has_default:
                arguments[field.argument] = None
        return self._made(arguments)

    def lenient(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if self.kind is not None and isinstance(value, self.kind):
                return value
            raise self.wrong(value)
        if self.closed:
            self._refuse_unknown(value)
        arguments: dict[str, Any] = {}
        for field in self.fields:
            item = value.get(field.wire_name)
            if item is not None or (field.node.nullable and field.wire_name in value):
                self._put(arguments, field, field.node.lenient, item)
            elif field.required:
                raise InputError(field.wire_name, f"is missing (expected {field.node.name})")
            elif not field.has_default:
                arguments[field.argument] = None
        return self._made(arguments)

    def _refuse_unknown(self, value: dict[str, Any]) -> None:
        for key in value:
            if key not in self.known:
                error = InputError(member(key), f"is not a field of {self.name}")
                error.elsewhere = True
                raise error

    def _put(self, into: dict[str, Any], field: ObjectField, reader: Callable[[Any], Any], value: Any) -> None:
        try:
            into[field.argument] = reader(value)
        except InputError as error:
            raise error.inside(field.wire_name) from None

    def _made(self, arguments: dict[str, Any]) -> Any:
        try:
            return self.build(**arguments)
        except (TypeError, ValueError) as error:
            raise InputError("", f"{self.name} refused the values: {error}") from error

    def schema(self, writer: SchemaWriter) -> Schema:
        return object_schema(
            self.fields, writer, additional=not (writer.strict or self.closed), description=self.description
        )


def object_schema(
    fields: Sequence[ObjectField], writer: SchemaWriter, *, additional: bool | Schema, description: str = ""
) -> Schema:
    """The schema of an object with these fields."""
    properties = {}
    for field in fields:
        schema = writer.write(field.node)
        properties[field.wire_name] = (
            beside(schema, {"description": field.description}) if field.description else schema
        )
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": properties,
        "required": [field.wire_name for field in fields if field.required],
        "additionalProperties": additional,
    }


class EitherFormNode(Node):
    """A named tuple: an array in the order of its fields, or an object by their names."""

    def __init__(self, array: TupleNode, table: ObjectNode) -> None:
        self.array = array
        self.table = table
        self.name = table.name
        self.hashable = array.hashable

    def strict(self, value: Any) -> Any:
        return self._read(value, self.array.strict, self.table.strict)

    def lenient(self, value: Any) -> Any:
        return self._read(value, self.array.lenient, self.table.lenient)

    def _read(self, value: Any, array: Callable[[Any], Any], table: Callable[[Any], Any]) -> Any:
        if not isinstance(value, list):
            return table(value)
        names = [field.argument for field in self.table.fields]
        return self.table.build(**dict(zip(names, array(value), strict=True)))

    def schema(self, writer: SchemaWriter) -> Schema:
        return {"anyOf": [writer.write(self.array), writer.write(self.table)]}
