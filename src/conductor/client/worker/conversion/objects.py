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


class FieldReader(NamedTuple):
    """How one field is read in one mode, laid out for a quick loop."""

    wire_name: str
    argument: str
    read: Callable[[Any], Any]
    #: Whether null is handed to `read`; if not, it counts as not given.
    reads_null: bool
    required: bool
    has_default: bool
    expected: str


def strict_readers(fields: Sequence[ObjectField]) -> list[FieldReader]:
    """The fields as strict input reads them."""
    return [FieldReader(f.wire_name, f.argument, f.node.strict, True, *f[3:5], f.node.name) for f in fields]


def lenient_readers(fields: Sequence[ObjectField]) -> list[FieldReader]:
    """The fields as lenient input reads them: null without a meaning is what an unresolved ${...} left behind."""
    return [FieldReader(f.wire_name, f.argument, f.node.lenient, f.node.nullable, *f[3:5], f.node.name) for f in fields]


def read_fields(given: dict[str, Any], readers: Sequence[FieldReader]) -> dict[str, Any]:
    """The arguments that the given values make."""
    arguments: dict[str, Any] = {}
    for wire_name, argument, read, reads_null, required, has_default, expected in readers:
        value = given.get(wire_name)
        if value is not None or (reads_null and wire_name in given):
            try:
                arguments[argument] = read(value)
            except InputError as error:
                raise error.inside(member(wire_name)) from None
        elif required:
            raise InputError(member(wire_name), f"is missing (expected {expected})")
        elif not has_default:
            arguments[argument] = None
    return arguments


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
        self.set_fields(())

    def set_fields(self, fields: Sequence[ObjectField]) -> None:
        """A type may contain itself: the node exists before its fields are read."""
        self.fields = fields
        self._known = frozenset(field.wire_name for field in fields)
        self._strict = strict_readers(fields)
        self._lenient = lenient_readers(fields)

    def strict(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise self.wrong(value)
        self._refuse_unknown(value)
        return self._made(read_fields(value, self._strict))

    def lenient(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if self.kind is not None and isinstance(value, self.kind):
                return value
            raise self.wrong(value)
        if self.closed:
            self._refuse_unknown(value)
        return self._made(read_fields(value, self._lenient))

    def _refuse_unknown(self, value: dict[str, Any]) -> None:
        if value.keys() <= self._known:
            return
        unknown = next(key for key in value if key not in self._known)
        error = InputError(member(unknown), f"is not a field of {self.name}")
        error.elsewhere = True
        raise error

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
