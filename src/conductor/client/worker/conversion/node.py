"""One reading of one annotation: how a JSON value becomes the Python value, and which values a schema admits.

Each node answers for both, so that they cannot drift apart: what `strict` accepts is what `schema` describes.
`lenient` accepts more: numbers in text, missing optional parts, unknown keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from conductor.client.worker.exception import NonRetryableException

Schema = dict[str, Any]

_SHOWN_CHARS = 60


class InputError(NonRetryableException):
    """The task's input does not fit the worker's parameters; `path` says where. Trying again would not help."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        #: Whether the value looks like one of another type: where several were tried, this was not the one.
        self.elsewhere = False

    def inside(self, part: str) -> InputError:
        """The same error, seen from one level further out."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        outer = InputError(f"{part}{separator}{self.path}", self.message)
        outer.elsewhere = self.elsewhere
        return outer

    @property
    def depth(self) -> int:
        """How many levels down the path leads."""
        return self.path.count(".") + self.path.count("[") + 1 if self.path else 0

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class NoSchemaError(Exception):
    """The type has no JSON Schema that says exactly what is accepted."""


class SchemaWriter:
    """The state of writing one schema: strictness, and definitions of the types that contain themselves."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Node, str] = {}
        self._referred: set[str] = set()

    def write(self, node: Node) -> Schema:
        """The schema of a node; a reference where the node is inside itself."""
        if node in self._open:
            name = self._open[node]
            self._referred.add(name)
            return _reference(name)
        self._open[node] = name = self._free_name(node.name)
        try:
            schema = node.schema(self)
        finally:
            del self._open[node]
        if name not in self._referred:
            return schema
        self.definitions[name] = schema
        return _reference(name)

    def _free_name(self, name: str) -> str:
        taken = {*self.definitions, *self._open.values()}
        return name if name not in taken else self._free_name(name + "_")


def _reference(name: str) -> Schema:
    escaped = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
    return {"$ref": f"#/definitions/{escaped}"}


def beside(schema: Schema, more: Mapping[str, Any]) -> Schema:
    """The schema with more keywords. Draft-07 ignores what stands beside `$ref`, so a reference is wrapped."""
    return {"allOf": [schema], **more} if "$ref" in schema else {**schema, **more}


def shown(value: Any) -> str:
    """A value in an error message: short, and null as JSON calls it."""
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


class Node:
    """How one annotation reads JSON."""

    #: What error messages call the type.
    name: str = "value"
    #: Whether null is a value of its own; if not, a lenient reader takes null for "not given".
    nullable: bool = False
    #: Whether every value read by it can be a member of a set.
    hashable: bool = True

    def strict(self, value: Any) -> Any:
        """The Python value of exactly the JSON that `schema` describes, or InputError."""
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        """Like `strict`, and willing to convert."""
        return self.strict(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        """Draft-07, or NoSchemaError."""
        raise NoSchemaError(self.name)

    def wrong(self, value: Any) -> InputError:
        """The error for a value of the wrong kind."""
        return InputError("", f"expected {self.name}, got {shown(value)}")


class AnyNode(Node):
    """Everything, as it came."""

    name = "any value"
    nullable = True
    hashable = False

    def strict(self, value: Any) -> Any:
        return value

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {}


class OpaqueNode(Node):
    """An annotation that JSON cannot be turned into. The parameter works only as long as its default is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wrong(self, value: Any) -> InputError:
        return InputError("", f"{self.name} cannot be made from JSON (got {shown(value)})")


class RawNode(AnyNode):
    """A parameter without a readable annotation: takes what came, and leaves no schema."""

    def schema(self, writer: SchemaWriter) -> Schema:
        return Node.schema(self, writer)


class DeferredNode(Node):
    """Stands for a type inside its own definition until that has been read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target: Node = self
        self.hashable = False

    def strict(self, value: Any) -> Any:
        return self.target.strict(value)

    def lenient(self, value: Any) -> Any:
        return self.target.lenient(value)

    def schema(self, writer: SchemaWriter) -> Schema:
        return writer.write(self.target)


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
        if not isinstance(value, list | tuple | set | frozenset):
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


def member(name: Any) -> str:
    """A key as part of a path."""
    return name if isinstance(name, str) and name.isidentifier() else f"[{name!r}]"


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
