"""A workflow as plain data: what the decider reads, and nothing that knows where it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import WorkflowPlan, strip_iterations
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus

#: The flow goes on after a task in one of these.
SUCCESSFUL_TASK_STATUSES = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS, TaskStatus.SKIPPED})
#: Only these are worth another attempt; a cancelled task and a terminal error are not.
RETRIABLE_TASK_STATUSES = frozenset({TaskStatus.FAILED, TaskStatus.TIMED_OUT})


class Own(Struct, frozen=True, array_like=True):
    """The definition of a task that no workflow definition has, because it was made at run time (`dynamic.py`)."""

    #: As a workflow definition would have it.
    task: dict[str, Any]
    #: The reference name of the dynamic fork that it is a branch of; None: it stands in the place of a DYNAMIC task.
    fork: str | None = None


class TaskState(Struct, frozen=True, kw_only=True, gc=False):
    """One attempt at one task of a workflow."""

    task_id: str
    #: The task's reference name; inside a loop with `__<round>` at its end, inside loops in loops with one for each.
    ref: str
    #: The operator: SIMPLE, SWITCH, JOIN, ...
    type: str
    #: The task definition's name.
    name: str
    status: TaskStatus
    #: Order of scheduling within the workflow, from 1.
    seq: int
    #: The round of the enclosing loop (from 1), 0 outside of loops. Of a DO_WHILE itself: the round it is in.
    iteration: int = 0
    retry_count: int = 0
    #: Another attempt has taken this one's place.
    retried: bool = False
    retried_task_id: str | None = None
    #: The decider has drawn the consequences of this task's end.
    executed: bool = False
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    reason: str | None = None
    scheduled_ms: int = 0
    #: When the first attempt was scheduled: the total timeout counts from here.
    first_scheduled_ms: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    #: The queue hands the task out no earlier than this long after `scheduled_ms`.
    start_delay_ms: int = 0
    #: The decider wants to see this task again at that time (a WAIT that runs out, a sub-workflow started again later).
    wait_until_ms: int | None = None
    sub_workflow_id: str | None = None
    #: It is in a queue, or with the worker that took it from there: one of ours, if it is no SIMPLE task.
    queued: bool = False
    worker_id: str | None = None
    poll_count: int = 0
    callback_after_s: int = 0
    #: Only of a task that was made at run time.
    own: Own | None = None
    #: What a JOIN waits for, to be asked whether a task is among it.
    joins: frozenset[str] = frozenset()

    @property
    def terminal(self) -> bool:
        """Whether this attempt is over."""
        return self.status in TERMINAL_TASK_STATUSES

    @property
    def successful(self) -> bool:
        """Whether the flow goes on after it."""
        return self.status in SUCCESSFUL_TASK_STATUSES

    @property
    def wire_type(self) -> str:
        """`taskType` as Conductor's clients see it: a SIMPLE task's is the name its workers poll."""
        return self.name if self.type in ("SIMPLE", "FORK_JOIN", "FORK_JOIN_DYNAMIC") else self.type

    @property
    def waits_for_others(self) -> bool:
        """Whether a worker or a sub-workflow has to end before there is anything to decide about this task."""
        if self.terminal:
            return False
        return self.queued or (self.sub_workflow_id is not None and self.wait_until_ms is None)


class Tasks(Protocol):
    """The tasks of one workflow, as far as the decider looks. A store may load them one by one when asked."""

    def latest(self, ref: str) -> TaskState | None:
        """The newest attempt under exactly this reference name."""

    def newest(self, ref: str) -> TaskState | None:
        """The newest attempt of a task inside a loop, whatever the round."""

    def named(self, ref: str) -> Iterable[tuple[str, str]]:
        """Return (id, reference name) of all attempts under this name, and in rounds of a loop under it."""

    def pending(self) -> Iterable[TaskState]:
        """All that are open, and all that have ended but are not `executed` yet; in order of `seq`."""

    def ready(self) -> Iterable[TaskState]:
        """The pending ones without `queued`: what a decision looks at. A wide fork has few of these at a time."""

    def queued(self) -> Iterable[str]:
        """The reference names of tasks that wait for workers, are with them, or wait for their sub-workflows."""

    def has_queued(self) -> bool:
        """Whether there is one of these."""

    def last(self) -> TaskState | None:
        """The one with the highest `seq`."""


class TaskList:
    """Tasks held in memory."""

    def __init__(self, tasks: Iterable[TaskState] = ()) -> None:
        self._by_id: dict[str, TaskState] = {}
        self._latest: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        for task in sorted(tasks, key=lambda task: task.seq):
            self.put(task)

    def put(self, task: TaskState) -> None:
        """Add a task, or replace the one with its id."""
        if task.task_id not in self._by_id:
            self._latest[task.ref] = task.task_id
            self._newest.update(dict.fromkeys(strip_iterations(task.ref), task.task_id))
        self._by_id[task.task_id] = task

    def __iter__(self) -> Iterator[TaskState]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, task_id: str) -> TaskState | None:
        """The task with this id."""
        return self._by_id.get(task_id)

    def latest(self, ref: str) -> TaskState | None:
        """See `Tasks.latest`."""
        return self._by_id.get(self._latest.get(ref, ""))

    def newest(self, ref: str) -> TaskState | None:
        """See `Tasks.newest`."""
        return self._by_id.get(self._newest.get(ref, ""))

    def named(self, ref: str) -> list[tuple[str, str]]:
        """See `Tasks.named`."""
        return [(task.task_id, task.ref) for task in self if task.ref == ref or task.ref.startswith(f"{ref}__")]

    def pending(self) -> list[TaskState]:
        """See `Tasks.pending`."""
        return [task for task in self if not (task.terminal and task.executed)]

    def ready(self) -> list[TaskState]:
        """See `Tasks.ready`."""
        return [task for task in self.pending() if not task.waits_for_others]

    def queued(self) -> list[str]:
        """See `Tasks.queued`."""
        return [task.ref for task in self if task.waits_for_others]

    def has_queued(self) -> bool:
        """See `Tasks.has_queued`."""
        return any(task.waits_for_others for task in self)

    def last(self) -> TaskState | None:
        """See `Tasks.last`."""
        return next(reversed(self._by_id.values()), None)


def _unregistered(_name: str) -> None:
    """Nobody has registered any task type."""


class WorkflowState(Struct, frozen=True, kw_only=True, gc=False):
    """One execution of a workflow, between two decisions."""

    workflow_id: str
    plan: WorkflowPlan
    tasks: Tasks
    status: WorkflowStatus = WorkflowStatus.RUNNING
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    correlation_id: str | None = None
    reason: str | None = None
    parent_workflow_id: str | None = None
    parent_task_id: str | None = None
    task_to_domain: Mapping[str, str] = {}
    priority: int = 0
    #: Tasks made since it last waited for anything.
    restless: int = 0
    #: The definition of a task type, as it is registered now; None if it is not.
    registered: Callable[[str], Mapping[str, Any] | None] = _unregistered

    @property
    def definition(self) -> Mapping[str, Any]:
        """The workflow definition, as it was registered."""
        return self.plan.definition

    def with_tasks(self, tasks: Iterable[TaskState]) -> WorkflowState:
        """The same workflow with these tasks, in memory."""
        return replace(self, tasks=TaskList(tasks))
