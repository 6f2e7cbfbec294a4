"""What a step takes and gives: read from a decorated function, and checked when the workflow is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from conductor.client.http.models.model import plain_text
from conductor.client.worker.conversion.converter import InputError
from conductor.client.worker.parameters import list_parameters
from conductor.client.worker.signature import read_signature
from conductor.client.workflow.authoring_errors import WorkflowError, suggest_name
from conductor.client.workflow.reference import Reference, contains_reference, make_reference
from conductor.client.workflow.value_type import ValueType


@dataclass(frozen=True)
class StepParameter:
    """One thing that a step takes."""

    required: bool
    value_type: ValueType | None = None
    #: Raises InputError for a value that cannot be meant.
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class StepSignature:
    """What a step takes and gives."""

    parameters: Mapping[str, StepParameter] = field(default_factory=dict)
    #: Whether it takes other names, too.
    open: bool = True
    output: ValueType | None = None
    #: Whether what it gives is under `result`; None if that is not known.
    wrapped: bool | None = None

    def problems(self, given: Mapping[str, Any]) -> list[str]:
        """What is wrong with these inputs."""
        found = []
        for name, value in given.items():
            parameter = self.parameters.get(name)
            if parameter is not None:
                found += _misfit(name, value, parameter)
            elif not self.open:
                found.append(f"has no parameter {name!r}; {suggest_name(name, self.parameters)}")
        missing = [name for name, p in self.parameters.items() if p.required and name not in given]
        if missing:
            found.append(f"needs {' and '.join(map(repr, missing))}")
        return found

    def check(self, owner: str, given: Mapping[str, Any]) -> None:
        """WorkflowError for inputs that cannot be right."""
        found = self.problems(given)
        if found:
            raise WorkflowError(f"{owner} {'; it '.join(found)}")

    def output_reference(self, ref: str, owner: str, path: str | None) -> Reference:
        """The expression for what the step gives, or for a part of it, which must be there."""
        value_type = self.output
        if value_type is not None and path is not None:
            value_type = value_type.at(path, f"the output of {owner}")
        return make_reference(ref, "output", path, value_type=value_type)

    def whole_output(self, ref: str, owner: str) -> Reference:
        """The expression for what the function returns."""
        if self.wrapped is None:
            raise WorkflowError(
                f"what {owner} returns is not annotated, so it is not clear what of its output is meant: "
                "name it, as in step.output('result')"
            )
        return self.output_reference(ref, owner, "result" if self.wrapped else None)


class LazySignature:
    """The contract of a decorated function, read when it is first needed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def signature(self) -> StepSignature:
        """What the function takes and gives."""
        signature = read_signature(self._function)
        inputs = ValueType.of(signature.input_schema()) or ValueType({})
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
        return StepSignature(parameters, takes_more, ValueType.of(signature.output_schema()), signature.wraps_result)

    def __deepcopy__(self, _: object) -> LazySignature:
        return self


def name_arguments(function: Callable[..., Any], args: tuple[Any, ...], owner: str) -> dict[str, Any]:
    """The positional arguments by their names. What is injected is no argument of a step."""
    injected = read_signature(function).injected
    names = [
        p.name
        for p in list_parameters(function).values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in injected
    ]
    if len(args) > len(names):
        raise WorkflowError(f"{owner} takes {len(names)} positional arguments, and {len(args)} were given")
    return dict(zip(names, args, strict=False))


def to_json_value(value: Any) -> Any:
    """A value that code gives to a step, as JSON has it: dataclasses, models and enums become what they are there."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_other)


def _other(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return plain_text(value)


def _misfit(name: str, value: Any, parameter: StepParameter) -> list[str]:
    as_reference = getattr(type(value), "as_reference", None)
    coming = as_reference(value) if as_reference is not None else value
    if isinstance(coming, Reference):
        if coming.value_type is None or parameter.value_type is None or coming.value_type.fits(parameter.value_type):
            return []
        return [f"wants {name!r} as {parameter.value_type}, and {str.__str__(coming)} is {coming.value_type}"]
    if contains_reference(value) or (isinstance(value, str) and "${" in value) or parameter.read is None:
        return []
    try:
        parameter.read(to_json_value(value))
    except InputError as error:
        return [f"cannot take {name!r}: {error.add_parent(name) if error.path else error.message}"]
    except TypeError as error:
        return [f"cannot take {name!r}: {error}"]
    return []
