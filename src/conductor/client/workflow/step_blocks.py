"""The open `with` statements of a workflow, and the steps that are added inside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.reference import Reference, list_texts, open_blocks

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

P = ParamSpec("P")
T = TypeVar("T")

#: For each step name, the last workflow with such a step. An error about a step of another workflow names it.
step_owners: dict[str, str] = {}
#: The name of the step in an expression for the output or the input of a step.
STEP_REFERENCE = re.compile(r"\$\{\s*([^.\[\]{}\s]+)\.(?:output|input)\b")
_step_numbers = count(1)


class UnusedStep(NamedTuple):
    """A step that was made outside every block from values of a block, and is not yet part of a workflow."""

    description: str
    #: For each workflow whose values the step uses, one of these values.
    uses: Mapping[str, str]
    file: str
    line: int


#: The unused steps by their numbers, which copies of a step share.
unused_steps: dict[int, UnusedStep] = {}


class StepBlock:
    """An open `with` statement. Steps that are created inside it are added to `steps`."""

    def __init__(self, workflow: ConductorWorkflow, steps: list[Any]) -> None:
        self.workflow = workflow
        self.steps = steps

    def append(self, step: Any) -> None:
        """Add a step.

        Raises:
            WorkflowError: Another step has the same reference name.
        """
        name = step.task_reference_name
        if name in self.workflow.reference_names():
            raise WorkflowError(
                f"workflow {self.workflow.name!r} has two steps with the name {name!r}: "
                "give one of them another task_ref_name"
            )
        self.steps.append(step)
        step._owner = step_owners[name] = self.workflow.name

    def make_unused_name(self, stem: str) -> str:
        """Return a reference name that no step of the workflow has: `stem`, or `stem` with a number."""
        taken = self.workflow.reference_names()
        return stem if stem not in taken else next(n for i in count(2) if (n := f"{stem}_{i}") not in taken)


def remember_unused_step(step: Any, file: str, line: int) -> None:
    """Store a step that was made outside every block, if it uses values of a block.

    The step itself is not stored, because the program may drop it.
    """
    uses = {
        text._owner: describe_target(text)
        for text in list_texts(step._input_parameters)
        if isinstance(text, Reference) and text._owner is not None
    }
    if uses:
        step._number = next(_step_numbers)
        unused_steps[step._number] = UnusedStep(step._describe(), uses, file, line)


def describe_target(reference: Reference) -> str:
    """Return the step that a reference refers to, or the expression of an input."""
    text = str.__str__(reference)
    found = STEP_REFERENCE.match(text)
    return text if found is None or found[1] == "workflow" else f"step {found[1]!r}"


@contextmanager
def open_block(block: StepBlock) -> Iterator[StepBlock]:
    """Add new steps to this block until the `with` statement ends."""
    token = open_blocks.set((*open_blocks.get(), block))
    try:
        yield block
    finally:
        open_blocks.reset(token)


def get_innermost_block(what: str) -> StepBlock:
    """Return the block that a step is added to.

    Args:
        what: The call that needs a block, for the error message.

    Raises:
        WorkflowError: No block is open.
    """
    blocks = open_blocks.get()
    if not blocks:
        raise WorkflowError(f"{what} must be inside a `with workflow:` block")
    return blocks[-1]


class WithStatement(AbstractContextManager[T]):
    """The manager of a `with` statement. Using it in a `for` statement raises TypeError with the correct form."""

    def __init__(self, name: str, manager: AbstractContextManager[T]) -> None:
        self._name = name
        self._manager = manager

    def __enter__(self) -> T:
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._manager.__exit__(kind, error, traceback)

    def __iter__(self) -> NoReturn:
        name = self._name
        raise TypeError(f"`for` cannot use {name}(...), which is a block: write `with {name}(...) as ...:`")


def with_statement(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make a generator function a context manager, as `contextmanager` does, but with a clear error in a `for`."""
    make = contextmanager(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return WithStatement(function.__name__, make(*args, **kwargs))

    return call
