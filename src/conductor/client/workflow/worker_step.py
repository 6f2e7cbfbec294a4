"""Steps that are created by calling decorated functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from conductor.client.workflow.no_value import NoValue, make_no_value_error, reject
from conductor.client.workflow.reference import Reference, open_blocks
from conductor.client.workflow.step_blocks import remember_unused_step
from conductor.client.workflow.step_signature import LazySignature, StepSignature, name_arguments
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.client.workflow.task.task import TaskInterface

#: Attributes of a step. If its output has a field of the same name, the attribute refers to that field instead.
_SHADOWED = frozenset({"name", "description", "optional", "expression"})


class TypedStep(NoValue, TaskInterface):
    """A step with known inputs and outputs. Its attributes are references to fields of its output."""

    #: Whether a wrong use of this step raises an error at once. For steps in the style of conductor-python it is False,
    #: and `workflow.validate()` reports the mistakes.
    _typed = False
    #: The workflow whose block has the step.
    _owner: str | None = None

    @property
    def _signature(self) -> StepSignature:
        raise NotImplementedError

    def _describe(self) -> str:
        return repr(self._task_reference_name)

    def problems(self) -> list[str]:
        """Return the mistakes in the inputs, as far as the parameters are known."""
        return [f"{self._describe()} {problem}" for problem in self._signature.problems(self._input_parameters)]

    def output(self, json_path: str | None = None) -> Any:
        """Return the expression for the output of this step or a part of it.

        Raises:
            UnknownOutput: The output has no such part.
        """
        if not self._typed:
            return super().output(json_path)
        return self._own(self._signature.output_reference(self._task_reference_name, self._describe(), json_path))

    def as_reference(self) -> Reference:
        """Return the expression for the result of the step, which replaces the step in inputs of other steps."""
        return self._own(self._signature.whole_output(self._task_reference_name, self._describe()))

    def _own(self, reference: Reference) -> Reference:
        reference._owner = self._owner
        return reference

    def __getattribute__(self, name: str) -> Any:
        if name in _SHADOWED and object.__getattribute__(self, "_typed"):
            output = object.__getattribute__(self, "_signature").output
            if output is not None and name in output.schema.get("properties", {}):
                return object.__getattribute__(self, "output")(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.output(name)

    def __getitem__(self, name: str | int) -> Any:
        return self.output(name) if isinstance(name, str) else self.as_reference()[name]

    def __str__(self) -> str:
        return str(self.as_reference()) if self._typed else super().__str__()

    def __format__(self, spec: str) -> str:
        if spec:
            raise make_no_value_error(self, "format({0}, {1})", spec)
        return str(self)

    def __iter__(self) -> Iterator[Any]:
        raise make_no_value_error(self, "for")

    def __bool__(self) -> bool:
        if self._typed:
            raise make_no_value_error(self, "if")
        return True

    def __eq__(self, other: object) -> bool:
        if self._typed and not isinstance(other, TaskInterface):
            raise make_no_value_error(self, "{0} == {1}", other)
        return self is other

    def __ne__(self, other: object) -> bool:
        if self._typed and not isinstance(other, TaskInterface):
            raise make_no_value_error(self, "{0} != {1}", other)
        return self is not other

    __hash__ = object.__hash__

    def _name_of_value(self) -> str:
        return self._describe()

    __lt__, __le__, __gt__, __ge__ = map(reject, ("{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}"))
    __add__, __radd__, __len__ = reject("{0} + {1}"), reject("{1} + {0}"), reject("len({0})")
    __contains__ = reject("{1} in {0}")


class WorkerStep(TypedStep, SimpleTask):
    """A step that the workers of a decorated function run."""

    def __init__(self, function: Callable[..., Any], task_def_name: str, task_reference_name: str) -> None:
        super().__init__(task_def_name, task_reference_name)
        self._function_signature = LazySignature(function)
        self._task_def_name = task_def_name

    @property
    def _signature(self) -> StepSignature:
        return self._function_signature.signature

    def _describe(self) -> str:
        ref = self._task_reference_name
        return repr(ref) if ref == self._task_def_name else f"{ref!r} ({self._task_def_name})"


def make_worker_step(
    function: Callable[..., Any],
    task_name: str,
    args: tuple[object, ...],
    kwargs: dict[str, Any],
    task_ref_name: str | None = None,
) -> WorkerStep:
    """Make the step for a call of a decorated function, and add it to the innermost open block.

    With `task_ref_name=` and without a block, the call has the form of conductor-python. The inputs of such a step are
    checked by `workflow.validate()`, not here.

    Args:
        function: The function.
        task_name: The task type.
        args: The positional arguments of the call.
        kwargs: The keyword arguments of the call.
        task_ref_name: The reference name, unless `kwargs` has one.

    Raises:
        WorkflowError: The arguments do not fit the parameters.
    """
    given = dict(kwargs)
    ref = given.pop("task_ref_name", task_ref_name)
    block = open_blocks.get()[-1] if open_blocks.get() else None
    typed = block is not None or ref is None
    if ref is None:
        ref = task_name if block is None else block.make_unused_name(task_name)
    step = WorkerStep(function, task_name, ref)
    positional = name_arguments(function, args, step._describe())
    step._input_parameters = {**positional, **given}
    if typed:
        step._signature.check(step._describe(), step._input_parameters)
        step._typed = True
    if block is not None:
        block.append(step)
    elif typed:
        caller = sys._getframe(2)  # the caller of the decorated function
        remember_unused_step(step, caller.f_code.co_filename, caller.f_lineno)
    return step
