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
from conductor.client.workflow.authoring_errors import WorkflowError, nearest
from conductor.client.workflow.reference import Reference, holds_reference, reference
from conductor.client.workflow.shape import Shape


@dataclass(frozen=True)
class Parameter:
    """One thing that a step takes."""

    required: bool
    shape: Shape | None = None
    #: Raises InputError for a value that cannot be meant.
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Contract:
    """What a step takes and gives."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    #: Whether it takes other names, too.
    open: bool = True
    output: Shape | None = None
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
                found.append(f"has no parameter {name!r}; {nearest(name, self.parameters)}")
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
        shape = self.output
        if shape is not None and path is not None:
            shape = shape.at(path, f"the output of {owner}")
        return reference(ref, "output", path, shape=shape)

    def whole_output(self, ref: str, owner: str) -> Reference:
        """The expression for what the function returns."""
        if self.wrapped is None:
            raise WorkflowError(
                f"what {owner} returns is not annotated, so it is not clear what of its output is meant: "
                "name it, as in step.output('result')"
            )
        return self.output_reference(ref, owner, "result" if self.wrapped else None)


class FunctionContract:
    """The contract of a decorated function, read when it is first needed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def contract(self) -> Contract:
        """What the function takes and gives."""
        signature = read_signature(self._function)
        inputs = Shape.of(signature.input_schema()) or Shape({})
        properties = inputs.schema.get("properties", {})
        parameters = {
            f.wire_name: Parameter(
                f.required,
                Shape(properties[f.wire_name], inputs.definitions) if f.wire_name in properties else None,
                f.converter.read_lenient,
            )
            for f in signature.fields
        }
        takes_more = signature.rest is not None or signature.task_parameter is not None
        return Contract(parameters, takes_more, Shape.of(signature.output_schema()), signature.wraps_result)

    def __deepcopy__(self, _: object) -> FunctionContract:
        return self


def named_arguments(function: Callable[..., Any], args: tuple[Any, ...], owner: str) -> dict[str, Any]:
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


def as_json(value: Any) -> Any:
    """A value that code gives to a step, as JSON has it: dataclasses, models and enums become what they are there."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_other)


def _other(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return plain_text(value)


def _misfit(name: str, value: Any, parameter: Parameter) -> list[str]:
    as_reference = getattr(type(value), "as_reference", None)
    coming = as_reference(value) if as_reference is not None else value
    if isinstance(coming, Reference):
        if coming.shape is None or parameter.shape is None or coming.shape.fits(parameter.shape):
            return []
        return [f"wants {name!r} as {parameter.shape}, and {str.__str__(coming)} is {coming.shape}"]
    if holds_reference(value) or (isinstance(value, str) and "${" in value) or parameter.read is None:
        return []
    try:
        parameter.read(as_json(value))
    except InputError as error:
        return [f"cannot take {name!r}: {error.add_parent(name) if error.path else error.message}"]
    except TypeError as error:
        return [f"cannot take {name!r}: {error}"]
    return []
