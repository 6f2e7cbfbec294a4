"""The declared types of the input and output of a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.worker.conversion import InputError, NoSchemaError, read_annotation
from conductor.client.worker.conversion.converter import Converter, SchemaWriter
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.value_type import JsonSchema, ValueType

_DRAFT = "http://json-schema.org/draft-07/schema#"
#: Values that authors write by mistake instead of a type, such as `[]` for `list`.
_VALUES = (str, int, float, list, tuple, set)


class DeclaredType:
    """The declared type of an input or output, with its JSON type and its converter."""

    def __init__(self, annotation: object) -> None:
        if isinstance(annotation, _VALUES):
            raise WorkflowError(
                f"a workflow declares inputs and outputs by types, such as int or list[str]; got {annotation!r}"
            )
        self.annotation = annotation
        self.converter: Converter = read_annotation(annotation)
        self.value_type = _find_value_type(self.converter)

    def read(self, value: object) -> object:
        """Convert a JSON value.

        Raises:
            WorkflowError: The value has another type.
        """
        try:
            return self.converter.read_lenient(value)
        except InputError as error:
            raise WorkflowError(f"the output is not a {self.converter.name}: {error}") from None


class DeclaredInputs:
    """The declared inputs of a workflow.

    Args:
        inputs: A dict of names and types, or one type with fields.

    Raises:
        WorkflowError: An input is declared by something that is not a type.
    """

    def __init__(self, inputs: object) -> None:
        if isinstance(inputs, Mapping):
            parts = {name: DeclaredType(annotation) for name, annotation in inputs.items()}
            self.converters = {name: part.converter for name, part in parts.items()}
            definitions = {
                k: v for part in parts.values() if part.value_type for k, v in part.value_type.definitions.items()
            }
            properties = {name: part.value_type.schema if part.value_type else {} for name, part in parts.items()}
            required = [name for name, part in parts.items() if not part.converter.nullable]
            schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
            #: The JSON type of the whole input.
            self.value_type: ValueType | None = ValueType(schema, definitions)
        else:
            whole = DeclaredType(inputs)
            self.converters = {field.wire_name: field.converter for field in getattr(whole.converter, "fields", ())}
            self.value_type = whole.value_type

    @property
    def properties(self) -> JsonSchema:
        """The JSON schemas of the inputs, by name."""
        return {} if self.value_type is None else self.value_type.schema.get("properties", {})

    @property
    def required(self) -> Sequence[str]:
        """The names of the required inputs."""
        return () if self.value_type is None else self.value_type.schema.get("required", ())

    def make_schema(self, workflow_name: str) -> SchemaDef | None:
        """Return the schema that the server enforces when the workflow starts."""
        if self.value_type is None:
            return None
        definitions = {"definitions": dict(self.value_type.definitions)} if self.value_type.definitions else {}
        data = {"$schema": _DRAFT, **self.value_type.schema, **definitions}
        return SchemaDef(name=f"{workflow_name}_input", version=1, data=data)

    def read(self, name: str, value: object) -> object:
        """Convert one input: a list or dict leniently, any other value strictly.

        Raises:
            InputError: The value has another type.
        """
        converter = self.converters.get(name)
        if converter is None:
            return value
        return converter.read_lenient(value) if isinstance(value, dict | list) else converter.read_strict(value)


def _find_value_type(converter: Converter) -> ValueType | None:
    writer = SchemaWriter(strict=False)
    try:
        schema = writer.write(converter)
    except NoSchemaError:
        return None
    return ValueType(schema, writer.definitions)
