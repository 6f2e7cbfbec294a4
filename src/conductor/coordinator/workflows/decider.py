"""The decider: from a definition and what is done to what comes next. Pure: no clock, no store, no randomness.

    start ─▶ decide ─▶ Decision ─▶ (the caller stores it, queues tasks, sets a timer) ─▶ a task ends ─▶ decide ...

A decision draws the consequences of every task that has ended since the last one, once: `TaskState.executed` marks
those that are done. It looks at no other task than those that are pending and those that expressions name, so the
work for one step does not grow with the length of the workflow. Deciding again without news gives an empty Decision.
"""

from __future__ import annotations

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
from conductor.coordinator.workflows.decision import Decision, Draft, FailureWorkflow, ScriptAsked
from conductor.coordinator.workflows.dynamic_tasks import FORKED_DEFINITIONS, FlowError, branch_node, dynamic_node
from conductor.coordinator.workflows.loop_retention import remove_round
from conductor.coordinator.workflows.operators import (
    chosen_case,
    failed,
    loop_items,
    raw_input,
    start_operator,
    start_sub_workflow,
    this_round,
)
from conductor.coordinator.workflows.retries import retry_delay_ms, retry_limit
from conductor.coordinator.workflows.scope import Scope, task_def_of, task_input
from conductor.coordinator.workflows.state import (
    RETRIABLE_TASK_STATUSES,
    SUCCESSFUL_TASK_STATUSES,
    Own,
    TaskState,
    WorkflowState,
)
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus

#: What a SUB_WORKFLOW task becomes when its workflow ends.
_TASK_STATUS_AFTER = {
    WorkflowStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowStatus.FAILED: TaskStatus.FAILED,
    WorkflowStatus.TERMINATED: TaskStatus.CANCELED,
    WorkflowStatus.TIMED_OUT: TaskStatus.TIMED_OUT,
}
#: Tasks that look at other tasks, and end by what they see.
_WAITING = ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE")
#: What a workflow becomes when a task of it fails for good; FAILED if it is not here.
_WORKFLOW_STATUS_AFTER = {
    TaskStatus.CANCELED: WorkflowStatus.TERMINATED,
    TaskStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT,
}


def decide(
    state: WorkflowState,
    now_ms: int,
    new_id: Callable[[], str],
    *,
    jitter: float = 0.0,
    answers: Mapping[str, Any] | None = None,
) -> Decision:
    """What comes next. `new_id` gives ids to new tasks; `jitter` in [0, 1) spreads retries of this decision.

    `answers` are values of scripts, by the ids of the tasks that asked for them.
    """
    if state.status != WorkflowStatus.RUNNING:
        return Decision()
    decider = Decider(Draft(state, now_ms, new_id), jitter)
    if answers:
        decider.draft.answers.update(answers)
    decider.run()
    return decider.draft.finish()


def question(state: WorkflowState, task: TaskState, now_ms: int) -> tuple[str, dict[str, Any]] | None:
    """The script that a task waits for, and its `$`: what it would ask if it were looked at now."""
    decider = Decider(Draft(state, now_ms, str), 0.0)
    node = decider.node_of(task)
    if node.type == "DO_WHILE":
        decider.next_round(node, task)
    else:
        start_operator(decider.draft, node, task)
    return decider.draft.questions.get(task.task_id)


def workflow_input(definition: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a workflow starts with: what was given, and from the definition's template what was not."""
    return {**(definition.get("inputTemplate") or {}), **given}


def first_variables(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The variables a workflow starts with."""
    return dict(definition.get("variables") or {})


def after_sub_workflow(
    task: TaskState, *, title: str, status: WorkflowStatus, output: Mapping[str, Any], reason: str | None, now_ms: int
) -> TaskState:
    """A SUB_WORKFLOW task as it is once its workflow has ended; decide its own workflow next.

    `title` is what its reason calls the workflow.
    """
    failed = status != WorkflowStatus.COMPLETED
    return replace(
        task,
        status=_TASK_STATUS_AFTER[status],
        output={"subWorkflowId": task.sub_workflow_id, **output},
        reason=f"Sub workflow {title} failure reason: {reason}" if failed else None,
        ended_ms=now_ms,
    )


class Decider:
    """One decision in the making. `decide` and the actions on a whole workflow use it."""

    def __init__(self, draft: Draft, jitter: float) -> None:
        self.draft = draft
        self.plan = draft.plan
        self.jitter = jitter
        #: Whether the last task of the whole flow has just gone by.
        self.at_end = False
        #: Loops whose first round is still to begin: after all that is reached together with them, as on Conductor.
        self.begun: deque[TaskNode] = deque()

    @property
    def running(self) -> bool:
        return self.draft.status == WorkflowStatus.RUNNING

    def run(self) -> None:
        """Draw consequences until there are none left."""
        draft = self.draft
        if draft.last() is None:
            self.enter(self.plan.top[0])
        if draft.open and draft.watched():
            self.wake()
            self.switch_again()
        self.settle_all()
        while draft.open and draft.watched() and self.may_go_on() and self.look_at_waiting():
            self.settle_all()
        if draft.status != WorkflowStatus.RUNNING:
            return
        if draft.spent:
            self.go_on_later()
        elif not draft.open:
            if (self.at_end or self.over(self.plan.top)) and not draft.state.tasks.has_queued():
                self.complete()
        elif draft.watched() and (stuck := self.is_stuck()):
            for task in stuck:
                never = ", ".join(task.input.get("joinOn") or ()) or "nothing"
                reason = f"{task.ref} waits for {never}, and nothing is left to do that could bring it"
                self.draft.end(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=reason)
            self.settle_all()

    def settle_all(self) -> None:
        """Every task that has ended so far, and the loops that were reached meanwhile."""
        ended = self.draft.ended
        if self.begun:
            self.begin_loops()
        while ended and self.may_go_on():
            for _ in range(len(ended)):
                self.settle(ended.popleft())
                if not self.may_go_on():
                    break
            if self.begun:
                self.begin_loops()

    def may_go_on(self) -> bool:
        """Whether the workflow still runs, and this decision has not made enough."""
        return self.draft.status == WorkflowStatus.RUNNING and not self.draft.spent

    def begin_loops(self) -> None:
        """The first round of each loop that was reached."""
        while self.begun and self.running:
            self.enter(self.begun.popleft().body[0])

    def go_on_later(self) -> None:
        """This decision has made enough: the next one goes on at once, unless this has gone on for too long."""
        restless = max(1, self.draft.state.restless + self.draft.cost)
        if restless > MAX_TASKS_WITHOUT_WAITING:
            self.end(
                WorkflowStatus.FAILED,
                f"more than {MAX_TASKS_WITHOUT_WAITING} tasks without a wait: a loop that waits for nothing",
            )
        else:
            self.draft.decision.restless = restless

    # -- reaching a task

    def enter(self, node: TaskNode | None) -> None:
        """The flow has reached a task: start it, unless it is marked to be skipped."""
        while node is not None and self.running:
            present = self.draft.task_of(node)
            if present is None:
                self.start(node)
                return
            if present.status != TaskStatus.SKIPPED or present.executed:
                return  # it has been reached before
            self.draft.executed(present)
            node = self.plan.next_after(node)

    def start(
        self,
        node: TaskNode,
        previous: TaskState | None = None,
        *,
        again: TaskState | None = None,
        own: Own | None = None,
        delay_ms: int | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        """Make the task of a node; after a previous attempt, the next one. `given` takes the place of its input.

        `again`: no new task, but this one runs once more, under its id and at its place in the list.
        `own`: the definition of a task that was made at run time.
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
        task = replace(self.attempt(node, task_id, previous, again), input=given, start_delay_ms=delay_ms, own=own)
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
            self.begun.append(node)
        elif task.status == TaskStatus.COMPLETED and (node.type in FORKS or self.case_of(node, task)):
            # What is inside comes before what stands beside it, as on Conductor.
            self.settle(self.draft.ended.pop())

    def attempt(self, node: TaskNode, task_id: str, previous: TaskState | None, again: TaskState | None) -> TaskState:
        """The task of a node before it starts; see `start`."""
        draft, before = self.draft, again or previous
        task = TaskState(
            task_id=task_id,
            ref=before.ref if before else draft.ref_of(node) if node.loop else node.ref,
            type=node.type,
            name=node.name,
            status=TaskStatus.SCHEDULED,
            seq=again.seq if again else draft.next_seq(),
            iteration=draft.round_of(node.loop) if node.loop else 0,
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

    def fork_out(self, node: TaskNode, task: TaskState) -> bool:
        """Start the branches of a dynamic fork, as many as one decision may make. Whether that was all of them."""
        branches = list({made["taskReferenceName"]: made for made in task.input[FORKED_DEFINITIONS]}.values())
        rounds = self.draft.rounds(node.loop)

        def is_started(made: dict[str, Any]) -> bool:
            return self.draft.latest(made["taskReferenceName"] + rounds) is not None

        # They are started in their order, so the first one to go on with is found by halves.
        for index in range(bisect_left(branches, True, key=lambda made: not is_started(made)), len(branches)):
            if self.draft.spent:
                return False
            made, own = branch_node(self.draft, node, branches[index])
            self.start(made, own=own)
            if not self.running:
                break
        return True

    def node_of(self, task: TaskState) -> TaskNode:
        """The node of a task: one of the plan, or one that was made at run time."""
        if task.own is None:
            return self.plan.nodes.get(task.ref) or self.plan.nodes[self.plan.base_name(task.ref) or task.ref]
        place = task.own.fork or task.own.task["taskReferenceName"]
        return self.plan.make_runtime_node(task.own.task, task.type, self.plan.nodes[place])

    # -- a task has ended

    def settle(self, task: TaskState) -> None:
        """Draw the consequences of a task's end."""
        node = self.node_of(task)
        if task.status == TaskStatus.SKIPPED:
            return  # the flow has not reached it yet
        if node.type == "FORK_JOIN_DYNAMIC" and task.status == TaskStatus.COMPLETED and not self.fork_out(node, task):
            return  # the next decision goes on with its branches
        if task.status in SUCCESSFUL_TASK_STATUSES:
            self.follow(node, self.draft.executed(task))
        elif self.may_retry(node, task):
            self.retry(node, task)
        elif node.optional:
            self.follow(node, self.draft.executed(task, status=TaskStatus.COMPLETED_WITH_ERRORS))
        elif node.permissive:
            self.follow(node, self.draft.executed(task))
        else:
            self.fail(self.draft.executed(task))

    def may_retry(self, node: TaskNode, task: TaskState) -> bool:
        """Whether a failed task is worth another attempt."""
        if (
            not (node.type in ("SIMPLE", "SUB_WORKFLOW") or node.type in SYSTEM_TASKS)
            or task.status not in RETRIABLE_TASK_STATUSES
        ):
            return False
        task_def = task_def_of(node)
        if task_type(node.task) != "SIMPLE" and not task_def and node.task.get("retryCount") is None:
            return False  # Conductor's default for what is not registered is for workers' tasks only
        total_ms = int(task_def.get("totalTimeoutSeconds") or 0) * 1000
        in_time = total_ms <= 0 or self.draft.now_ms - task.first_scheduled_ms < total_ms
        return in_time and task.retry_count < retry_limit(task_def, node.task)

    def retry(self, node: TaskNode, task: TaskState) -> None:
        """The next attempt takes a failed one's place."""
        self.draft.executed(task, retried=True)
        delay_ms = retry_delay_ms(task_def_of(node), task.retry_count, self.jitter)
        self.start(node, task, delay_ms=delay_ms)

    def follow(self, node: TaskNode, task: TaskState) -> None:
        """Go on behind a task."""
        if node.type == "TERMINATE" and task.status == TaskStatus.COMPLETED:
            self.terminated(task)
        elif node.cases and (case := self.case_of(node, task)):
            self.enter(case[0])
        else:
            for branch in node.branches if task.status == TaskStatus.COMPLETED else ():
                self.enter(branch[0])
            following = node.next or self.plan.next_after(node)
            if following is not None:
                self.enter(following)
            elif node is self.plan.top[-1]:
                self.at_end = True

    def case_of(self, node: TaskNode, task: TaskState) -> list[TaskNode]:
        """The tasks that a SWITCH has chosen."""
        if node.type not in ("SWITCH", "DECISION") or task.status != TaskStatus.COMPLETED:
            return []
        return chosen_case(node, task.input.get("case"))

    # -- tasks that wait for other tasks, or for a time

    def wake(self) -> None:
        """End the waits that are over."""
        due = [task for task in self.draft.open.values() if task.wait_until_ms is not None]
        for task in due:
            if task.wait_until_ms is None or task.wait_until_ms > self.draft.now_ms:
                continue
            if task.type == "WAIT":
                self.draft.end(task, TaskStatus.COMPLETED)
            else:
                self.draft.put(start_sub_workflow(self.draft, task))

    def switch_again(self) -> None:
        """A SWITCH that waited for its script knows its case now, or asks again."""
        for task in [task for task in self.draft.open.values() if task.type in ("SWITCH", "DECISION")]:
            self.draft.put(start_operator(self.draft, self.node_of(task), task))

    def look_at_waiting(self) -> bool:
        """Whether a JOIN or a DO_WHILE has moved."""
        waiting = [task for task in self.draft.open.values() if task.type in _WAITING]
        moved = False
        for task in waiting:
            node = self.node_of(task)
            match task.type:
                case "JOIN":
                    moved |= self.join(node, task)
                case "EXCLUSIVE_JOIN":
                    moved |= self.join_one(task)
                case _:
                    moved |= self.next_round(node, task)
        return moved

    def is_stuck(self) -> list[TaskState]:
        """The JOINs that wait for what never comes: nothing else is open that could bring it."""
        joins = [task for task in self.draft.open.values() if task.type in ("JOIN", "EXCLUSIVE_JOIN")]
        if not joins or any(task.type not in _WAITING or task.queued for task in self.draft.open.values()):
            return []
        return [] if self.draft.state.tasks.has_queued() else joins

    def over(self, sequence: Sequence[TaskNode]) -> bool:
        """Whether a sequence has been run to its end."""
        return bool(self.ending(sequence[-1]))

    def ending(self, node: TaskNode) -> list[TaskState]:
        """A task that is over; behind a SWITCH, also the last one of the case it chose. Empty while one runs."""
        task = self.draft.task_of(node)
        if task is None or not (task.executed and task.status in TERMINAL_TASK_STATUSES):
            return []
        case = self.case_of(node, task)
        if not case:
            return [task]
        behind = self.ending(case[-1])
        return [task, *behind] if behind else []

    def join(self, node: TaskNode, task: TaskState) -> bool:
        """End a JOIN if all that it waits for has ended."""
        joined: list[TaskState] = []
        size = 0
        rounds = self.draft.rounds(node.loop)
        # What is open is at hand; what has ended would have to be read, branch by branch, at every step of a wide fork.
        if any(ref.removesuffix(rounds) in task.joins for ref in self.draft.open_refs()):
            return False
        for ref in dict.fromkeys(task.input.get("joinOn", ())):
            target = self.plan.nodes.get(ref)
            ending = self.ending(target) if target else self.made_ending(ref + rounds)
            if not ending and not (target and self.never_comes(node, target)):
                return False
            joined += ending
            size += sum(json_size(forked.output) for forked in ending)
            if size > MAX_VALUE_BYTES:
                reason = str(TooLarge(f"what {task.ref} joins"))
                self.draft.end(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=reason)
                return True
        bad = [forked for forked in joined if not forked.successful]
        partly = [forked for forked in joined if forked.status == TaskStatus.COMPLETED_WITH_ERRORS]
        status = TaskStatus.FAILED if bad else TaskStatus.COMPLETED_WITH_ERRORS if partly else TaskStatus.COMPLETED
        why = " ".join(forked.reason or forked.ref for forked in bad or partly) or None
        self.draft.end(task, status, output={forked.ref: forked.output for forked in joined}, reason=why)
        return True

    def made_ending(self, ref: str) -> list[TaskState]:
        """A task made at run time that is over; empty while it runs."""
        task = self.draft.latest(ref)
        return [task] if task is not None and task.terminal and task.executed else []

    def join_one(self, task: TaskState) -> bool:
        """End an EXCLUSIVE_JOIN if the first task of its lists that was run at all has ended."""
        for name in ("joinOn", "defaultExclusiveJoinTask"):
            tasks = (self.joined_by_name(ref) for ref in task.input.get(name) or ())
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

    def joined_by_name(self, ref: str) -> TaskState | None:
        node = self.plan.nodes.get(ref)
        return self.draft.task_of(node) if node else self.draft.latest(ref)

    def never_comes(self, join: TaskNode, node: TaskNode) -> bool:
        """Whether a task to join was left out: its branch is over without it (another case was chosen)."""
        fork, at = join.fork, node if self.draft.task_of(node) is None else None
        if fork is None:
            return False
        forked = self.draft.task_of(fork)
        if forked is not None and forked.status == TaskStatus.SKIPPED:
            return True
        while at is not None and at.parent is not fork:
            at = at.parent
        return at is not None and any(at in branch and self.over(branch) for branch in fork.branches)

    def next_round(self, node: TaskNode, task: TaskState) -> bool:
        """End a round of a loop if it is over, and begin the next one or end the loop."""
        if any(self.is_inside(ref, node) for ref in self.draft.open_refs()):
            return False
        if not self.over(node.body):
            return False
        output = {**task.output, str(task.iteration): self.round_output(node)}
        keep = task.input.get("keepLastN")
        if type(keep) is int and keep >= 0:
            output.pop(str(task.iteration - keep), None)
            # Before the condition: a script is asked once, and a removal may take several decisions.
            if not remove_round(self.draft, node, task.iteration - max(keep, 1)):
                self.draft.spent = True
                return False
        try:
            check_size(f"the output of all rounds of {task.ref} (keepLastN limits it)", output)
            items = loop_items(self.draft, node)
            left = items is None or task.iteration < len(items)
            again = left and self.loops_again(node, task, output)
        except ScriptAsked:
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
        self.draft.put(replace(task, iteration=round_no, output={**output, **this_round(round_no, items)}))
        self.enter(node.body[0])
        return True

    def is_inside(self, ref: str, loop: TaskNode) -> bool:
        """Whether a task of this name runs in the rounds of a loop. One made at run time has a JOIN there that does."""
        base = self.plan.base_name(ref)
        return base is not None and self.plan.nodes[base].is_within(loop)

    def round_output(self, node: TaskNode) -> dict[str, Any]:
        """What the tasks of a loop's present round have given."""
        tasks = ((inner.ref, self.draft.task_of(inner)) for inner in self.plan.tasks_in_loop[node.ref])
        return {ref: task.output for ref, task in tasks if task is not None}

    def loops_again(self, node: TaskNode, task: TaskState, output: dict[str, Any]) -> bool:
        """The loop's condition. `$` holds its inputs, its own output, and the last output of each task inside."""
        if not node.task.get("loopCondition"):
            return bool(node.task.get("items"))
        data = {**task_input(self.draft, node, task.task_id), node.ref: output}
        for inner in self.plan.tasks_in_loop[node.ref]:
            if newest := self.draft.newest(inner.ref):
                data[inner.ref] = newest.output
        return javascript_subset.is_true(self.draft.value_of(task, str(node.task.get("loopCondition")), data))

    # -- the end

    def complete(self) -> None:
        """The flow has come to its end."""
        for node in self.plan.permissive:
            task = self.draft.newest(node.ref)
            if task is not None and task.terminal and not task.successful:
                self.fail(task)
                return
        self.end(WorkflowStatus.COMPLETED, None)

    def terminated(self, task: TaskState) -> None:
        """A TERMINATE task was reached."""
        status = WorkflowStatus(task.input["terminationStatus"])
        reason = task.input.get("terminationReason") or f"Workflow is {status} by TERMINATE task: {task.task_id}"
        failed = status != WorkflowStatus.COMPLETED
        self.end(status, str(reason), failed_task=task if failed else None, output=task.output, failure=failed)

    def fail(self, task: TaskState) -> None:
        """A task has failed for good."""
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
        """End the workflow, and with it all that is still open. `failure`: whether its failure workflow is started."""
        draft, decision = self.draft, self.draft.decision
        for task in draft.open_all():
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
        """As the definition's output parameters say; without any, the output of the task that came last."""
        parameters = self.plan.definition.get("outputParameters")
        if parameters:
            resolved: dict[str, Any] = resolve(parameters, Scope(self.draft))
            return resolved
        last = self.draft.last()
        return last.output if last else {}

    def failure_workflow(self, status: str, reason: str | None, task: TaskState | None) -> FailureWorkflow | None:
        """The workflow to start because this one failed, if its definition names one."""
        name = self.plan.definition.get("failureWorkflow")
        if isinstance(name, str) and name.startswith("$workflow.input."):  # Conductor's own way to say it
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
