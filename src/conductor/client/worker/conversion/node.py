"""One reading of one annotation: how a JSON value becomes the Python value, and which values a schema admits.

Each node answers for both, so that they cannot drift apart: what `strict` accepts is what `schema` describes.
`lenient` accepts more: numbers in text, missing optional parts, unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.worker.exception import NonRetryableException

Schema = dict[str, Any]

_SHOWN_CHARS = 60


class InputError(NonRetryableException):
    """The task's input does not fit the worker's parameters; `path` says where. Trying again would not help."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        #: Whether the value seems to be meant for another type; of the errors of a union, this is not the one to show.
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
        #: What the types demand and the schema does not say.
        self.left_out: list[str] = []
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
    #: Values of exactly this type are read as they are, if there is such a type.
    exact: type | None = None

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


def member(name: Any) -> str:
    """A key as part of a path."""
    return name if isinstance(name, str) and name.isidentifier() else f"[{name!r}]"
