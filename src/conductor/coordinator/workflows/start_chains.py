"""Limits chains of workflows that start each other without waiting.

A workflow can start others by START_WORKFLOW tasks, by events that a handler answers with a start, and by its failure
workflow. A family is a workflow and all workflows that it started in these ways. A workflow leaves its family,
and begins one of its own, when something from outside ends one of its tasks or of its sub-workflows' tasks: a worker, a
person, a timer, an HTTP answer. So a workflow may start its successor once a minute without a limit, and only a
family that grows without a wait reaches `MAX_CHAINED_STARTS`.

Families are kept in memory, so the count begins anew after a restart. The class does not use the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from conductor.coordinator.limits import MAX_CHAINED_STARTS
from conductor.coordinator.request_errors import conflict
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.workflows.state import TaskState

#: How many workflows and families are remembered.
REMEMBERED = MAX_CHAINED_STARTS
#: Task types that end without an external event. A DYNAMIC task may become a worker task.
_WITHOUT_WAIT = frozenset(TASK_TYPES) - {"SIMPLE", "DYNAMIC", "WAIT", "HUMAN", "HTTP"}


class Chains:
    """The families of workflows that have started others. False if there are none."""

    def __init__(self) -> None:
        #: Workflow to the first workflow of its family.
        self._first: OrderedDict[int, int] = OrderedDict()
        #: The first workflow of a family to the number of starts in it.
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def family_of(self, starter: Iterable[WorkflowRow]) -> int:
        """Return the family that a new workflow joins. `starter` has the workflow that starts it, and its parents.

        Raises:
            ApiError: The family has reached `MAX_CHAINED_STARTS`.
        """
        lineage = [row.pk for row in starter]
        first = next((self._first[pk] for pk in lineage if pk in self._first), lineage[0])
        if self._sizes.get(first, 0) >= MAX_CHAINED_STARTS:
            raise conflict(
                f"{MAX_CHAINED_STARTS} workflows have started each other without waiting for anything, which is a "
                "loop by mistake; let each wait for a worker or a WAIT task before it starts the next"
            )
        return first

    def add(self, first: int, workflow: int) -> None:
        """Add a workflow to a family."""
        self._first[workflow] = first
        self._sizes[first] = self._sizes.get(first, 0) + 1
        for kept in (self._first, self._sizes):
            if len(kept) > REMEMBERED:
                kept.popitem(last=False)

    def leave(self, lineage: Iterable[WorkflowRow]) -> None:
        """Note that a workflow has waited, and its parents with it."""
        for row in lineage:
            self._first.pop(row.pk, None)
            self._sizes.pop(row.pk, None)


def ends_a_wait(task: TaskState) -> bool:
    """Return whether an external event has ended a task that a decision has updated."""
    return task.terminal and task.type not in _WITHOUT_WAIT
