"""A decision while it is being made: the state as it was, and on top of it what has changed so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from conductor.coordinator.plan import Node
from conductor.coordinator.workflow_state import TaskState, WorkflowState, round_ref


class SubWorkflowStart(Struct, frozen=True, kw_only=True):
    """A workflow to start on behalf of a SUB_WORKFLOW task."""

    #: The SUB_WORKFLOW task; its `sub_workflow_id` is for the caller to fill in.
    task_id: str
    name: str
    #: None: the latest.
    version: int | None = None
    #: A definition of its own, instead of a registered one.
    definition: dict[str, Any] | None = None
    input: dict[str, Any] = {}
    #: None: that of the parent.
    task_to_domain: dict[str, str] | None = None
    priority: int | None = None


class FailureWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow to start because this one failed. The caller adds `failedWorkflow` to the input."""

    name: str
    input: dict[str, Any]


class Decision(Struct, kw_only=True):
    """What comes next. False when nothing does."""

    #: New tasks in order. SCHEDULED ones of type SIMPLE go to the queue, the others are the decider's own.
    schedule: list[TaskState] = []
    #: Existing tasks as they are from now on.
    update: list[TaskState] = []
    #: Ids of tasks that are no longer part of the workflow.
    remove: list[str] = []
    #: The workflow's variables, if they changed.
    variables: dict[str, Any] | None = None
    #: The workflow's input, if it was replaced.
    input: dict[str, Any] | None = None
    #: The workflow's new status, if it has one; then also `output` and, unless it went well, `reason`.
    workflow_status: str | None = None
    output: dict[str, Any] | None = None
    reason: str | None = None
    #: The task whose failure ended the workflow.
    failed_task: TaskState | None = None
    start_sub_workflows: list[SubWorkflowStart] = []
    #: Ids of sub-workflows whose parent has ended.
    terminate_sub_workflows: list[str] = []
    failure_workflow: FailureWorkflow | None = None
    #: Decide again no later than this, whatever else happens.
    wait_until_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(
            self.schedule
            or self.update
            or self.remove
            or self.start_sub_workflows
            or self.workflow_status is not None
            or self.variables is not None
        )


class Draft:
    """The workflow as it will be when this decision is carried out."""

    def __init__(self, state: WorkflowState, now_ms: int, new_id: Callable[[], str], *, last_seq: int = 0) -> None:
        self.state = state
        self.plan = state.plan
        self.now_ms = now_ms
        self.new_id = new_id
        self.variables = state.variables
        self.status = state.status
        self.decision = Decision()
        #: Tasks that have ended and whose consequences are not drawn yet.
        self.ended: deque[TaskState] = deque()
        #: Tasks that have not ended, by id; of those for workers only the ones that this decision makes or asks for.
        self.open: dict[str, TaskState] = {}
        self._changed: dict[str, TaskState] = {}
        self._new: dict[str, TaskState] = {}
        self._latest: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        self._last = state.tasks.last()
        self._seq = max(last_seq, self._last.seq if self._last else 0)
        for task in state.tasks.moving():
            self._sort(task)

    def _sort(self, task: TaskState) -> None:
        if task.terminal:
            self.open.pop(task.task_id, None)
            if not task.executed:
                self.ended.append(task)
        else:
            self.open[task.task_id] = task

    # -- reading

    def open_refs(self) -> Iterator[str]:
        """The reference names of all that is open, as the definition has them. Most often the first is enough."""
        yield from [task.base_ref for task in self.open.values()]
        yield from self.state.tasks.queued()

    def open_all(self) -> list[TaskState]:
        """All that is open. Of a wide fork that is much to read: for who ends it."""
        for task in self.state.tasks.pending():
            if not task.terminal and task.task_id not in self._changed:
                self.open[task.task_id] = task
        return list(self.open.values())

    @property
    def new_tasks(self) -> int:
        """How many tasks this decision has made so far."""
        return len(self._new)

    def latest(self, ref: str) -> TaskState | None:
        """The newest attempt under exactly this reference name."""
        if ref in self._latest:
            return self._new[self._latest[ref]]
        return self._current(self.state.tasks.latest(ref))

    def newest(self, ref: str) -> TaskState | None:
        """The newest attempt of a task of the definition, whatever the round."""
        node = self.plan.nodes.get(ref)
        if node is None or node.loop is None:
            return self.latest(ref)
        if ref in self._newest:
            return self._new[self._newest[ref]]
        return self._current(self.state.tasks.newest(ref))

    def last(self) -> TaskState | None:
        """The task that was scheduled last."""
        return next(reversed(self._new.values()), None) or self._current(self._last)

    def _current(self, task: TaskState | None) -> TaskState | None:
        return self._changed.get(task.task_id, task) if task else None

    def round_of(self, node: Node) -> int:
        """The round that a task would run in now; 0 outside of loops."""
        loop = self.latest(node.loop.ref) if node.loop else None
        return loop.iteration if loop else 0

    def task_of(self, node: Node) -> TaskState | None:
        """The newest attempt at a task in the present round."""
        return self.latest(round_ref(node.ref, self.round_of(node)))

    # -- writing

    def next_seq(self) -> int:
        """The order number of a new task."""
        self._seq += 1
        return self._seq

    def add(self, task: TaskState) -> None:
        """A new task."""
        self._new[task.task_id] = task
        self._latest[task.ref] = task.task_id
        self._newest[task.base_ref] = task.task_id
        self._sort(task)

    def put(self, task: TaskState) -> None:
        """A task as it is from now on."""
        target = self._new if task.task_id in self._new else self._changed
        target[task.task_id] = task
        self._sort(task)

    def end(self, task: TaskState, status: str, **changes: Any) -> None:
        """A task has ended; its consequences are drawn later in this decision."""
        self.put(replace(task, status=status, ended_ms=self.now_ms, wait_until_ms=None, **changes))

    def executed(self, task: TaskState, **changes: Any) -> TaskState:
        """The consequences of a task's end are drawn."""
        task = replace(task, executed=True, **changes)
        self.put(task)
        return task

    def finish(self) -> Decision:
        """The decision, complete."""
        decision = self.decision
        decision.schedule = list(self._new.values())
        decision.update = list(self._changed.values())
        if self.variables is not self.state.variables:
            decision.variables = self.variables
        if self.status != self.state.status:
            decision.workflow_status = self.status
        times = [task.wait_until_ms for task in self.open.values() if task.wait_until_ms is not None]
        decision.wait_until_ms = min(times, default=None)
        return decision
