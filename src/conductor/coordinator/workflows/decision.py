"""A decision while it is being made: the state as it was, and on top of it what has changed so far."""

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
    #: Another workflow of that name and key may be in its place already; the strategy says what that means.
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None


class FailureWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow to start because this one failed. The caller adds `failedWorkflow` to the input."""

    name: str
    input: dict[str, Any]
    #: None: the latest.
    version: int | None = None


class Decision(Struct, kw_only=True, gc=False):
    """What comes next. False when nothing does."""

    #: New tasks in order. SCHEDULED ones of type SIMPLE go to the queue, the others are the decider's own.
    schedule: list[TaskState] = []
    #: Existing tasks as they are from now on.
    update: list[TaskState] = []
    #: Ids of tasks that are no longer part of the workflow.
    remove: list[str] = []
    #: The workflow's variables, if they changed.
    variables: dict[str, Any] | None = None
    #: The workflow's input and its correlation id, if they were replaced.
    input: dict[str, Any] | None = None
    correlation_id: str | None = None
    #: The workflow's new status, if it has one; then also `output` and, unless it went well, `reason`.
    workflow_status: WorkflowStatus | None = None
    output: dict[str, Any] | None = None
    reason: str | None = None
    #: The task whose failure ended the workflow.
    failed_task: TaskState | None = None
    start_sub_workflows: list[SubWorkflowStart] = []
    #: Ids of sub-workflows whose parent has ended.
    terminate_sub_workflows: list[str] = []
    #: Ids of sub-workflows that had ended and go on, because their parent does.
    resume_sub_workflows: list[str] = []
    failure_workflow: FailureWorkflow | None = None
    #: Decide again no later than this, whatever else happens.
    wait_until_ms: int | None = None
    #: Tasks made since the workflow last waited for anything; above 0, there is more to decide at once.
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


class ScriptAsked(Exception):
    """What comes next depends on a script, whose value is not known yet: the task that asked waits for it."""


class ScriptFailed(NamedTuple):
    """A script that was asked and has no value."""

    reason: str


class Draft:
    """The workflow as it will be when this decision is carried out."""

    #: What the new tasks cost, in tasks of ordinary size; and whether that is enough for one decision.
    cost = 0
    spent = False
    spent_bytes = 0
    #: Tasks that this decision has made, those included that it has forgotten again.
    made = 0
    #: What expressions have brought into the input of the task that is being made.
    bytes_brought_in = 0

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
        for task in state.tasks.ready():
            self._sort(task)

    # What few workflows need is made when it is first asked for.

    @cached_property
    def answers(self) -> dict[str, Any]:
        """Values of scripts by the id of the task that asked."""
        return {}

    @cached_property
    def questions(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The scripts that were asked: (script, `$`)."""
        return {}

    @cached_property
    def known_items(self) -> dict[str, Any]:
        """Lists of the workflow's input that loops go through, by their expressions."""
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
        """The reference names of all that is open. Most often the first is enough."""
        yield from [task.ref for task in self.open.values()]
        yield from self.state.tasks.queued()

    def watched(self) -> bool:
        """Whether something is open that the decider itself has to look at: not only work for workers."""
        return not self.plan.has_only_worker_tasks and any(task.type != "SIMPLE" for task in self.open.values())

    def open_all(self) -> list[TaskState]:
        """All that is open. Of a wide fork that is much to read; only the end of a workflow asks for it."""
        if self.state.tasks.has_queued():  # all others were looked at before
            for task in self.state.tasks.pending():
                if not task.terminal and task.task_id not in self._changed:
                    self.open[task.task_id] = task
        return list(self.open.values())

    def latest(self, ref: str) -> TaskState | None:
        """The newest attempt under exactly this reference name."""
        if ref in self._latest:
            return self._new[self._latest[ref]]
        task = self.state.tasks.latest(ref)
        return self._changed.get(task.task_id, task) if task else None

    def newest(self, ref: str) -> TaskState | None:
        """The newest attempt of a task of the definition, whatever the round."""
        node = self.plan.nodes.get(ref)
        if node is None or node.loop is None:
            return self.latest(ref)
        if ref in self._newest:
            return self._new[self._newest[ref]]
        # Nearly always it is in this round or the last one. To look for it in all rounds takes longer and longer.
        outer, number = self.rounds(node.loop.loop), self.round_of(node.loop)
        for near in (number, number - 1):
            if found := self.latest(f"{ref}{outer}__{near}"):
                return found
        task = self.state.tasks.newest(ref)
        return self._changed.get(task.task_id, task) if task else None

    def last(self) -> TaskState | None:
        """The task that was scheduled last."""
        if self._new:
            return next(reversed(self._new.values()))
        return self._changed.get(self._last.task_id, self._last) if self._last else None

    def round_of(self, loop: TaskNode) -> int:
        """The round that a loop is in."""
        task = self.latest(loop.ref + self.rounds(loop.loop))
        return task.iteration if task else 0

    def rounds(self, loop: TaskNode | None) -> str:
        """What the reference names of tasks in a loop end with now: the round of each enclosing loop."""
        return "" if loop is None else f"{self.rounds(loop.loop)}__{self.round_of(loop)}"

    def ref_of(self, node: TaskNode) -> str:
        """The reference name of a task in the present round."""
        return node.ref + self.rounds(node.loop)

    def task_of(self, node: TaskNode) -> TaskState | None:
        """The newest attempt at a task in the present round."""
        return self.latest(node.ref if node.loop is None else self.ref_of(node))

    def value_of(self, task: TaskState, script: str, data: dict[str, Any]) -> Any:
        """Return the value of a condition: at once if it is simple, else from a script. Raises ScriptAsked."""
        if task.task_id in self.answers:
            answer = self.answers.pop(task.task_id)  # a loop asks again in its next round
            if isinstance(answer, ScriptFailed):
                raise javascript_subset.ConditionError(answer.reason)
            return answer
        try:
            return javascript_subset.evaluate(script, data)
        except javascript_subset.EngineNeeded:
            self.questions[task.task_id] = script, data
            raise ScriptAsked from None

    # -- writing

    def next_seq(self) -> int:
        """The order number of a new task."""
        self._seq += 1
        return self._seq

    def add(self, task: TaskState) -> None:
        """A new task."""
        self._new[task.task_id] = task
        self.made += 1
        if task.status in TERMINAL_TASK_STATUSES:  # the others are waited for
            self.cost += 1 + self.bytes_brought_in // BYTES_PER_COUNTED_TASK
        self.spent_bytes += self.bytes_brought_in
        self.bytes_brought_in = 0
        if self.made >= TASKS_PER_DECISION or self.spent_bytes >= BYTES_PER_DECISION:
            self.spent = True
        self._latest[task.ref] = task.task_id
        if "__" in task.ref:
            self._newest.update(dict.fromkeys(strip_iterations(task.ref), task.task_id))
        self._sort(task)

    def new_tasks(self) -> list[TaskState]:
        """Return the tasks that this decision has made."""
        return list(self._new.values())

    def forget_new(self, task_ids: Iterable[str]) -> None:
        """Forget tasks that this decision has made and whose consequences are drawn: they are never stored."""
        for task_id in task_ids:
            ref = self._new.pop(task_id).ref
            for known, name in ((self._latest, ref), *((self._newest, stem) for stem in strip_iterations(ref))):
                if known.get(name) == task_id:
                    del known[name]

    def put(self, task: TaskState) -> None:
        """A task as it is from now on."""
        target = self._new if task.task_id in self._new else self._changed
        target[task.task_id] = task
        self._sort(task)

    def end(self, task: TaskState, status: TaskStatus, **changes: Any) -> None:
        """A task has ended; its consequences are drawn later in this decision."""
        self.put(replace(task, status=status, ended_ms=self.now_ms, wait_until_ms=None, queued=False, **changes))

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
        if decision.restless:
            decision.wait_until_ms = self.now_ms
        elif self.open:
            times = [task.wait_until_ms for task in self.open.values() if task.wait_until_ms is not None]
            decision.wait_until_ms = min(times, default=None)
        return decision
