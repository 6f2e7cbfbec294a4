"""Limits chains of workflows that start each other without waiting.

A workflow can start others by a START_WORKFLOW task, by an event whose handler starts a workflow, and by its failure
workflow. A family is a workflow and all workflows that it started in these ways, directly or indirectly. A workflow
leaves its family, and begins a new one, when an external event ends one of its tasks or of its sub-workflows' tasks. An
external event is a worker's report, a person's update, a timer or an HTTP answer. So a workflow may start its successor
once a minute without a limit. Only a family that grows without waiting reaches `MAX_CHAINED_STARTS`.

Families are kept in memory only, so the count restarts with the coordinator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from conductor.coordinator.limits import MAX_CHAINED_STARTS
from conductor.coordinator.request_errors import conflict
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.workflows.state import TaskState

#: The maximum number of workflows, and of families, that are kept in memory.
MAX_REMEMBERED = MAX_CHAINED_STARTS
#: Task types that end without an external event. DYNAMIC is not one of them, because it may become a worker task.
_WITHOUT_WAIT = frozenset(TASK_TYPES) - {"SIMPLE", "DYNAMIC", "WAIT", "HUMAN", "PULL_WORKFLOW_MESSAGES", "HTTP"}


class Chains:
    """The families of workflows that have started others. An instance without families is false."""

    def __init__(self) -> None:
        #: For each workflow in a family, the first workflow of the family.
        self._first: OrderedDict[int, int] = OrderedDict()
        #: The number of starts in each family, by its first workflow.
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def family_of(self, starter: Iterable[WorkflowRow]) -> int:
        """Return the family that a new workflow joins. `starter` is the workflow that starts it, with its parents.

        Raises:
            ApiError: The family has reached `MAX_CHAINED_STARTS`.
        """
        lineage = [row.pk for row in starter]
        first = next((self._first[pk] for pk in lineage if pk in self._first), lineage[0])
        if self._sizes.get(first, 0) >= MAX_CHAINED_STARTS:
            raise conflict(
                f"{MAX_CHAINED_STARTS} workflows have started each other without waiting for anything, which looks "
                "like an endless loop; let each wait for a worker or a WAIT task before it starts the next"
            )
        return first

    def add(self, first: int, workflow: int) -> None:
        """Add a workflow to the family that began with the workflow `first`. Forget the oldest entries if necessary."""
        self._first[workflow] = first
        self._sizes[first] = self._sizes.get(first, 0) + 1
        for kept in (self._first, self._sizes):
            if len(kept) > MAX_REMEMBERED:
                kept.popitem(last=False)

    def leave(self, lineage: Iterable[WorkflowRow]) -> None:
        """Remove a workflow and its parents from their family, because the workflow has waited."""
        for row in lineage:
            self._first.pop(row.pk, None)
            self._sizes.pop(row.pk, None)


def ends_a_wait(task: TaskState) -> bool:
    """Return whether a task has ended and is of a type that only an external event ends."""
    return task.terminal and task.type not in _WITHOUT_WAIT
