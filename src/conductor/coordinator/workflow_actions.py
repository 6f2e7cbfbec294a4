"""What people do to a whole workflow: terminate, pause, resume, retry, restart, rerun, skip a task.

Each function takes the state (retry, restart, rerun and skip need all tasks, in a `TaskList`) and returns the
Decision to carry out, with everything that follows from it at once. `ActionRefused` says why an action cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from conductor.coordinator.draft import Decision, Draft
from conductor.coordinator.plan import Node, Plan
from conductor.coordinator.workflow_state import TaskList, TaskState, WorkflowState
from conductor.coordinator.workflows import Decider, decide, first_variables
from conductor.wire import TERMINAL_WORKFLOW_STATUSES

NewId = Callable[[], str]

#: Tasks of the decider's own that wait for others: they are opened again rather than replaced.
_REOPENED_TYPES = ("JOIN", "DO_WHILE")
#: Conductor's own words.
NOTHING_TO_RETRY = "There are no retryable tasks! Use restart if you want to attempt entire workflow execution again."


class ActionRefused(Exception):
    """The workflow is not in a state for this; the message says which it is in."""


def terminate(state: WorkflowState, now_ms: int, reason: str | None) -> Decision:
    """End a workflow from outside. One that has failed becomes TERMINATED; one that is TERMINATED stays as it is."""
    if state.status == "COMPLETED":
        raise ActionRefused("Cannot terminate a COMPLETED workflow.")
    if state.status == "TERMINATED":
        return Decision()
    return _ended(state, now_ms, "TERMINATED", reason, failure=False)


def time_out(state: WorkflowState, now_ms: int, reason: str, task: TaskState | None = None) -> Decision:
    """End a workflow that took too long, itself or (policy TIME_OUT_WF) in one of its tasks."""
    if state.status in TERMINAL_WORKFLOW_STATUSES:
        return Decision()
    return _ended(state, now_ms, "TIMED_OUT", reason, task=task)


def fail(state: WorkflowState, now_ms: int, reason: str) -> Decision:
    """End a workflow that cannot go on."""
    return _ended(state, now_ms, "FAILED", reason)


def _ended(
    state: WorkflowState,
    now_ms: int,
    status: str,
    reason: str | None,
    *,
    task: TaskState | None = None,
    failure: bool = True,
) -> Decision:
    decider = Decider(Draft(state, now_ms, _no_new_tasks), 0.0)
    decider.end(status, reason, failed_task=task, failure=failure)
    return decider.draft.finish()


def _no_new_tasks() -> str:
    raise AssertionError("ending a workflow makes no tasks")


def pause(state: WorkflowState) -> Decision:
    """Schedule nothing more. Tasks that are queued or being worked on are not touched."""
    if state.status in TERMINAL_WORKFLOW_STATUSES:
        raise ActionRefused(f"Workflow {_full_name(state)} has ended, status cannot be updated.")
    return Decision(workflow_status="PAUSED") if state.status != "PAUSED" else Decision()


def resume(state: WorkflowState, now_ms: int, *, new_id: NewId, jitter: float = 0.0) -> Decision:
    """Go on with a paused workflow, with all that has ended meanwhile."""
    if state.status != "PAUSED":
        raise ActionRefused(
            f"The workflow {state.workflow_id} is not PAUSED so cannot resume. Current status is {state.status}"
        )
    decision = decide(replace(state, status="RUNNING"), now_ms, new_id=new_id, jitter=jitter)
    decision.workflow_status = decision.workflow_status or "RUNNING"
    return decision


def retry(state: WorkflowState, now_ms: int, *, new_id: NewId) -> Decision:
    """Try again what has failed or was cancelled, as new attempts, and go on from there."""
    _must_have_ended(state, "retry")
    if state.status == "COMPLETED":
        raise ActionRefused(NOTHING_TO_RETRY)
    decider = _reopen(state, now_ms, new_id)
    moved = _retry_unsuccessful(decider)
    if not moved and len(_all_tasks(state)) and not list(state.tasks.pending()):
        raise ActionRefused(NOTHING_TO_RETRY)
    return _going_on(decider)


def reopen(state: WorkflowState, now_ms: int, *, new_id: NewId, task_id: str) -> Decision:
    """Go on because the sub-workflow of a task does: that task is open again, what else ended badly is tried again."""
    if state.status not in TERMINAL_WORKFLOW_STATUSES or state.status == "COMPLETED":
        return Decision()
    decider = _reopen(state, now_ms, new_id)
    task = _all_tasks(state).get(task_id)
    if task is not None:
        decider.draft.put(_opened(task))
    _retry_unsuccessful(decider)
    return _going_on(decider)


def restart(
    state: WorkflowState,
    now_ms: int,
    *,
    new_id: NewId,
    plan: Plan | None = None,
    task_defs: Mapping[str, Mapping[str, Any]] | None = None,
    workflow_input: dict[str, Any] | None = None,
) -> Decision:
    """Begin again with the same id and no tasks; `plan` and `task_defs` are given to use other definitions."""
    _must_have_ended(state, "restart")
    if state.status == "COMPLETED" and state.definition.get("restartable") is False:
        raise ActionRefused(f"Workflow {state.workflow_id} has COMPLETED and its definition is not restartable")
    fresh = replace(
        state,
        status="RUNNING",
        plan=plan or state.plan,
        tasks=TaskList(),
        variables=first_variables((plan or state.plan).definition),
        task_defs=state.task_defs if task_defs is None else task_defs,
        input=state.input if workflow_input is None else workflow_input,
        output={},
        reason=None,
    )
    decision = decide(fresh, now_ms, new_id=new_id)
    decision.remove = [task.task_id for task in _all_tasks(state)]
    decision.workflow_status = decision.workflow_status or "RUNNING"
    decision.output = decision.output or {}
    decision.variables = fresh.variables if decision.variables is None else decision.variables
    decision.input = workflow_input
    return decision


def rerun(
    state: WorkflowState,
    now_ms: int,
    *,
    new_id: NewId,
    task_id: str | None = None,
    task_input: dict[str, Any] | None = None,
    workflow_input: dict[str, Any] | None = None,
) -> Decision:
    """Run again from a task: it gets a new id, what came after it is forgotten, other branches keep their results.

    Without a task, from the beginning.
    """
    _must_have_ended(state, "rerun")
    if task_id is None:
        return restart(state, now_ms, new_id=new_id, workflow_input=workflow_input)
    target = _all_tasks(state).get(task_id)
    if target is None:
        raise ActionRefused(f"Task {task_id} is not part of workflow {state.workflow_id}")
    rewind = _Rewind(state, target)
    given = replace(state, input=state.input if workflow_input is None else workflow_input)
    decider = _reopen(
        given.with_tasks(rewind.kept), now_ms, new_id, last_seq=max(task.seq for task in _all_tasks(state))
    )
    for task in rewind.reopened:
        decider.draft.put(task)
    _retry_unsuccessful(decider)
    decider.start(state.plan.nodes[target.base_ref], given=task_input)
    decision = _going_on(decider)
    decision.remove = rewind.removed
    decision.input = workflow_input
    return decision


def skip_task(
    state: WorkflowState,
    ref: str,
    now_ms: int,
    *,
    new_id: NewId,
    task_input: dict[str, Any] | None = None,
    task_output: dict[str, Any] | None = None,
) -> Decision:
    """Mark a task that is still to come; when the flow reaches it, it goes on behind it."""
    node = state.plan.nodes.get(ref)
    if state.status != "RUNNING":
        raise ActionRefused(f"Workflow {state.workflow_id} is {state.status}; tasks are skipped while it is RUNNING")
    if node is None:
        raise ActionRefused(f"There is no task '{ref}' in the definition of workflow {state.workflow_id}")
    if node.loop is not None:
        raise ActionRefused(f"Task '{ref}' is inside a loop and runs in every round; it cannot be skipped")
    if state.tasks.latest(ref) is not None:
        raise ActionRefused(f"Task '{ref}' has been scheduled already; it cannot be skipped")
    draft = Draft(state, now_ms, new_id)
    skipped = TaskState(
        task_id=new_id(),
        ref=ref,
        type=node.type,
        name=node.name,
        status="SKIPPED",
        seq=draft.next_seq(),
        input=task_input or {},
        output=task_output or {},
        scheduled_ms=now_ms,
        first_scheduled_ms=now_ms,
        ended_ms=now_ms,
    )
    draft.add(skipped)
    return draft.finish()


# -- what they have in common


def _must_have_ended(state: WorkflowState, action: str) -> None:
    if state.status not in TERMINAL_WORKFLOW_STATUSES:
        which = f"{_full_name(state)}.{state.status}"
        raise ActionRefused(f"Workflow: {which} is not in terminal state, unable to {action}.")


def _full_name(state: WorkflowState) -> str:
    return f"{state.definition.get('name')}.{state.definition.get('version')}/{state.workflow_id}"


def _all_tasks(state: WorkflowState) -> TaskList:
    if not isinstance(state.tasks, TaskList):
        raise TypeError("this action looks at all tasks: give it a TaskList")
    return state.tasks


def _reopen(state: WorkflowState, now_ms: int, new_id: NewId, last_seq: int = 0) -> Decider:
    running = replace(state, status="RUNNING", reason=None)
    return Decider(Draft(running, now_ms, new_id, last_seq=last_seq), 0.0)


def _going_on(decider: Decider) -> Decision:
    decider.run()
    decision = decider.draft.finish()
    decision.workflow_status = decision.workflow_status or "RUNNING"
    return decision


def _retry_unsuccessful(decider: Decider) -> bool:
    """Put a new attempt in the place of everything that has ended badly. Whether there was any."""
    draft, moved = decider.draft, False
    tasks = {task.ref: task for task in _all_tasks(draft.state)}
    for task in tasks.values():
        if not task.terminal or task.successful or draft.latest(task.ref) is not task:
            continue
        moved = True
        if task.type in _REOPENED_TYPES:
            draft.put(_opened(task))
        else:
            draft.executed(task, retried=True)
            decider.start(draft.plan.nodes[task.base_ref], replace(task, reason=None), delay_ms=0)
    return moved


def _opened(task: TaskState) -> TaskState:
    return replace(task, status="IN_PROGRESS", executed=False, reason=None, ended_ms=0)


class _Rewind:
    """Which tasks stay, which go and which wait again when a workflow goes back to a task."""

    def __init__(self, state: WorkflowState, target: TaskState) -> None:
        node = state.plan.nodes[target.base_ref]
        self._iteration = target.iteration
        self._loop = node.loop
        self._gone: set[str] = set()
        self._waiting: set[str] = set()
        self._leave_out(node)
        self._leave_out_following(node)
        tasks = list(_all_tasks(state))
        self.removed = [task.task_id for task in tasks if self._is_gone(task, state.plan)]
        self.kept = [task for task in tasks if not self._is_gone(task, state.plan)]
        self.reopened = [self._wait_again(task) for task in self.kept if task.ref in self._waiting_refs()]

    def _leave_out(self, node: Node) -> None:
        self._gone.add(node.ref)
        for sequence in (*node.cases.values(), *node.branches, node.body):
            for inner in sequence:
                self._leave_out(inner)

    def _leave_out_following(self, node: Node) -> None:
        """Everything behind a task in its own sequence, and behind that sequence."""
        following = node.next
        if node.branches and following is not None and node.ref not in self._gone:
            # The fork itself is not run again, so nobody would start its JOIN.
            self._waiting.add(following.ref)
            following = following.next
        while following is not None:
            self._leave_out(following)
            following = following.next
        if node.parent is not None:
            if node.parent.body:
                self._waiting.add(node.parent.ref)
            self._leave_out_following(node.parent)

    def _is_gone(self, task: TaskState, plan: Plan) -> bool:
        node = plan.nodes[task.base_ref]
        if self._loop is not None and node.loop is self._loop:
            return task.iteration > self._iteration or (task.iteration == self._iteration and node.ref in self._gone)
        return node.ref in self._gone

    def _waiting_refs(self) -> set[str]:
        rounds = {f"{ref}__{self._iteration}" for ref in self._waiting} if self._loop is not None else set()
        return self._waiting | rounds

    def _wait_again(self, task: TaskState) -> TaskState:
        if task.type == "JOIN":
            return replace(_opened(task), output={})
        later = {str(number) for number in range(self._iteration, task.iteration + 1)}
        output = {key: value for key, value in task.output.items() if key not in later}
        return replace(_opened(task), iteration=self._iteration, output={**output, "iteration": self._iteration})
