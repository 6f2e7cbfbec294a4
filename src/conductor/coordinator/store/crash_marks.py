"""Marks that outlive the process: which workflow was being decided when the process died.

The step of a workflow that kills the process would kill the next one too, because recovery takes the step again. Before
each step its key is written to eight bytes of a mapped file (`database_file.py`), which the kernel keeps when the
process dies. The next process counts the death. After `MAX_CRASHES_PER_WORKFLOW` deaths in a row `executions.py` ends
the workflow without another step.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from mmap import mmap

from conductor.coordinator.limits import MAX_CRASHES_PER_WORKFLOW

_NO_WORKFLOW = bytes(8)


class CrashMarks:
    """The mark of the current step, and the workflows in whose steps a process has died."""

    def __init__(self, mark: MutableSequence[int] | mmap | None = None) -> None:
        self._mark: MutableSequence[int] | mmap = bytearray(8) if mark is None else mark
        #: Workflow to how many processes in a row have died in its steps.
        self.suspects: dict[int, int] = {}

    def begin_step(self, workflow: int) -> None:
        """Mark that a step of this workflow begins."""
        self._mark[:8] = workflow.to_bytes(8, "little")

    def end_step(self) -> None:
        """Remove the mark: the step has ended, well or with an error."""
        self._mark[:8] = _NO_WORKFLOW

    def take_interrupted(self) -> int | None:
        """Return the workflow whose step was interrupted by the death of the last process, and remove the mark."""
        workflow = int.from_bytes(bytes(self._mark[:8]), "little")
        self.end_step()
        return workflow or None

    def is_deadly(self, workflow: int) -> bool:
        """Return whether no further step of this workflow may be taken."""
        return self.suspects.get(workflow, 0) >= MAX_CRASHES_PER_WORKFLOW
