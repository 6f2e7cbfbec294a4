"""The parameters and the output of a step, which are checked when the workflow is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import BuiltinMethodType
from typing import Any

import msgspec

from conductor.client.http.models.model import plain_text
from conductor.client.worker.conversion.converter import InputError
from conductor.client.worker.parameters import list_parameters
from conductor.client.worker.signature import read_signature
from conductor.client.workflow.authoring_errors import WorkflowError, suggest_name
from conductor.client.workflow.reference import Reference, contains_reference, make_reference
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType
from conductor.client.workflow.value_type import ValueType


@dataclass(frozen=True)
class StepParameter:
    """A parameter of a step."""

    required: bool
    value_type: ValueType | None = None
    #: Converts a value of the parameter, or raises InputError.
    read: Callable[[object], object] | None = None


@dataclass(frozen=True)
class StepSignature:
    """The parameters and the output of a step."""

    parameters: Mapping[str, StepParameter] = field(default_factory=dict)
    #: Whether the step accepts further parameters.
    open: bool = True
    output: ValueType | None = None
    #: Whether the result is in the output field `result`; None if that is not known.
    wrapped: bool | None = None

    def problems(self, given: Mapping[str, object]) -> list[str]:
        """Return the mistakes in these inputs."""
        found = []
        for name, value in given.items():
            parameter = self.parameters.get(name)
            if parameter is not None:
                found += _check_value(name, value, parameter)
            elif not self.open:
                found.append(f"has no parameter {name!r}; {suggest_name(name, self.parameters)}")
        missing = [name for name, p in self.parameters.items() if p.required and name not in given]
        if missing:
            found.append(f"needs {' and '.join(map(repr, missing))}")
        return found

    def check(self, owner: str, given: Mapping[str, object]) -> None:
        """Check the inputs.

        Raises:
            WorkflowError: An input is unknown, missing or of the wrong type.
        """
        found = self.problems(given)
        if found:
            raise WorkflowError(f"{owner} {'; it '.join(found)}")

    def output_reference(self, ref: str, owner: str, path: str | None) -> Reference:
        """Return the expression for the output or a part of it.

        Raises:
            UnknownOutput: The output has no such part.
        """
        value_type = self.output
        if value_type is not None and path is not None:
            value_type = value_type.at(path, f"the output of {owner}")
        return make_reference(ref, "output", path, value_type=value_type)

    def whole_output(self, ref: str, owner: str) -> Reference:
        """Return the expression for the result of the function.

        Raises:
            WorkflowError: The function has no return annotation, so the field of its result is unknown.
        """
        if self.wrapped is None:
            raise WorkflowError(
                f"{owner} has no return annotation, so it is unknown whether its result is the whole output "
                "or a field of it: name the field, as in step.output('result')"
            )
        return self.output_reference(ref, owner, "result" if self.wrapped else None)


class LazySignature:
    """The signature of a decorated function, which is read on first use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def signature(self) -> StepSignature:
        """The parameters and the output of the function."""
        signature = read_signature(self._function)
        inputs = ValueType.from_schema(signature.input_schema()) or ValueType({})
        properties = inputs.schema.get("properties", {})
        parameters = {
            f.wire_name: StepParameter(
                f.required,
                ValueType(properties[f.wire_name], inputs.definitions) if f.wire_name in properties else None,
                f.converter.read_lenient,
            )
            for f in signature.fields
        }
        takes_more = signature.rest is not None or signature.task_parameter is not None
        return StepSignature(
            parameters, takes_more, ValueType.from_schema(signature.output_schema()), signature.wraps_result
        )

    def __deepcopy__(self, _: object) -> LazySignature:
        return self


def name_arguments(function: Callable[..., Any], args: tuple[object, ...], owner: str) -> dict[str, object]:
    """Return the positional arguments by parameter name. Parameters with `Depends` are skipped."""
    injected = read_signature(function).injected
    names = [
        p.name
        for p in list_parameters(function).values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in injected
    ]
    if len(args) > len(names):
        raise WorkflowError(f"{owner} takes {len(names)} positional arguments, but {len(args)} were passed")
    return dict(zip(names, args, strict=False))


def to_json_value(value: object) -> Any:
    """Convert an input of a step, which may contain dataclasses, models and enums, to a JSON value."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_convert_object)


def _convert_object(value: object) -> Any:
    if isinstance(value, TaskInterface):
        part = "its `iteration`, `item` or `index`" if value.task_type is TaskType.DO_WHILE else "a field of its output"
        raise TypeError(f"step {value.task_reference_name!r} is not a value: pass {part}")
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return plain_text(value)


def _check_value(name: str, value: object, parameter: StepParameter) -> list[str]:
    as_reference = getattr(type(value), "as_reference", None)
    target = as_reference(value) if as_reference is not None else value
    if isinstance(target, Reference):
        if target.value_type is None or parameter.value_type is None or target.value_type.fits(parameter.value_type):
            return []
        return [f"needs {name!r} as {parameter.value_type}, but {str.__str__(target)} is {target.value_type}"]
    if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, Reference):
        field = value.__name__
        return [f'rejects {name!r}: it is a method of text; for the field, write {value.__self__}["{field}"]']
    if contains_reference(value) or (isinstance(value, str) and "${" in value) or parameter.read is None:
        return []
    try:
        parameter.read(to_json_value(value))
    except InputError as error:
        return [f"rejects {name!r}: {error.add_parent(name) if error.path else error.message}"]
    except TypeError as error:
        return [f"rejects {name!r}: {error}"]
    return []
