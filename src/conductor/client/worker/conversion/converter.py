"""The base of all converters.

A converter belongs to one annotation. It turns JSON values into Python values and describes the JSON values that it
accepts. Both are in one class so that they agree: `read_strict` accepts exactly the values that `write_schema`
describes. `read_lenient` accepts more: numbers in text, missing optional parts, unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.worker.exception import NonRetryableException

#: A JSON schema or a part of one, draft-07.
Schema = dict[str, Any]

#: The maximum length of a value in an error message. Longer values are cut.
_MAX_VALUE_CHARS = 60


class InputError(NonRetryableException):
    """The input of a task does not fit the parameters of the worker.

    Attributes:
        path: The place of the wrong value, such as `order.items[0]`.
        message: What is wrong with the value.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        #: Whether the tag or the fields of the value belong to another type. A union reports such an error only if its
        #: members have no other errors.
        self.is_other_type = False

    def add_parent(self, part: str) -> InputError:
        """Return this error with a path that starts one level further out."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        outer = InputError(f"{part}{separator}{self.path}", self.message)
        outer.is_other_type = self.is_other_type
        return outer

    @property
    def depth(self) -> int:
        """The number of levels in the path."""
        return self.path.count(".") + self.path.count("[") + 1 if self.path else 0

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class NoSchemaError(Exception):
    """No JSON schema describes exactly the values that the type accepts."""


class SchemaWriter:
    """Writes one schema. Types that contain themselves become definitions."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.definitions: dict[str, Schema] = {}
        #: Requirements of the types that the schema cannot express.
        self.omitted: list[str] = []
        #: The names of the converters that are being written.
        self._open: dict[Converter, str] = {}
        self._referenced: set[str] = set()

    def write(self, converter: Converter) -> Schema:
        """Return the schema of a converter, or a reference if the converter contains itself."""
        if converter in self._open:
            name = self._open[converter]
            self._referenced.add(name)
            return _make_reference(name)
        name = converter.name
        while name in self.definitions or name in self._open.values():
            name += "_"
        self._open[converter] = name
        try:
            schema = converter.write_schema(self)
        finally:
            del self._open[converter]
        if name not in self._referenced:
            return schema
        self.definitions[name] = schema
        return _make_reference(name)


def _make_reference(name: str) -> Schema:
    escaped = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
    return {"$ref": f"#/definitions/{escaped}"}


def add_keywords(schema: Schema, keywords: Mapping[str, object]) -> Schema:
    """Return the schema with more keywords. A `$ref` is wrapped, because draft-07 ignores keywords next to it."""
    return {"allOf": [schema], **keywords} if "$ref" in schema else {**schema, **keywords}


def format_value(value: object) -> str:
    """Return the text of a value for an error message."""
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


def format_key(name: object) -> str:
    """Return a key as a part of a path."""
    return name if isinstance(name, str) and name.isidentifier() else f"[{name!r}]"


class Converter:
    """Converts JSON values to values of one annotated type."""

    #: The name of the type in error messages.
    name: str = "value"
    #: Whether null is a value of the type. If not, `read_lenient` of the parent treats null as a missing value.
    nullable: bool = False
    #: Whether every value of the type can be a member of a set.
    hashable: bool = True
    #: Values of exactly this class need no conversion.
    exact: type | None = None
    #: The schema of the type, if it is always the same.
    keywords: Mapping[str, object] | None = None

    def read_strict(self, value: object) -> object:
        """Convert a value that the schema describes.

        Raises:
            InputError: The schema does not describe the value.
        """
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        """Convert a value that the schema describes, or a similar one.

        Raises:
            InputError: The value cannot be converted.
        """
        return self.read_strict(value)

    def write_schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        """Return the schema of the type.

        Raises:
            NoSchemaError: No schema describes the type.
        """
        if self.keywords is None:
            raise NoSchemaError(self.name)
        return dict(self.keywords)

    def make_error(self, value: object) -> InputError:
        """Return the error for a value of the wrong type."""
        return InputError("", f"expected {self.name}, got {format_value(value)}")


class AnyConverter(Converter):
    """Accepts every value and does not change it."""

    name = "any value"
    nullable = True
    hashable = False
    keywords: Mapping[str, object] | None = {}

    def read_strict(self, value: object) -> object:
        return value


class RawConverter(AnyConverter):
    """Accepts every value of a parameter without a readable annotation. Has no schema."""

    keywords = None


class OpaqueConverter(Converter):
    """Rejects every value: the type cannot be created from JSON, so the parameter always needs its default."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make_error(self, value: object) -> InputError:
        return InputError("", f"{self.name} cannot be made from JSON (got {format_value(value)})")


class DeferredConverter(Converter):
    """Represents a type inside its own definition, until `target` is known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target: Converter = self
        self.hashable = False

    def read_strict(self, value: object) -> object:
        return self.target.read_strict(value)

    def read_lenient(self, value: object) -> object:
        return self.target.read_lenient(value)

    def write_schema(self, writer: SchemaWriter) -> Schema:
        return writer.write(self.target)
