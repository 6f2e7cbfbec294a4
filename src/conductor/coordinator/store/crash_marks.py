"""Records which workflow was being decided when the process died.

A workflow step that kills the process would also kill the next process, which takes the same step again. So the key of
the workflow is written to a memory-mapped file of eight bytes (`database_file.py`) before each step. The kernel
keeps the file when the process dies, and the next process counts the death. After `MAX_CRASHES_PER_WORKFLOW` deaths in
a row, `executions.py` ends the workflow without another step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableSequence
from mmap import mmap

from conductor.coordinator.limits import MAX_CRASHES_PER_WORKFLOW

_NO_WORKFLOW = bytes(8)


class CrashMarks:
    """The mark of the current step, and the workflows in whose steps a process has died."""

    def __init__(self, mark: MutableSequence[int] | mmap | None = None) -> None:
        self._mark: MutableSequence[int] | mmap = bytearray(8) if mark is None else mark
        #: For each workflow, how many processes in a row have died in its steps.
        self.suspects: dict[int, int] = {}

    @contextlib.contextmanager
    def mark_step(self, workflow: int) -> Iterator[None]:
        """Mark this workflow while the block runs. Then restore the previous mark, because steps can be nested."""
        outer = bytes(self._mark[:8])
        self._mark[:8] = workflow.to_bytes(8, "little")
        try:
            yield
        finally:
            self._mark[:8] = outer

    def take_interrupted(self) -> int | None:
        """Return the workflow in whose step the last process died, or None, and remove the mark."""
        workflow = int.from_bytes(bytes(self._mark[:8]), "little")
        self._mark[:8] = _NO_WORKFLOW
        return workflow or None

    def is_deadly(self, workflow: int) -> bool:
        """Return whether this workflow has crashed `MAX_CRASHES_PER_WORKFLOW` processes and must end."""
        return self.suspects.get(workflow, 0) >= MAX_CRASHES_PER_WORKFLOW
