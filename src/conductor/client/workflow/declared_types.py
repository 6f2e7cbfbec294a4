"""The declared types of the input and output of a workflow."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.client.worker.conversion import InputError, NoSchemaError, read_annotation
from conductor.client.worker.conversion.converter import Converter, SchemaWriter
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.value_type import ValueType


class DeclaredType:
    """The declared type of an input or output, with its JSON type and its converter."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self._converter: Converter = read_annotation(annotation)
        self.value_type = _find_value_type(self._converter)

    def read(self, value: object) -> object:
        """Convert a JSON value.

        Raises:
            WorkflowError: The value has another type.
        """
        try:
            return self._converter.read_lenient(value)
        except InputError as error:
            raise WorkflowError(f"the output is not a {self._converter.name}: {error}") from None


def read_input_types(inputs: object) -> ValueType | None:
    """Return the JSON type of the inputs, which are declared as one type or as a dict of names and types."""
    if not isinstance(inputs, Mapping):
        return DeclaredType(inputs).value_type
    parts = {name: DeclaredType(annotation) for name, annotation in inputs.items()}
    definitions = {k: v for part in parts.values() if part.value_type for k, v in part.value_type.definitions.items()}
    properties = {name: part.value_type.schema if part.value_type else {} for name, part in parts.items()}
    required = [name for name, part in parts.items() if not part._converter.nullable]
    return ValueType({"type": "object", "properties": properties, "required": required}, definitions)


def _find_value_type(converter: Converter) -> ValueType | None:
    writer = SchemaWriter(strict=False)
    try:
        schema = writer.write(converter)
    except NoSchemaError:
        return None
    return ValueType(schema, writer.definitions)
