"""The decider: computes the next step of a workflow. Pure: no clock, no store, no randomness.

    start ─▶ decide ─▶ Decision ─▶ (the caller stores it, queues tasks, sets a timer) ─▶ a task ends ─▶ decide ...

A decision processes every task that has ended since the last decision, once: `TaskState.executed` marks the tasks that
are processed. A decision reads only pending tasks and tasks that expressions name, so the cost of a step does not grow
with the length of the workflow. A decision without a change is empty.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import FORKS, SYSTEM_TASKS, TaskNode, task_type
from conductor.coordinator.language import javascript_subset
from conductor.coordinator.language.expressions import resolve
from conductor.coordinator.language.value_sizes import TooLarge, check_size, json_size
from conductor.coordinator.limits import MAX_TASKS_WITHOUT_WAITING, MAX_VALUE_BYTES
from conductor.coordinator.workflows.decision import Decision, Draft, FailureWorkflow, ScriptNeeded
from conductor.coordinator.workflows.dynamic_tasks import FORKED_DEFINITIONS, FlowError, branch_node, dynamic_node
from conductor.coordinator.workflows.loop_retention import remove_iteration
from conductor.coordinator.workflows.operators import (
    failed,
    find_chosen_case,
    find_loop_items,
    iteration_values,
    raw_input,
    start_operator,
    start_sub_workflow,
)
from conductor.coordinator.workflows.retries import retry_delay_ms, retry_limit
from conductor.coordinator.workflows.scope import Scope, task_def_of, task_input
from conductor.coordinator.workflows.state import (
    RETRIABLE_TASK_STATUSES,
    SUCCESSFUL_TASK_STATUSES,
    RuntimeDefinition,
    TaskState,
    WorkflowState,
)
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus

#: The status of a SUB_WORKFLOW task after its workflow has ended, by the status of the workflow.
_TASK_STATUS_AFTER = {
    WorkflowStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowStatus.FAILED: TaskStatus.FAILED,
    WorkflowStatus.TERMINATED: TaskStatus.CANCELED,
    WorkflowStatus.TIMED_OUT: TaskStatus.TIMED_OUT,
}
#: Task types that wait for other tasks.
_WAITING = ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE")
#: The status of a workflow after a task has failed for good, by the status of the task. FAILED for all others.
_WORKFLOW_STATUS_AFTER = {
    TaskStatus.CANCELED: WorkflowStatus.TERMINATED,
    TaskStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT,
}

#: Matches the failure reason of a workflow whose SUB_WORKFLOW task has failed. The group is the reason of that task.
_FAILED_IN_SUB_WORKFLOW = re.compile(
    r"Task \S+ failed with status: \w+ and reason: '(Sub workflow .+ failure reason: .+)'", re.DOTALL
)


def decide(
    state: WorkflowState,
    now_ms: int,
    new_id: Callable[[], str],
    *,
    jitter: float = 0.0,
    answers: Mapping[str, Any] | None = None,
) -> Decision:
    """Decide the next step of a workflow.

    Args:
        state: The workflow.
        now_ms: The current time.
        new_id: Returns the id of a new task.
        jitter: A number in [0, 1) that spreads the retries of this decision.
        answers: Values of scripts, by the ids of the tasks that need them.
    """
    if state.status != WorkflowStatus.RUNNING:
        return Decision()
    decider = Decider(Draft(state, now_ms, new_id), jitter)
    if answers:
        decider.draft.answers.update(answers)
    decider.run()
    return decider.draft.finish()


def find_needed_script(state: WorkflowState, task: TaskState, now_ms: int) -> tuple[str, dict[str, Any]] | None:
    """Return the script that a task waits for, and the value of `$` in it; None if the task needs no script."""
    decider = Decider(Draft(state, now_ms, str), 0.0)
    node = decider.find_node(task)
    if node.type == "DO_WHILE":
        decider.end_iteration(node, task)
    else:
        start_operator(decider.draft, node, task)
    return decider.draft.questions.get(task.task_id)


def workflow_input(definition: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a new workflow: the `inputTemplate` of the definition, overridden by the given input."""
    return {**(definition.get("inputTemplate") or {}), **given}


def initial_variables(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a new workflow."""
    return dict(definition.get("variables") or {})


def describe_sub_workflow_failure(title: str, reason: str | None) -> str:
    """Return the reason of a SUB_WORKFLOW task whose workflow has failed.

    If that workflow failed because of a sub-workflow of its own, return only the reason of the innermost sub-workflow,
    because a chain of the reasons of all levels would be hard to read.
    """
    inner = _FAILED_IN_SUB_WORKFLOW.fullmatch(reason or "")
    return inner[1] if inner else f"Sub workflow {title} failure reason: {reason}"


def after_sub_workflow(
    task: TaskState, *, title: str, status: WorkflowStatus, output: Mapping[str, Any], reason: str | None, now_ms: int
) -> TaskState:
    """Return the new state of a SUB_WORKFLOW task whose workflow has ended.

    Args:
        task: The task.
        title: The name of the workflow, for the failure reason.
        status: The status of the workflow.
        output: The output of the workflow.
        reason: Why the workflow failed.
        now_ms: The current time.
    """
    failed = status != WorkflowStatus.COMPLETED
    return replace(
        task,
        status=_TASK_STATUS_AFTER[status],
        output={"subWorkflowId": task.sub_workflow_id, **output},
        reason=describe_sub_workflow_failure(title, reason) if failed else None,
        ended_ms=now_ms,
    )


class Decider:
    """Makes one decision, for `decide` and for the actions on a whole workflow."""

    def __init__(self, draft: Draft, jitter: float) -> None:
        self.draft = draft
        self.plan = draft.plan
        self.jitter = jitter
        #: Whether the last task of the definition was processed in this decision.
        self.at_end = False
        #: Loops that the flow has reached. As on Conductor, all other tasks that it has reached start before the first
        #: iteration of a loop.
        self.loops_to_begin: deque[TaskNode] = deque()

    @property
    def running(self) -> bool:
        """Whether this decision has not ended the workflow."""
        return self.draft.status == WorkflowStatus.RUNNING

    def run(self) -> None:
        """Process tasks until nothing is left to decide."""
        draft = self.draft
        if draft.last() is None:
            self.reach(self.plan.top[0])
        if draft.open and draft.has_watched_task():
            self.end_due_waits()
            self.restart_switches()
            self.pull_messages()
        self.process_ended_tasks()
        while draft.open and draft.has_watched_task() and self.can_continue() and self.check_waiting_tasks():
            self.process_ended_tasks()
        if draft.status != WorkflowStatus.RUNNING:
            return
        if draft.is_spent:
            self.postpone()
        elif not draft.open:
            if (self.at_end or self.is_over(self.plan.top)) and not draft.state.tasks.has_queued():
                self.complete()
        elif draft.has_watched_task() and (stuck := self.find_stuck_joins()):
            for task in stuck:
                never = ", ".join(task.input.get("joinOn") or ()) or "nothing"
                reason = f"{task.ref} waits for {never}, but no task is left that could end the wait"
                self.draft.end(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=reason)
            self.process_ended_tasks()

    def process_ended_tasks(self) -> None:
        """Process all ended tasks, and begin the loops that were reached on the way."""
        ended = self.draft.ended
        if self.loops_to_begin:
            self.begin_loops()
        while ended and self.can_continue():
            for _ in range(len(ended)):
                self.process_end(ended.popleft())
                if not self.can_continue():
                    break
            if self.loops_to_begin:
                self.begin_loops()

    def can_continue(self) -> bool:
        """Return whether the workflow is still running and this decision has budget left."""
        return self.draft.status == WorkflowStatus.RUNNING and not self.draft.is_spent

    def begin_loops(self) -> None:
        """Begin the first iteration of each loop that was reached."""
        while self.loops_to_begin and self.running:
            self.reach(self.loops_to_begin.popleft().body[0])

    def postpone(self) -> None:
        """Leave the remaining work to the next decision. Fail a workflow with an endless loop."""
        restless = max(1, self.draft.state.restless + self.draft.cost)
        if restless > MAX_TASKS_WITHOUT_WAITING:
            self.end(
                WorkflowStatus.FAILED,
                f"more than {MAX_TASKS_WITHOUT_WAITING} tasks were created without waiting for anything; "
                "the workflow has an endless loop",
            )
        else:
            self.draft.decision.restless = restless

    # -- reaching a task

    def reach(self, node: TaskNode | None) -> None:
        """Start the task that the flow has reached. Tasks that are marked as skipped are passed over."""
        while node is not None and self.running:
            present = self.draft.current_task(node)
            if present is None:
                self.start(node)
                return
            if present.status != TaskStatus.SKIPPED or present.executed:
                return  # the flow has reached this task before
            self.draft.mark_executed(present)
            node = self.plan.next_after(node)

    def start(
        self,
        node: TaskNode,
        previous: TaskState | None = None,
        *,
        again: TaskState | None = None,
        own: RuntimeDefinition | None = None,
        delay_ms: int | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        """Create and start the task of a node.

        Args:
            node: The node.
            previous: The earlier attempt that the new task retries.
            again: A task to run again with the same id and sequence number, instead of creating a new task.
            own: The definition of a task that was created at run time.
            delay_ms: The start delay; None to use the delay of the definition.
            given: The input; None to resolve it from the definition.
        """
        draft, before, problem = self.draft, again or previous, None
        task_id = again.task_id if again else draft.new_id()
        own = before.own if before else own
        try:
            if given is None:
                given = raw_input(before) if before and own else task_input(draft, node, task_id)
            if node.type == "DYNAMIC":
                node, own = dynamic_node(draft, node, given)
                given = task_input(draft, node, task_id)
        except TooLarge as error:
            given, problem = {}, f"the input of {node.ref}: {error}"
        except FlowError as error:
            self.end(WorkflowStatus.FAILED, str(error))
            return
        delay_ms = int(node.task.get("startDelay") or 0) * 1000 if delay_ms is None else delay_ms
        task = replace(self.make_attempt(node, task_id, previous, again), input=given, start_delay_ms=delay_ms, own=own)
        try:
            task = failed(draft, task, problem) if problem else start_operator(draft, node, task)
        except FlowError as error:
            self.end(WorkflowStatus.FAILED, str(error))
            return
        if again:
            draft.put(task)
        else:
            draft.add(task)
        if node.type == "DO_WHILE" and not task.terminal:
            self.loops_to_begin.append(node)
        elif task.status == TaskStatus.COMPLETED and (node.type in FORKS or self.find_case(node, task)):
            # Create the tasks of the branches or the case before the tasks that run in parallel to this one, as on
            # Conductor.
            self.process_end(self.draft.ended.pop())

    def make_attempt(
        self, node: TaskNode, task_id: str, previous: TaskState | None, again: TaskState | None
    ) -> TaskState:
        """Return the task of a node before it starts; see `start`."""
        draft, before = self.draft, again or previous
        task = TaskState(
            task_id=task_id,
            ref=before.ref if before else draft.current_ref(node) if node.loop else node.ref,
            type=node.type,
            name=node.name,
            status=TaskStatus.SCHEDULED,
            seq=again.seq if again else draft.next_seq(),
            iteration=draft.iteration_of(node.loop) if node.loop else 0,
            scheduled_ms=draft.now_ms,
            first_scheduled_ms=previous.first_scheduled_ms if previous else draft.now_ms,
            started_ms=draft.now_ms,
        )
        if again:
            return replace(task, retry_count=again.retry_count, retried_task_id=again.retried_task_id)
        if previous:
            count, retried = previous.retry_count + 1, previous.task_id
            return replace(task, retry_count=count, retried_task_id=retried, reason=previous.reason)
        return task

    def start_branches(self, node: TaskNode, task: TaskState) -> bool:
        """Start branches of a dynamic fork until the budget is spent. Return whether all branches are started."""
        branches = list({made["taskReferenceName"]: made for made in task.input[FORKED_DEFINITIONS]}.values())
        rounds = self.draft.iteration_suffix(node.loop)

        def is_started(made: dict[str, Any]) -> bool:
            return self.draft.latest(made["taskReferenceName"] + rounds) is not None

        # Branches are started in order, so a binary search finds the first one that is not started.
        for index in range(bisect_left(branches, True, key=lambda made: not is_started(made)), len(branches)):
            if self.draft.is_spent:
                return False
            made, own = branch_node(self.draft, node, branches[index])
            self.start(made, own=own)
            if not self.running:
                break
        return True

    def find_node(self, task: TaskState) -> TaskNode:
        """Return the node of a task, from the plan or, for a task that was created at run time, a new node."""
        if task.own is None:
            return self.plan.nodes.get(task.ref) or self.plan.nodes[self.plan.base_name(task.ref) or task.ref]
        place = task.own.fork or task.own.task["taskReferenceName"]
        return self.plan.make_runtime_node(task.own.task, task.type, self.plan.nodes[place])

    # -- a task has ended

    def process_end(self, task: TaskState) -> None:
        """Process a task that has ended: continue, retry, or fail the workflow."""
        node = self.find_node(task)
        if task.status == TaskStatus.SKIPPED:
            return  # `reach` processes a skipped task when the flow reaches it
        if (
            node.type == "FORK_JOIN_DYNAMIC"
            and task.status == TaskStatus.COMPLETED
            and not self.start_branches(node, task)
        ):
            return  # the next decision starts the remaining branches
        if task.status in SUCCESSFUL_TASK_STATUSES:
            self.continue_after(node, self.draft.mark_executed(task))
        elif self.may_retry(node, task):
            self.retry(node, task)
        elif node.optional:
            self.continue_after(node, self.draft.mark_executed(task, status=TaskStatus.COMPLETED_WITH_ERRORS))
        elif node.permissive:
            self.continue_after(node, self.draft.mark_executed(task))
        else:
            self.fail(self.draft.mark_executed(task))

    def may_retry(self, node: TaskNode, task: TaskState) -> bool:
        """Return whether a failed task gets another attempt."""
        if (
            not (node.type in ("SIMPLE", "SUB_WORKFLOW") or node.type in SYSTEM_TASKS)
            or task.status not in RETRIABLE_TASK_STATUSES
        ):
            return False
        task_def = task_def_of(node)
        if task_type(node.task) != "SIMPLE" and not task_def and node.task.get("retryCount") is None:
            return False  # Conductor's default retries apply to SIMPLE tasks only
        total_ms = int(task_def.get("totalTimeoutSeconds") or 0) * 1000
        in_time = total_ms <= 0 or self.draft.now_ms - task.first_scheduled_ms < total_ms
        return in_time and task.retry_count < retry_limit(task_def, node.task)

    def retry(self, node: TaskNode, task: TaskState) -> None:
        """Start the next attempt of a failed task."""
        self.draft.mark_executed(task, retried=True)
        delay_ms = retry_delay_ms(task_def_of(node), task.retry_count, self.jitter)
        self.start(node, task, delay_ms=delay_ms)

    def continue_after(self, node: TaskNode, task: TaskState) -> None:
        """Continue the flow after a task."""
        if node.type == "TERMINATE" and task.status == TaskStatus.COMPLETED:
            self.terminate_workflow(task)
        elif node.cases and (case := self.find_case(node, task)):
            self.reach(case[0])
        else:
            for branch in node.branches if task.status == TaskStatus.COMPLETED else ():
                self.reach(branch[0])
            following = node.next or self.plan.next_after(node)
            if following is not None:
                self.reach(following)
            elif node is self.plan.top[-1]:
                self.at_end = True

    def find_case(self, node: TaskNode, task: TaskState) -> list[TaskNode]:
        """Return the tasks of the case that a SWITCH has chosen."""
        if node.type not in ("SWITCH", "DECISION") or task.status != TaskStatus.COMPLETED:
            return []
        return find_chosen_case(node, task.input.get("case"))

    # -- tasks that wait for other tasks, or for a time

    def end_due_waits(self) -> None:
        """End the WAIT tasks and start the delayed sub-workflows whose time has come."""
        due = [task for task in self.draft.open.values() if task.wait_until_ms is not None]
        for task in due:
            if task.wait_until_ms is None or task.wait_until_ms > self.draft.now_ms:
                continue
            if task.type == "WAIT":
                self.draft.end(task, TaskStatus.COMPLETED)
            else:
                self.draft.put(start_sub_workflow(self.draft, task))

    def restart_switches(self) -> None:
        """Start those SWITCH tasks again that have waited for the value of a script."""
        for task in [task for task in self.draft.open.values() if task.type in ("SWITCH", "DECISION")]:
            self.draft.put(start_operator(self.draft, self.find_node(task), task))

    def pull_messages(self) -> None:
        """Give waiting messages to the PULL_WORKFLOW_MESSAGES tasks, in the order in which the tasks were scheduled."""
        for task in [task for task in self.draft.open.values() if task.type == "PULL_WORKFLOW_MESSAGES"]:
            after = start_operator(self.draft, self.find_node(task), task)
            if after.terminal:
                self.draft.put(after)

    def check_waiting_tasks(self) -> bool:
        """Check the tasks that wait for other tasks. Return whether one of them has changed."""
        waiting = [task for task in self.draft.open.values() if task.type in _WAITING]
        moved = False
        for task in waiting:
            node = self.find_node(task)
            match task.type:
                case "JOIN":
                    moved |= self.join(node, task)
                case "EXCLUSIVE_JOIN":
                    moved |= self.join_one(task)
                case _:
                    moved |= self.end_iteration(node, task)
        return moved

    def find_stuck_joins(self) -> list[TaskState]:
        """Return the JOIN tasks that can never end, because no other task is open."""
        joins = [task for task in self.draft.open.values() if task.type in ("JOIN", "EXCLUSIVE_JOIN")]
        if not joins or any(task.type not in _WAITING or task.queued for task in self.draft.open.values()):
            return []
        return [] if self.draft.state.tasks.has_queued() else joins

    def is_over(self, sequence: Sequence[TaskNode]) -> bool:
        """Return whether a sequence of tasks has ended."""
        return bool(self.find_ended(sequence[-1]))

    def find_ended(self, node: TaskNode) -> list[TaskState]:
        """Return the ended task of a node and, for a SWITCH, the last task of its case.

        Return an empty list if one of these tasks has not ended.
        """
        task = self.draft.current_task(node)
        if task is None or not (task.executed and task.status in TERMINAL_TASK_STATUSES):
            return []
        case = self.find_case(node, task)
        if not case:
            return [task]
        last_of_case = self.find_ended(case[-1])
        return [task, *last_of_case] if last_of_case else []

    def join(self, node: TaskNode, task: TaskState) -> bool:
        """End a JOIN if all tasks that it waits for have ended. Return whether it ended."""
        joined: list[TaskState] = []
        size = 0
        rounds = self.draft.iteration_suffix(node.loop)
        # Check the open tasks first, which are in memory. Reading the ended tasks of a wide fork at each step is slow.
        if any(ref.removesuffix(rounds) in task.joins for ref in self.draft.open_refs()):
            return False
        for ref in dict.fromkeys(task.input.get("joinOn", ())):
            target = self.plan.nodes.get(ref)
            ending = self.find_ended(target) if target else self.find_ended_runtime_task(ref + rounds)
            if not ending and not (target and self.is_left_out(node, target)):
                return False
            joined += ending
            size += sum(json_size(forked.output) for forked in ending)
            if size > MAX_VALUE_BYTES:
                reason = str(TooLarge(f"the joined outputs of {task.ref}"))
                self.draft.end(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=reason)
                return True
        bad = [forked for forked in joined if not forked.successful]
        partly = [forked for forked in joined if forked.status == TaskStatus.COMPLETED_WITH_ERRORS]
        status = TaskStatus.FAILED if bad else TaskStatus.COMPLETED_WITH_ERRORS if partly else TaskStatus.COMPLETED
        why = " ".join(forked.reason or forked.ref for forked in bad or partly) or None
        self.draft.end(task, status, output={forked.ref: forked.output for forked in joined}, reason=why)
        return True

    def find_ended_runtime_task(self, ref: str) -> list[TaskState]:
        """Return a list with a task that was created at run time; an empty list until the task has ended."""
        task = self.draft.latest(ref)
        return [task] if task is not None and task.terminal and task.executed else []

    def join_one(self, task: TaskState) -> bool:
        """End an EXCLUSIVE_JOIN if the first task in its lists that was started has ended. Return whether it ended."""
        for name in ("joinOn", "defaultExclusiveJoinTask"):
            tasks = (self.find_joined(ref) for ref in task.input.get(name) or ())
            found = next((one for one in tasks if one is not None and one.status != TaskStatus.SKIPPED), None)
            if found is not None and found.terminal and found.executed:
                if found.successful:
                    self.draft.end(task, TaskStatus.COMPLETED, output=found.output)
                else:
                    self.draft.end(task, TaskStatus.FAILED, reason=found.reason or found.ref)
                return True
            if found is not None:
                return False
        return False

    def find_joined(self, ref: str) -> TaskState | None:
        node = self.plan.nodes.get(ref)
        return self.draft.current_task(node) if node else self.draft.latest(ref)

    def is_left_out(self, join: TaskNode, node: TaskNode) -> bool:
        """Return whether a task that a JOIN waits for never runs, because its branch has ended without it."""
        fork, at = join.fork, node if self.draft.current_task(node) is None else None
        if fork is None:
            return False
        forked = self.draft.current_task(fork)
        if forked is not None and forked.status == TaskStatus.SKIPPED:
            return True
        while at is not None and at.parent is not fork:
            at = at.parent
        return at is not None and any(at in branch and self.is_over(branch) for branch in fork.branches)

    def end_iteration(self, node: TaskNode, task: TaskState) -> bool:
        """If the iteration of a loop is over, begin the next one or end the loop. Return whether the loop changed."""
        if any(self.is_inside(ref, node) for ref in self.draft.open_refs()):
            return False
        if not self.is_over(node.body):
            return False
        output = {**task.output, str(task.iteration): self.collect_iteration_output(node)}
        keep = task.input.get("keepLastN")
        if type(keep) is int and keep >= 0:
            output.pop(str(task.iteration - keep), None)
            # Remove the iteration before evaluating the condition: the removal may take several decisions, but the
            # script of the condition must run only once.
            if not remove_iteration(self.draft, node, task.iteration - max(keep, 1)):
                self.draft.is_spent = True
                return False
        try:
            check_size(f"the output of all iterations of {task.ref} (keepLastN limits it)", output)
            items = find_loop_items(self.draft, node)
            left = items is None or task.iteration < len(items)
            again = left and self.evaluate_loop_condition(node, task, output)
        except ScriptNeeded:
            self.draft.put(replace(task, queued=True))
            return False
        except (javascript_subset.ConditionError, TooLarge) as error:
            kept = task.output if isinstance(error, TooLarge) else output
            self.draft.end(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, output=kept, reason=str(error))
            return True
        if not again:
            self.draft.end(task, TaskStatus.COMPLETED, output=output)
            return True
        round_no = task.iteration + 1
        self.draft.put(replace(task, iteration=round_no, output={**output, **iteration_values(round_no, items)}))
        self.reach(node.body[0])
        return True

    def is_inside(self, ref: str, loop: TaskNode) -> bool:
        """Return whether a reference name belongs to a task inside this loop."""
        base = self.plan.base_name(ref)
        return base is not None and self.plan.nodes[base].is_within(loop)

    def collect_iteration_output(self, node: TaskNode) -> dict[str, Any]:
        """Return the outputs of the tasks in the current iteration of a loop."""
        tasks = ((inner.ref, self.draft.current_task(inner)) for inner in self.plan.tasks_in_loop[node.ref])
        return {ref: task.output for ref, task in tasks if task is not None}

    def evaluate_loop_condition(self, node: TaskNode, task: TaskState, output: dict[str, Any]) -> bool:
        """Return whether a loop continues.

        In its condition, `$` holds the input and the output of the loop, and the last output of each inner task.
        """
        if not node.task.get("loopCondition"):
            return bool(node.task.get("items"))
        data = {**task_input(self.draft, node, task.task_id), node.ref: output}
        for inner in self.plan.tasks_in_loop[node.ref]:
            if newest := self.draft.newest(inner.ref):
                data[inner.ref] = newest.output
        return javascript_subset.is_true(self.draft.evaluate(task, str(node.task.get("loopCondition")), data))

    # -- the end

    def complete(self) -> None:
        """Complete the workflow, or fail it if a permissive task has failed."""
        for node in self.plan.permissive:
            task = self.draft.newest(node.ref)
            if task is not None and task.terminal and not task.successful:
                self.fail(task)
                return
        self.end(WorkflowStatus.COMPLETED, None)

    def terminate_workflow(self, task: TaskState) -> None:
        """End the workflow with the status, the reason and the output of a TERMINATE task."""
        status = WorkflowStatus(task.input["terminationStatus"])
        reason = task.input.get("terminationReason") or f"Workflow is {status} by TERMINATE task: {task.task_id}"
        failed = status != WorkflowStatus.COMPLETED
        self.end(status, str(reason), failed_task=task if failed else None, output=task.output, failure=failed)

    def fail(self, task: TaskState) -> None:
        """End the workflow because a task has failed."""
        status = _WORKFLOW_STATUS_AFTER.get(task.status, WorkflowStatus.FAILED)
        reason = f"Task {task.task_id} failed with status: {status} and reason: '{task.reason or 'null'}'"
        self.end(status, reason, failed_task=task)

    def end(
        self,
        status: WorkflowStatus,
        reason: str | None,
        *,
        failed_task: TaskState | None = None,
        output: dict[str, Any] | None = None,
        failure: bool | None = None,
    ) -> None:
        """End the workflow, and cancel its open tasks.

        Args:
            status: The status of the workflow.
            reason: Why the workflow ends.
            failed_task: The task whose failure ends the workflow.
            output: The output; None to compute it from the definition.
            failure: Whether to start the failure workflow; None to start it unless `status` is COMPLETED.
        """
        draft, decision = self.draft, self.draft.decision
        for task in draft.load_open_tasks():
            self.cancel(task)
        try:
            output = self.workflow_output() if output is None else output
        except TooLarge as error:
            output = {}
            if status == WorkflowStatus.COMPLETED:
                status, reason = WorkflowStatus.FAILED, f"the output of the workflow: {error}"
        draft.status = status
        decision.output = output
        decision.reason = reason
        decision.failed_task = failed_task
        if status != WorkflowStatus.COMPLETED if failure is None else failure:
            decision.failure_workflow = self.failure_workflow(status, reason, failed_task)

    def cancel(self, task: TaskState) -> None:
        """Cancel an open task, because its workflow has ended."""
        decision = self.draft.decision
        self.draft.end(task, TaskStatus.CANCELED, executed=True)
        decision.start_sub_workflows = [
            start for start in decision.start_sub_workflows if start.task_id != task.task_id
        ]
        if task.sub_workflow_id:
            decision.terminate_sub_workflows.append(task.sub_workflow_id)

    def workflow_output(self) -> dict[str, Any]:
        """Return the output of the workflow: its output parameters, or the output of the last task."""
        parameters = self.plan.definition.get("outputParameters")
        if parameters:
            resolved: dict[str, Any] = resolve(parameters, Scope(self.draft))
            return resolved
        last = self.draft.last()
        return last.output if last else {}

    def failure_workflow(self, status: str, reason: str | None, task: TaskState | None) -> FailureWorkflow | None:
        """Return the failure workflow that the definition names, or None."""
        name = self.plan.definition.get("failureWorkflow")
        if isinstance(name, str) and name.startswith("$workflow.input."):  # Conductor accepts this form, too
            name = self.draft.state.input.get(name.split(".")[2])
        else:
            name = resolve(name, Scope(self.draft))
        if not isinstance(name, str) or not name:
            return None
        about = {
            "workflowId": self.draft.state.workflow_id,
            "reason": reason,
            "failureStatus": status,
            "failureTaskId": task.task_id if task else None,
        }
        version = self.plan.definition.get("failureWorkflowVersion") or None
        return FailureWorkflow(name=name, input={**self.draft.state.input, **about}, version=version)
