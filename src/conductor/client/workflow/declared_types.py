"""Types that a workflow says its input and output have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.worker.conversion import InputError, NoSchemaError, read_annotation
from conductor.client.worker.conversion.converter import Converter, SchemaWriter
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.value_type import ValueType


class DeclaredType:
    """A type, how a value of it looks as JSON, and how JSON becomes one."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._node: Converter = read_annotation(annotation)
        self.value_type = _find_value_type(self._node)

    def read(self, value: Any) -> Any:
        """The value that JSON stands for."""
        try:
            return self._node.read_lenient(value)
        except InputError as error:
            raise WorkflowError(f"the output is no {self._node.name}: {error}") from None


def read_input_types(inputs: Any) -> ValueType | None:
    """The value_type that a type has, or a dict of names to types."""
    if not isinstance(inputs, Mapping):
        return DeclaredType(inputs).value_type
    parts = {name: DeclaredType(annotation) for name, annotation in inputs.items()}
    definitions = {k: v for part in parts.values() if part.value_type for k, v in part.value_type.definitions.items()}
    properties = {name: part.value_type.schema if part.value_type else {} for name, part in parts.items()}
    required = [name for name, part in parts.items() if not part._node.nullable]
    return ValueType({"type": "object", "properties": properties, "required": required}, definitions)


def _find_value_type(node: Converter) -> ValueType | None:
    writer = SchemaWriter(strict=False)
    try:
        schema = writer.write(node)
    except NoSchemaError:
        return None
    return ValueType(schema, writer.definitions)
