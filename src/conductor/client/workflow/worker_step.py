"""A step made by calling a decorated function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from conductor.client.workflow.reference import Reference, make_no_value_error, open_blocks
from conductor.client.workflow.step_signature import LazySignature, StepSignature, name_arguments
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.client.workflow.task.task import TaskInterface

#: Attributes of a step that stand back when its output has a field of that name.
_SHADOWED = frozenset({"name", "description", "optional", "expression"})


class TypedStep(TaskInterface):
    """A step that knows what it takes and gives. It can be used as if it were what it gives."""

    #: Whether it was made in the typed way: then mistakes are errors at once, and it stands for its value.
    _typed = False

    @property
    def _signature(self) -> StepSignature:
        raise NotImplementedError

    def _describe(self) -> str:
        return repr(self._task_reference_name)

    def problems(self) -> list[str]:
        """What is wrong with its inputs, as far as it is known what it takes."""
        return [f"{self._describe()} {problem}" for problem in self._signature.problems(self._input_parameters)]

    def output(self, json_path: str | None = None) -> Any:
        """The expression for this step's output, or for a part of it, which must be there."""
        if not self._typed:
            return super().output(json_path)
        return self._signature.output_reference(self._task_reference_name, self._describe(), json_path)

    def as_reference(self) -> Reference:
        """The expression for what the step gives: what stands for it when it is handed to another step."""
        return self._signature.whole_output(self._task_reference_name, self._describe())

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

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise make_no_value_error(self._describe())
        return self.output(name)

    def __iter__(self) -> Iterator[Any]:
        raise make_no_value_error(self._describe())

    def __bool__(self) -> bool:
        if self._typed:
            raise make_no_value_error(self._describe())
        return True

    def __eq__(self, other: object) -> bool:
        if self._typed and not isinstance(other, TaskInterface):
            raise make_no_value_error(self._describe())
        return self is other

    __hash__ = object.__hash__

    def _no_value(self, *_: object) -> NoReturn:
        raise make_no_value_error(self._describe())

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = _no_value
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __len__ = __int__ = __float__ = __contains__ = _no_value


class WorkerStep(TypedStep, SimpleTask):
    """A step done by the workers of a decorated function."""

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
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    task_ref_name: str | None = None,
) -> WorkerStep:
    """The step that a call of a decorated function makes; inside of a `with workflow:` block it is added there.

    With `task_ref_name=` alone it is what conductor-python makes: nothing is refused here, `workflow.validate()` tells.
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
    return step
