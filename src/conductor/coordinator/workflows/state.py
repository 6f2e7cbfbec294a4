"""A workflow as plain data for the decider, independent of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import WorkflowPlan, strip_iterations
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus

#: The flow continues after a task with one of these statuses.
SUCCESSFUL_TASK_STATUSES = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS, TaskStatus.SKIPPED})
#: A task with one of these statuses can be retried. A cancelled task or a terminal error is not retried.
RETRIABLE_TASK_STATUSES = frozenset({TaskStatus.FAILED, TaskStatus.TIMED_OUT})


class RuntimeDefinition(Struct, frozen=True, array_like=True):
    """The definition of a task that was created at run time (`dynamic_tasks.py`)."""

    #: The task in the form that it would have in a workflow definition.
    task: dict[str, Any]
    #: The reference name of the dynamic fork that the task is a branch of; None outside a dynamic fork.
    fork: str | None = None


class TaskState(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt at one task of a workflow."""

    task_id: str
    #: The reference name of the task, with `__<iteration>` at its end for each enclosing loop.
    ref: str
    #: The operator: SIMPLE, SWITCH, JOIN, ...
    type: str
    #: The task definition's name.
    name: str
    status: TaskStatus
    #: Order of scheduling within the workflow, from 1.
    seq: int
    #: The iteration of the enclosing loop, from 1; 0 outside loops. For a DO_WHILE, its own current iteration.
    iteration: int = 0
    retry_count: int = 0
    #: Whether another attempt has followed this one.
    retried: bool = False
    retried_task_id: str | None = None
    #: Whether the decider has processed the end of this attempt.
    executed: bool = False
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    reason: str | None = None
    scheduled_ms: int = 0
    #: When the first attempt was scheduled. The total timeout counts from here.
    first_scheduled_ms: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    #: The delay after `scheduled_ms` before the task can be polled.
    start_delay_ms: int = 0
    #: When the decider must process the task again: the end of a WAIT, or the delayed start of a sub-workflow.
    wait_until_ms: int | None = None
    sub_workflow_id: str | None = None
    #: Whether the task is queued or leased. Tasks that are not SIMPLE are leased by the coordinator's own workers.
    queued: bool = False
    worker_id: str | None = None
    poll_count: int = 0
    callback_after_s: int = 0
    #: Set only for a task that was created at run time.
    own: RuntimeDefinition | None = None
    #: The reference names that a JOIN waits for.
    joins: frozenset[str] = frozenset()

    @property
    def terminal(self) -> bool:
        """Whether this attempt has ended."""
        return self.status in TERMINAL_TASK_STATUSES

    @property
    def successful(self) -> bool:
        """Whether the flow continues after this attempt."""
        return self.status in SUCCESSFUL_TASK_STATUSES

    @property
    def wire_type(self) -> str:
        """The `taskType` that clients see. For a SIMPLE task it is the name that workers poll."""
        return self.name if self.type in ("SIMPLE", "FORK_JOIN", "FORK_JOIN_DYNAMIC") else self.type

    @property
    def waits_for_others(self) -> bool:
        """Whether a worker or a sub-workflow must end the task before the decider can process it."""
        if self.terminal:
            return False
        return self.queued or (self.sub_workflow_id is not None and self.wait_until_ms is None)


class Tasks(Protocol):
    """The tasks of one workflow, as the decider needs them. An implementation may load each task on first use."""

    def latest(self, ref: str) -> TaskState | None:
        """Return the newest attempt with this reference name. Inside a loop, the name ends with the iteration."""

    def newest(self, ref: str) -> TaskState | None:
        """Return the newest attempt of a task inside a loop, in any iteration."""

    def named(self, ref: str) -> Iterable[tuple[str, str]]:
        """Return (id, reference name) of all attempts under this name, in any iteration of a loop."""

    def pending(self) -> Iterable[TaskState]:
        """Return the open tasks and the ended tasks that are not `executed`, in order of `seq`."""

    def ready(self) -> Iterable[TaskState]:
        """Return the pending tasks that are not `queued`. A decision reads only these, which are few."""

    def queued(self) -> Iterable[str]:
        """Return the reference names of tasks that wait for a worker or a sub-workflow."""

    def has_queued(self) -> bool:
        """Return whether a task waits for a worker or a sub-workflow."""

    def last(self) -> TaskState | None:
        """Return the task with the highest `seq`."""


class TaskList:
    """Implements `Tasks` in memory."""

    def __init__(self, tasks: Iterable[TaskState] = ()) -> None:
        self._by_id: dict[str, TaskState] = {}
        self._latest: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        for task in sorted(tasks, key=lambda task: task.seq):
            self.put(task)

    def put(self, task: TaskState) -> None:
        """Add a task, or replace the task with the same id."""
        if task.task_id not in self._by_id:
            self._latest[task.ref] = task.task_id
            self._newest.update(dict.fromkeys(strip_iterations(task.ref), task.task_id))
        self._by_id[task.task_id] = task

    def __iter__(self) -> Iterator[TaskState]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, task_id: str) -> TaskState | None:
        """Return the task with this id."""
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


class Message(NamedTuple):
    """A message to a workflow."""

    #: The key of the message's row in the database.
    key: int
    #: The message as it stands in the output of a task: `id`, `workflowId`, `payload` and `receivedAt`.
    body: dict[str, Any]


def no_messages(_skip: int, _count: int) -> Sequence[Message]:
    """Return an empty list: the workflow has no messages."""
    return ()


def _unregistered(_name: str) -> None:
    """Return None: no task type is registered."""


class WorkflowState(Struct, frozen=True, kw_only=True, gc=False):
    """The state of a workflow between two decisions."""

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
    #: The number of tasks created since the workflow last waited.
    restless: int = 0
    #: Returns the task definition that is registered now, or None.
    registered: Callable[[str], Mapping[str, Any] | None] = _unregistered
    #: Takes two numbers, `skip` and `count`. Returns up to `count` messages to the workflow, oldest first, without the
    #: first `skip`.
    messages: Callable[[int, int], Sequence[Message]] = no_messages

    @property
    def definition(self) -> Mapping[str, Any]:
        """The workflow definition."""
        return self.plan.definition

    def with_tasks(self, tasks: Iterable[TaskState]) -> WorkflowState:
        """Return a copy of the state that has these tasks in a `TaskList`."""
        return replace(self, tasks=TaskList(tasks))
