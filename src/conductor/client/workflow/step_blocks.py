"""What stands inside a `with` statement of a workflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.reference import open_blocks

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow


class StepBlock:
    """An open `with` statement: steps that are made inside are added to its list."""

    def __init__(self, workflow: ConductorWorkflow, steps: list[Any]) -> None:
        self.workflow = workflow
        self.steps = steps

    def append(self, step: Any) -> None:
        """Add a step, whose reference name must be new in the workflow."""
        name = step.task_reference_name
        if name in self.workflow.reference_names():
            raise WorkflowError(
                f"workflow {self.workflow.name!r} has two steps called {name!r}: give one another task_ref_name"
            )
        self.steps.append(step)

    def make_unused_name(self, stem: str) -> str:
        """A reference name that no step of the workflow has: the stem itself, or with a number."""
        taken = self.workflow.reference_names()
        return stem if stem not in taken else next(n for i in count(2) if (n := f"{stem}_{i}") not in taken)


@contextmanager
def open_block(block: StepBlock) -> Iterator[StepBlock]:
    """Make the block the innermost one inside the `with` statement."""
    token = open_blocks.set((*open_blocks.get(), block))
    try:
        yield block
    finally:
        open_blocks.reset(token)


def get_innermost_block(what: str) -> StepBlock:
    """The block that a step is added to; an error outside of all."""
    blocks = open_blocks.get()
    if not blocks:
        raise WorkflowError(f"{what} belongs inside of a `with workflow:` block: there is none here")
    return blocks[-1]
