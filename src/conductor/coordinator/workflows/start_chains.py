"""Chains of workflows that start each other: a bound for those that never wait for anything.

A workflow can start others by START_WORKFLOW tasks, by events that a handler answers with a start, and by its failure
workflow. A family is a workflow and all that it started in these ways, directly or not. A workflow leaves its family,
and begins one of its own, when something from outside ends one of its tasks or of its sub-workflows' tasks: a worker, a
person, a timer, an HTTP answer. So a workflow that starts its successor once a minute may do so for ever, and only a
family that grows without a wait reaches `MAX_CHAINED_STARTS`.

Families are kept in memory: after a restart the count begins anew. The class knows no store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from conductor.coordinator.limits import MAX_CHAINED_STARTS
from conductor.coordinator.request_errors import conflict
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.workflows.state import TaskState

#: Workflows and families that are remembered; older ones are forgotten.
REMEMBERED = MAX_CHAINED_STARTS
#: Tasks that end without anything from outside. A DYNAMIC task may turn out to be one for a worker.
_WITHOUT_WAIT = frozenset(TASK_TYPES) - {"SIMPLE", "DYNAMIC", "WAIT", "HUMAN", "HTTP"}


class Chains:
    """The families of workflows that have started others. False while there are none."""

    def __init__(self) -> None:
        #: Workflow → the first one of its family.
        self._first: OrderedDict[int, int] = OrderedDict()
        #: The first one of a family → how many were started in it.
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def family_of(self, starter: Iterable[WorkflowRow]) -> int:
        """Return the family that a new workflow joins. `starter`: the one that starts it, then its parents.

        Raises:
            ApiError: The family is as large as it may become.
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
    """Whether a task that a decision has updated was ended by something from outside."""
    return task.terminal and task.type not in _WITHOUT_WAIT
