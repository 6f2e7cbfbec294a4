"""Actions on a whole workflow: terminate, pause, resume, retry, restart, rerun, skip a task.

An `Action` takes the state with all tasks in a `TaskList`, the time, a function for new task ids and options. It
returns the complete decision, or raises `ActionRefused`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import FORKS, TaskNode, WorkflowPlan
from conductor.coordinator.workflows.decider import Decider, decide, initial_variables
from conductor.coordinator.workflows.decision import Decision, Draft
from conductor.coordinator.workflows.operators import find_loop_items, iteration_values
from conductor.coordinator.workflows.state import TaskList, TaskState, WorkflowState
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES, TaskStatus, WorkflowStatus

NewId = Callable[[], str]
#: Takes the state, the time, a function for new task ids and options; returns the decision.
Action = Callable[..., Decision]

#: Task types that wait for other tasks. An action reopens such a task instead of starting a new attempt.
_REOPENED_TYPES = ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE")
#: The error message of a retry that finds no task to retry, as on Conductor.
NOTHING_TO_RETRY = "There are no retryable tasks! Use restart if you want to attempt entire workflow execution again."


class ActionRefused(Exception):
    """The workflow is not in a status that allows the action."""


def terminate(state: WorkflowState, now_ms: int, _new_id: NewId, *, reason: str | None = None) -> Decision:
    """Terminate a workflow. A failed workflow becomes TERMINATED too."""
    if state.status == WorkflowStatus.COMPLETED:
        raise ActionRefused("Cannot terminate a COMPLETED workflow.")
    if state.status == WorkflowStatus.TERMINATED:
        return Decision()
    return _end(state, now_ms, WorkflowStatus.TERMINATED, reason, failure=False)


def time_out(state: WorkflowState, now_ms: int, _new_id: NewId, *, reason: str, task_id: str | None = None) -> Decision:
    """End a workflow because it has timed out, or because a task with policy TIME_OUT_WF has timed out."""
    if state.status in TERMINAL_WORKFLOW_STATUSES:
        return Decision()
    timed_out = None if task_id is None else _all_tasks(state).get(task_id)
    return _end(state, now_ms, WorkflowStatus.TIMED_OUT, reason, task=timed_out)


def fail(state: WorkflowState, now_ms: int, _new_id: NewId, *, reason: str) -> Decision:
    """Fail a workflow that cannot continue."""
    return _end(state, now_ms, WorkflowStatus.FAILED, reason)


def _end(
    state: WorkflowState,
    now_ms: int,
    status: WorkflowStatus,
    reason: str | None,
    *,
    task: TaskState | None = None,
    failure: bool = True,
) -> Decision:
    decider = Decider(Draft(state, now_ms, _no_new_tasks), 0.0)
    decider.end(status, reason, failed_task=task, failure=failure)
    return decider.draft.finish()


def _no_new_tasks() -> str:
    raise AssertionError("ending a workflow creates no tasks")


def pause(state: WorkflowState, _now_ms: int, _new_id: NewId) -> Decision:
    """Pause a workflow: no new tasks are scheduled, but queued and running tasks continue."""
    if state.status in TERMINAL_WORKFLOW_STATUSES:
        raise ActionRefused(f"Workflow {_full_name(state)} has ended, status cannot be updated.")
    return Decision(workflow_status=WorkflowStatus.PAUSED) if state.status != WorkflowStatus.PAUSED else Decision()


def resume(state: WorkflowState, now_ms: int, new_id: NewId) -> Decision:
    """Continue a paused workflow, and process the tasks that ended during the pause."""
    _must_be_paused(state)
    decision = decide(replace(state, status=WorkflowStatus.RUNNING), now_ms, new_id)
    decision.workflow_status = decision.workflow_status or WorkflowStatus.RUNNING
    return decision


def retry(state: WorkflowState, now_ms: int, new_id: NewId, *, resume: Container[str] = ()) -> Decision:
    """Retry the failed and cancelled tasks as new attempts, and continue from there.

    Sub-workflows whose ids are in `resume` continue where they stopped; the others start again from the beginning.
    """
    _must_have_ended(state, "retry")
    if state.status == WorkflowStatus.COMPLETED:
        raise ActionRefused(NOTHING_TO_RETRY)
    decider = _reopen(state, now_ms, new_id)
    in_place = any(task.sub_workflow_id in resume for task in _find_unsuccessful(decider.draft))
    has_retried = _retry_unsuccessful(decider, resume, in_place=in_place)
    if not has_retried and len(_all_tasks(state)) and not list(state.tasks.pending()):
        raise ActionRefused(NOTHING_TO_RETRY)
    return _continue(decider)


def reopen(state: WorkflowState, now_ms: int, new_id: NewId, *, task_id: str, resume: Container[str] = ()) -> Decision:
    """Continue an ended workflow because a sub-workflow continues. Tasks that were cancelled run again."""
    if state.status not in TERMINAL_WORKFLOW_STATUSES or state.status == WorkflowStatus.COMPLETED:
        return Decision()
    decider = _reopen(state, now_ms, new_id)
    task = _all_tasks(state).get(task_id)
    if task is not None:
        decider.draft.put(_waiting_for_child(task))
    _retry_unsuccessful(decider, resume, in_place=True)
    return _continue(decider)


def restart(
    state: WorkflowState,
    now_ms: int,
    new_id: NewId,
    *,
    plan: WorkflowPlan | None = None,
    workflow_input: dict[str, Any] | None = None,
) -> Decision:
    """Start a workflow again from the beginning, with the same id. `plan` replaces its definition."""
    _must_have_ended(state, "restart")
    if state.status == WorkflowStatus.COMPLETED and state.definition.get("restartable") is False:
        raise ActionRefused(f"Workflow {state.workflow_id} has COMPLETED and its definition is not restartable")
    fresh = replace(
        state,
        status=WorkflowStatus.RUNNING,
        plan=plan or state.plan,
        tasks=TaskList(),
        variables=initial_variables((plan or state.plan).definition),
        input=state.input if workflow_input is None else workflow_input,
        output={},
        reason=None,
    )
    decision = decide(fresh, now_ms, new_id)
    decision.remove = [task.task_id for task in _all_tasks(state)]
    decision.workflow_status = decision.workflow_status or WorkflowStatus.RUNNING
    decision.output = decision.output or {}
    decision.variables = fresh.variables if decision.variables is None else decision.variables
    decision.input = workflow_input
    return decision


def rerun(
    state: WorkflowState,
    now_ms: int,
    new_id: NewId,
    *,
    task_id: str | None = None,
    task_input: dict[str, Any] | None = None,
    workflow_input: dict[str, Any] | None = None,
    correlation_id: str | None = None,
    resume: Container[str] = (),
) -> Decision:
    """Run a workflow again from the task `task_id`; from the beginning if it is None.

    The task keeps its id, the tasks after it are removed, and other branches keep their results.
    """
    _must_have_ended(state, "rerun")
    state = replace(state, correlation_id=correlation_id or state.correlation_id)
    if task_id is None:
        decision = restart(state, now_ms, new_id, workflow_input=workflow_input)
        decision.correlation_id = correlation_id
        return decision
    target = _all_tasks(state).get(task_id)
    if target is None:
        raise ActionRefused(f"Task {task_id} is not part of workflow {state.workflow_id}")
    rewind = _Rewind(state, target)
    given = replace(state, input=state.input if workflow_input is None else workflow_input)
    decider = _reopen(
        given.with_tasks(rewind.kept), now_ms, new_id, last_seq=max(task.seq for task in _all_tasks(state))
    )
    for task in rewind.reopened:
        decider.draft.put(_at_current_iteration(decider, task) if task.type == "DO_WHILE" else task)
    decider.start(decider.find_node(target), again=target, delay_ms=0, given=task_input)
    _retry_unsuccessful(decider, resume, in_place=True)
    decision = _continue(decider)
    decision.remove = rewind.removed
    decision.input = workflow_input
    decision.correlation_id = correlation_id
    return decision


def skip_task(
    state: WorkflowState,
    now_ms: int,
    new_id: NewId,
    *,
    ref: str,
    task_input: dict[str, Any] | None = None,
    task_output: dict[str, Any] | None = None,
) -> Decision:
    """Mark a task that the flow has not reached yet as SKIPPED."""
    node = state.plan.nodes.get(ref)
    if state.status != WorkflowStatus.RUNNING:
        raise ActionRefused(
            f"Workflow {state.workflow_id} is {state.status}; tasks can be skipped only while it is RUNNING"
        )
    if node is None:
        raise ActionRefused(f"There is no task '{ref}' in the definition of workflow {state.workflow_id}")
    if node.loop is not None:
        raise ActionRefused(f"Task '{ref}' is inside a loop and runs in every iteration; it cannot be skipped")
    if state.tasks.latest(ref) is not None:
        raise ActionRefused(f"Task '{ref}' has already been scheduled; it cannot be skipped")
    draft = Draft(state, now_ms, new_id)
    skipped = TaskState(
        task_id=new_id(),
        ref=ref,
        type=node.type,
        name=node.name,
        status=TaskStatus.SKIPPED,
        seq=draft.next_seq(),
        input=task_input or {},
        output=task_output or {},
        scheduled_ms=now_ms,
        first_scheduled_ms=now_ms,
        ended_ms=now_ms,
    )
    draft.add(skipped)
    return draft.finish()


# -- actions on a workflow that waits for its rate-limit turn (`workflow_rate_limits.py`)


def _resume_waiting(state: WorkflowState) -> Decision:
    """Let a paused workflow wait for its turn again. It has kept its place in the line."""
    _must_be_paused(state)
    return Decision(workflow_status=WorkflowStatus.RUNNING)


def _skip_task_waiting(state: WorkflowState) -> Decision:
    raise ActionRefused(
        f"Workflow {state.workflow_id} waits for its turn; its tasks can be skipped after it has started"
    )


#: The actions that replace `resume` and `skip_task` while a workflow waits for its turn.
ACTIONS_WHILE_WAITING: dict[Action, Callable[[WorkflowState], Decision]] = {
    resume: _resume_waiting,
    skip_task: _skip_task_waiting,
}


# -- helpers


def _must_have_ended(state: WorkflowState, action: str) -> None:
    if state.status not in TERMINAL_WORKFLOW_STATUSES:
        which = f"{_full_name(state)}.{state.status}"
        raise ActionRefused(
            f"Workflow: {which} is not in terminal state, unable to {action}: wait for its end, or terminate it first"
        )


def _must_be_paused(state: WorkflowState) -> None:
    if state.status != WorkflowStatus.PAUSED:
        raise ActionRefused(
            f"The workflow {state.workflow_id} is not PAUSED so cannot resume. Current status is {state.status}"
        )


def _full_name(state: WorkflowState) -> str:
    return f"{state.definition.get('name')}.{state.definition.get('version')}/{state.workflow_id}"


def _all_tasks(state: WorkflowState) -> TaskList:
    if not isinstance(state.tasks, TaskList):
        raise TypeError("state.tasks must be a TaskList with all tasks of the workflow")
    return state.tasks


def _reopen(state: WorkflowState, now_ms: int, new_id: NewId, last_seq: int = 0) -> Decider:
    running = replace(state, status=WorkflowStatus.RUNNING, reason=None)
    return Decider(Draft(running, now_ms, new_id, last_seq=last_seq), 0.0)


def _continue(decider: Decider) -> Decision:
    decider.run()
    decision = decider.draft.finish()
    decision.workflow_status = decision.workflow_status or WorkflowStatus.RUNNING
    return decision


def _find_unsuccessful(draft: Draft) -> list[TaskState]:
    """Return the newest attempts of all tasks that have ended without success."""
    newest = {task.ref: task for task in _all_tasks(draft.state)}
    return [
        task for task in newest.values() if task.terminal and not task.successful and draft.latest(task.ref) is task
    ]


def _retry_unsuccessful(decider: Decider, resume: Container[str] = (), *, in_place: bool = False) -> bool:
    """Retry all tasks that have ended without success. Return whether there was such a task.

    With `in_place`, cancelled tasks run again under their old ids, as on Conductor when a sub-workflow continues.
    """
    draft = decider.draft
    found = _find_unsuccessful(draft)
    for task in found:
        node = decider.find_node(task)
        if task.type in _REOPENED_TYPES:
            draft.put(replace(_reopen_task(task), retry_count=task.retry_count + (not in_place)))
        elif task.sub_workflow_id is not None and task.sub_workflow_id in resume:
            draft.put(_waiting_for_child(task))
            draft.decision.resume_sub_workflows.append(task.sub_workflow_id)
        elif in_place and task.status == TaskStatus.CANCELED:
            decider.start(node, again=replace(task, retry_count=task.retry_count + 1), delay_ms=0)
        else:
            draft.mark_executed(task, retried=True)
            decider.start(node, replace(task, reason=None), delay_ms=0)
    return bool(found)


def _reopen_task(task: TaskState) -> TaskState:
    return replace(task, status=TaskStatus.IN_PROGRESS, executed=False, retried=False, reason=None, ended_ms=0)


def _waiting_for_child(task: TaskState) -> TaskState:
    """Return a reopened SUB_WORKFLOW task, which waits for its sub-workflow again."""
    return replace(_reopen_task(task), output={"subWorkflowId": task.sub_workflow_id})


class _Rewind:
    """Finds the tasks that are kept, removed and reopened when a workflow goes back to a task."""

    def __init__(self, state: WorkflowState, target: TaskState) -> None:
        self._plan = state.plan
        self._target = target
        node, self._iterations = self._place_of(target)
        self._loops = _loops_around(node)
        self._gone: set[str] = set()
        self._waiting: set[str] = set()
        self._remove(node)
        self._remove_following(node)
        tasks = list(_all_tasks(state))
        self.removed = [task.task_id for task in tasks if self._is_gone(task)]
        self.kept = [task for task in tasks if not self._is_gone(task)]
        self.reopened = [self._wait_again(task) for task in self.kept if task.ref in self._waiting]

    def _place_of(self, task: TaskState) -> tuple[TaskNode, list[int]]:
        """Return the node of a task, and the iteration number of each loop around it, the outermost first.

        For a branch of a dynamic fork, return the node of the fork.
        """
        if task.own is not None and task.own.fork is not None:
            iterations = task.ref.removeprefix(task.own.task["taskReferenceName"])
            return self._plan.nodes[task.own.fork], _parse_iterations(iterations)
        base = self._plan.base_name(task.ref) or task.ref
        return self._plan.nodes[base], _parse_iterations(task.ref.removeprefix(base))

    def _ref_of(self, node: TaskNode) -> str:
        """Return the reference name of a node's task in the iterations that the workflow goes back to."""
        iterations = self._iterations[: len(_loops_around(node))]
        return node.ref + "".join(f"__{number}" for number in iterations)

    def _remove(self, node: TaskNode) -> None:
        self._gone.add(node.ref)
        for sequence in (*node.cases.values(), *node.branches, node.body):
            for inner in sequence:
                self._remove(inner)

    def _remove_following(self, node: TaskNode) -> None:
        """Mark the tasks after `node` as removed: in its own sequence, and in the sequences of its parents."""
        following = node.next
        is_kept = node.ref not in self._gone or self._is_branch(self._target)
        if node.type in FORKS and following is not None and is_kept:
            # The fork is kept and does not start a new JOIN, so the existing JOIN must be reopened.
            self._waiting.add(self._ref_of(following))
            following = following.next
        while following is not None:
            self._remove(following)
            following = following.next
        if node.parent is not None:
            if node.parent.body:
                self._waiting.add(self._ref_of(node.parent))
            self._remove_following(node.parent)

    def _is_branch(self, task: TaskState) -> bool:
        """Return whether a task is a branch of a dynamic fork."""
        return task.own is not None and task.own.fork is not None

    def _is_gone(self, task: TaskState) -> bool:
        if task.ref == self._target.ref:
            return task.seq > self._target.seq  # earlier attempts are kept as history
        node, iterations = self._place_of(task)
        for mine, theirs, number, back_to in zip(
            _loops_around(node), self._loops, iterations, self._iterations, strict=False
        ):
            if mine is not theirs:
                break
            if number != back_to:
                return number > back_to
        if self._is_branch(self._target) and node.ref == self._place_of(self._target)[0].ref:
            return False
        return node.ref in self._gone

    def _wait_again(self, task: TaskState) -> TaskState:
        if task.type != "DO_WHILE":
            return replace(_reopen_task(task), output={})
        back_to = self._iterations[len(self._place_of(task)[1])]
        later = {str(number) for number in range(back_to, task.iteration + 1)}
        output = {key: value for key, value in task.output.items() if key not in later}
        return replace(_reopen_task(task), iteration=back_to, output={**output, "iteration": back_to})


def _at_current_iteration(decider: Decider, loop: TaskState) -> TaskState:
    """Return a reopened loop, with the output that the tasks of its current iteration refer to."""
    items = find_loop_items(decider.draft, decider.find_node(loop))
    known = items is not None and loop.iteration <= len(items)
    return replace(loop, output={**loop.output, **iteration_values(loop.iteration, items if known else None)})


def _loops_around(node: TaskNode) -> list[TaskNode]:
    """Return the loops around a task, the outermost first."""
    found: list[TaskNode] = []
    at = node.loop
    while at is not None:
        found.insert(0, at)
        at = at.loop
    return found


def _parse_iterations(iterations: str) -> list[int]:
    return [int(number) for number in iterations.split("__") if number]
