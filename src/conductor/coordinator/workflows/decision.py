"""The decision about the next step of a workflow, and the draft that collects its changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import TaskNode, strip_iterations
from conductor.coordinator.language import javascript_subset
from conductor.coordinator.limits import BYTES_PER_COUNTED_TASK, BYTES_PER_DECISION, TASKS_PER_DECISION
from conductor.coordinator.workflows.state import TaskState, WorkflowState
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus


class SubWorkflowStart(Struct, frozen=True, kw_only=True):
    """A workflow to start on behalf of a SUB_WORKFLOW task."""

    #: The SUB_WORKFLOW task. The caller sets its `sub_workflow_id`.
    task_id: str
    name: str
    #: None for the latest version.
    version: int | None = None
    #: An inline definition instead of a registered one.
    definition: dict[str, Any] | None = None
    #: Whether the inline definition came from data, such as a worker's output, so that its tasks receive no secrets.
    #: False if the workflow definition of the parent contains it.
    is_definition_from_data: bool = False
    input: dict[str, Any] = {}
    #: None to use the domains of the parent.
    task_to_domain: dict[str, str] | None = None
    priority: int | None = None
    #: If a workflow with this name and key exists, the strategy decides whether the task uses it.
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None


class FailureWorkflow(Struct, frozen=True, kw_only=True):
    """The failure workflow to start. The caller adds `failedWorkflow` to its input."""

    name: str
    input: dict[str, Any]
    #: None for the latest version.
    version: int | None = None


class Decision(Struct, kw_only=True, gc=False):
    """The next step of a workflow. An empty decision is false."""

    #: New tasks, in order. Tasks with `queued` go to their queues.
    schedule: list[TaskState] = []
    #: Existing tasks with their new values.
    update: list[TaskState] = []
    #: Ids of tasks that are removed from the workflow.
    remove: list[str] = []
    #: The variables of the workflow, if they changed.
    variables: dict[str, Any] | None = None
    #: The input and the correlation id of the workflow, if they were replaced.
    input: dict[str, Any] | None = None
    correlation_id: str | None = None
    #: The new status of the workflow, if it changes. If it ends, `output` is set and, after a failure, `reason`.
    workflow_status: WorkflowStatus | None = None
    output: dict[str, Any] | None = None
    reason: str | None = None
    #: The task whose failure ended the workflow.
    failed_task: TaskState | None = None
    start_sub_workflows: list[SubWorkflowStart] = []
    #: Ids of sub-workflows to terminate, because their parent has ended.
    terminate_sub_workflows: list[str] = []
    #: Ids of ended sub-workflows that run again, because their parent runs again.
    resume_sub_workflows: list[str] = []
    failure_workflow: FailureWorkflow | None = None
    #: Keys of the messages that tasks have taken. They are removed from the queue of the workflow.
    taken_messages: list[int] = []
    #: When the next decision is due, if no task ends before.
    wait_until_ms: int | None = None
    #: The number of tasks created since the workflow last waited. If it is not 0, the next decision follows at once.
    restless: int = 0

    def __bool__(self) -> bool:
        return bool(
            self.schedule
            or self.update
            or self.remove
            or self.start_sub_workflows
            or self.workflow_status is not None
            or self.variables is not None
        )


class ScriptNeeded(Exception):
    """The decision needs the value of a script, so the task must wait until the script has run."""


class ScriptFailed(NamedTuple):
    """Stands for the value of a script that has failed."""

    reason: str


class Draft:
    """The workflow as it will be when this decision is carried out."""

    #: The number of new tasks that ended at once. A task with a large input counts as several.
    cost = 0
    #: Whether the budget of this decision is spent, so that the next decision continues.
    is_spent = False
    #: Bytes that expressions have inserted into the inputs of new tasks.
    spent_bytes = 0
    #: How many tasks this decision has created, including those that `forget_new` has removed.
    made = 0
    #: Bytes that expressions have inserted into the input of the current task.
    bytes_brought_in = 0

    def __init__(self, state: WorkflowState, now_ms: int, new_id: Callable[[], str], *, last_seq: int = 0) -> None:
        self.state = state
        self.plan = state.plan
        self.now_ms = now_ms
        self.new_id = new_id
        self.variables = state.variables
        self.status = state.status
        self.decision = Decision()
        #: Ended tasks that are not processed yet.
        self.ended: deque[TaskState] = deque()
        #: Open tasks by id. Contains only those queued tasks that this decision has created or read.
        self.open: dict[str, TaskState] = {}
        self._changed: dict[str, TaskState] = {}
        self._new: dict[str, TaskState] = {}
        self._latest: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        self._last = state.tasks.last()
        self._seq = max(last_seq, self._last.seq if self._last else 0)
        for task in state.tasks.ready():
            self._sort(task)

    # The following attributes are rarely needed, so they are created on first use.

    @cached_property
    def answers(self) -> dict[str, Any]:
        """Values of scripts, by the id of the task that needs them."""
        return {}

    @cached_property
    def questions(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The scripts that must run, each with the value of `$`, by the id of the task that needs it."""
        return {}

    @cached_property
    def known_items(self) -> dict[str, Any]:
        """The resolved lists that loops iterate over, by expression. Contains only lists from the workflow input."""
        return {}

    def _sort(self, task: TaskState) -> None:
        if task.status in TERMINAL_TASK_STATUSES:
            self.open.pop(task.task_id, None)
            if not task.executed:
                self.ended.append(task)
        else:
            self.open[task.task_id] = task

    # -- reading

    def open_refs(self) -> Iterator[str]:
        """Yield the reference names of all open tasks. Most callers need only the first."""
        yield from [task.ref for task in self.open.values()]
        yield from self.state.tasks.queued()

    def has_watched_task(self) -> bool:
        """Return whether there is an open task that the decider must check, which is every task but SIMPLE tasks."""
        return not self.plan.has_only_worker_tasks and any(task.type != "SIMPLE" for task in self.open.values())

    def load_open_tasks(self) -> list[TaskState]:
        """Return all open tasks. Called only at the end of a workflow, because a wide fork has many open tasks."""
        if self.state.tasks.has_queued():  # all open tasks that are not queued are already in `open`
            for task in self.state.tasks.pending():
                if not task.terminal and task.task_id not in self._changed:
                    self.open[task.task_id] = task
        return list(self.open.values())

    def latest(self, ref: str) -> TaskState | None:
        """Return the newest attempt with this reference name. Inside a loop, the name ends with the iteration."""
        if ref in self._latest:
            return self._new[self._latest[ref]]
        task = self.state.tasks.latest(ref)
        return self._changed.get(task.task_id, task) if task else None

    def newest(self, ref: str) -> TaskState | None:
        """Return the newest attempt of a task of the definition, in any iteration."""
        node = self.plan.nodes.get(ref)
        if node is None or node.loop is None:
            return self.latest(ref)
        if ref in self._newest:
            return self._new[self._newest[ref]]
        # First look in this iteration and in the one before, because a search through all iterations is slow.
        outer, number = self.iteration_suffix(node.loop.loop), self.iteration_of(node.loop)
        for near in (number, number - 1):
            if found := self.latest(f"{ref}{outer}__{near}"):
                return found
        task = self.state.tasks.newest(ref)
        return self._changed.get(task.task_id, task) if task else None

    def last(self) -> TaskState | None:
        """Return the task that was scheduled last."""
        if self._new:
            return next(reversed(self._new.values()))
        return self._changed.get(self._last.task_id, self._last) if self._last else None

    def iteration_of(self, loop: TaskNode) -> int:
        """Return the number of the current iteration of a loop."""
        task = self.latest(loop.ref + self.iteration_suffix(loop.loop))
        return task.iteration if task else 0

    def iteration_suffix(self, loop: TaskNode | None) -> str:
        """Return the suffix of reference names in a loop: the current iteration of each enclosing loop."""
        return "" if loop is None else f"{self.iteration_suffix(loop.loop)}__{self.iteration_of(loop)}"

    def current_ref(self, node: TaskNode) -> str:
        """Return the reference name of a task in the current iteration."""
        return node.ref + self.iteration_suffix(node.loop)

    def current_task(self, node: TaskNode) -> TaskState | None:
        """Return the newest attempt of a task in the current iteration."""
        return self.latest(node.ref if node.loop is None else self.current_ref(node))

    def evaluate(self, task: TaskState, script: str, data: dict[str, Any]) -> Any:
        """Return the value of a condition.

        Raises:
            ScriptNeeded: The condition needs a JavaScript engine, and its script has not run yet.
        """
        if task.task_id in self.answers:
            answer = self.answers.pop(task.task_id)  # removed, because the next iteration of a loop needs a new value
            if isinstance(answer, ScriptFailed):
                raise javascript_subset.ConditionError(answer.reason)
            return answer
        try:
            return javascript_subset.evaluate(script, data)
        except javascript_subset.EngineNeeded:
            self.questions[task.task_id] = script, data
            raise ScriptNeeded from None

    def take_messages(self, count: int) -> list[dict[str, Any]]:
        """Take up to `count` messages to the workflow, oldest first, and return them."""
        taken = self.decision.taken_messages
        messages = self.state.messages(len(taken), count)
        taken += [message.key for message in messages]
        return [message.body for message in messages]

    # -- writing

    def next_seq(self) -> int:
        """Return the sequence number of a new task."""
        self._seq += 1
        return self._seq

    def add(self, task: TaskState) -> None:
        """Add a new task."""
        self._new[task.task_id] = task
        self.made += 1
        if task.status in TERMINAL_TASK_STATUSES:  # an open task makes the workflow wait, which ends an endless loop
            self.cost += 1 + self.bytes_brought_in // BYTES_PER_COUNTED_TASK
        self.spent_bytes += self.bytes_brought_in
        self.bytes_brought_in = 0
        if self.made >= TASKS_PER_DECISION or self.spent_bytes >= BYTES_PER_DECISION:
            self.is_spent = True
        self._latest[task.ref] = task.task_id
        if "__" in task.ref:
            self._newest.update(dict.fromkeys(strip_iterations(task.ref), task.task_id))
        self._sort(task)

    def new_tasks(self) -> list[TaskState]:
        """Return the tasks that this decision has created."""
        return list(self._new.values())

    def forget_new(self, task_ids: Iterable[str]) -> None:
        """Remove processed tasks that this decision has created, so that they are never stored."""
        for task_id in task_ids:
            ref = self._new.pop(task_id).ref
            for known, name in ((self._latest, ref), *((self._newest, stem) for stem in strip_iterations(ref))):
                if known.get(name) == task_id:
                    del known[name]

    def put(self, task: TaskState) -> None:
        """Replace a task."""
        target = self._new if task.task_id in self._new else self._changed
        target[task.task_id] = task
        self._sort(task)

    def end(self, task: TaskState, status: TaskStatus, **changes: Any) -> None:
        """End a task. The decider processes the end later in this decision."""
        self.put(replace(task, status=status, ended_ms=self.now_ms, wait_until_ms=None, queued=False, **changes))

    def mark_executed(self, task: TaskState, **changes: Any) -> TaskState:
        """Mark an ended task as processed. Return it."""
        task = replace(task, executed=True, **changes)
        self.put(task)
        return task

    def finish(self) -> Decision:
        """Return the complete decision."""
        decision = self.decision
        decision.schedule = list(self._new.values())
        decision.update = list(self._changed.values())
        if self.variables is not self.state.variables:
            decision.variables = self.variables
        if self.status != self.state.status:
            decision.workflow_status = self.status
        if decision.restless:
            decision.wait_until_ms = self.now_ms
        elif self.open:
            times = [task.wait_until_ms for task in self.open.values() if task.wait_until_ms is not None]
            decision.wait_until_ms = min(times, default=None)
        return decision
