"""The decider: from a definition and what is done to what comes next. Pure: no clock, no store, no randomness.

    start ─▶ decide ─▶ Decision ─▶ (the caller stores it, queues tasks, sets a timer) ─▶ a task ends ─▶ decide ...

A decision draws the consequences of every task that has ended since the last one, once: `TaskState.executed` marks
those that are done. It looks at no other task than those that are pending and those that expressions name, so the
work for one step does not grow with the length of the workflow. Deciding again without news gives an empty Decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from conductor.coordinator import conditions
from conductor.coordinator.draft import Decision, Draft, FailureWorkflow
from conductor.coordinator.expressions import resolve
from conductor.coordinator.operators import chosen_case, failed, start_operator, start_sub_workflow
from conductor.coordinator.plan import Node
from conductor.coordinator.retries import retry_delay_ms, retry_limit
from conductor.coordinator.scope import Scope, task_def_of, task_input
from conductor.coordinator.sizes import MAX_VALUE_BYTES, TooLarge, check_size, size_of
from conductor.coordinator.workflow_state import (
    RETRIABLE_TASK_STATUSES,
    TaskList,
    TaskState,
    WorkflowState,
    round_ref,
)

#: A decision that makes more tasks than this is a loop that waits for nothing; its workflow fails.
MAX_TASKS_PER_DECISION = 10_000

#: What a SUB_WORKFLOW task becomes when its workflow ends.
_TASK_STATUS_AFTER = {"COMPLETED": "COMPLETED", "FAILED": "FAILED", "TERMINATED": "CANCELED", "TIMED_OUT": "TIMED_OUT"}
#: What a workflow becomes when a task of it fails for good; FAILED if it is not here.
_WORKFLOW_STATUS_AFTER = {"CANCELED": "TERMINATED", "TIMED_OUT": "TIMED_OUT"}


def decide(state: WorkflowState, now_ms: int, *, new_id: Callable[[], str], jitter: float = 0.0) -> Decision:
    """What comes next. `new_id` gives ids to new tasks; `jitter` in [0, 1) spreads retries of this decision."""
    if state.status != "RUNNING":
        return Decision()
    decider = Decider(Draft(state, now_ms, new_id), jitter)
    decider.run()
    return decider.draft.finish()


def apply(state: WorkflowState, decision: Decision) -> WorkflowState:
    """The state after a decision, held in memory. (A store does the same with its rows.)"""
    known = state.tasks if isinstance(state.tasks, TaskList) else TaskList()
    tasks = {task.task_id: task for task in known}
    tasks.update((task.task_id, task) for task in (*decision.update, *decision.schedule))
    for task_id in decision.remove:
        tasks.pop(task_id, None)
    return replace(
        state,
        tasks=TaskList(tasks.values()),
        variables=state.variables if decision.variables is None else decision.variables,
        input=state.input if decision.input is None else decision.input,
        status=decision.workflow_status or state.status,
        output=state.output if decision.output is None else decision.output,
        reason=decision.reason if decision.workflow_status else state.reason,
    )


def workflow_input(definition: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a workflow starts with: what was given, and from the definition's template what was not."""
    return {**(definition.get("inputTemplate") or {}), **given}


def first_variables(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The variables a workflow starts with."""
    return dict(definition.get("variables") or {})


def after_sub_workflow(
    task: TaskState, *, status: str, output: Mapping[str, Any], reason: str | None, now_ms: int
) -> TaskState:
    """A SUB_WORKFLOW task as it is once its workflow has ended; decide its own workflow next."""
    failed = status != "COMPLETED"
    return replace(
        task,
        status=_TASK_STATUS_AFTER[status],
        output={"subWorkflowId": task.sub_workflow_id, **output},
        reason=f"Sub workflow {task.sub_workflow_id} failure reason: {reason}" if failed else None,
        ended_ms=now_ms,
    )


class Decider:
    """One decision in the making. `decide` and the actions on a whole workflow use it."""

    def __init__(self, draft: Draft, jitter: float) -> None:
        self.draft = draft
        self.plan = draft.plan
        self.jitter = jitter

    @property
    def running(self) -> bool:
        return self.draft.status == "RUNNING"

    def run(self) -> None:
        """Draw consequences until there are none left."""
        if self.draft.last() is None:
            self.enter(self.plan.top[0])
        self.wake()
        self.settle_all()
        while self.running and self.look_at_waiting():
            self.settle_all()
        if self.running and not self.draft.open and self.over(self.plan.top) and not any(self.draft.open_refs()):
            self.complete()

    def settle_all(self) -> None:
        """Every task that has ended so far."""
        while self.draft.ended and self.running:
            self.settle(self.draft.ended.popleft())

    # -- reaching a task

    def enter(self, node: Node | None) -> None:
        """The flow has reached a task: start it, unless it is marked to be skipped."""
        while node is not None:
            ref = round_ref(node.ref, self.draft.round_of(node))
            present = self.draft.latest(ref)
            if present is None:
                self.start(node)
                return
            if present.status != "SKIPPED" or present.executed:
                return  # it has been reached before
            self.draft.executed(present)
            node = self.plan.following(node)

    def start(
        self,
        node: Node,
        previous: TaskState | None = None,
        *,
        delay_ms: int | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        """Make the task of a node; after a previous attempt, the next one. `given` takes the place of its input."""
        draft, task_id, problem = self.draft, self.draft.new_id(), None
        if given is None:
            try:
                given = task_input(draft, node, task_id)
            except TooLarge as error:
                given, problem = {}, f"the input of {node.ref}: {error}"
        iteration = previous.iteration if previous else draft.round_of(node)
        task = TaskState(
            task_id=task_id,
            ref=round_ref(node.ref, iteration),
            type=node.type,
            name=node.name,
            status="SCHEDULED",
            seq=draft.next_seq(),
            iteration=iteration,
            retry_count=previous.retry_count + 1 if previous else 0,
            retried_task_id=previous.task_id if previous else None,
            reason=previous.reason if previous else None,
            input=given,
            scheduled_ms=draft.now_ms,
            first_scheduled_ms=previous.first_scheduled_ms if previous else draft.now_ms,
            started_ms=draft.now_ms,
            start_delay_ms=int(node.task.get("startDelay") or 0) * 1000 if delay_ms is None else delay_ms,
        )
        task = failed(draft, task, problem) if problem else start_operator(draft, node, task)
        draft.add(task)
        if draft.new_tasks > MAX_TASKS_PER_DECISION:
            self.end("FAILED", f"more than {MAX_TASKS_PER_DECISION} tasks in one step: a loop that waits for nothing")
        elif node.type == "DO_WHILE" and not task.terminal:
            self.enter(node.body[0])

    # -- a task has ended

    def settle(self, task: TaskState) -> None:
        """Draw the consequences of a task's end."""
        node = self.plan.nodes[task.base_ref]
        if task.status == "SKIPPED":
            return  # the flow has not reached it yet
        if task.successful:
            self.follow(node, self.draft.executed(task))
        elif self.may_retry(node, task):
            self.retry(node, task)
        elif node.optional:
            self.follow(node, self.draft.executed(task, status="COMPLETED_WITH_ERRORS"))
        elif node.permissive:
            self.follow(node, self.draft.executed(task))
        else:
            self.fail(self.draft.executed(task))

    def may_retry(self, node: Node, task: TaskState) -> bool:
        """Whether a failed task is worth another attempt."""
        if node.type not in ("SIMPLE", "SUB_WORKFLOW") or task.status not in RETRIABLE_TASK_STATUSES:
            return False
        task_def = task_def_of(self.draft, node)
        if node.type == "SUB_WORKFLOW" and not task_def and node.task.get("retryCount") is None:
            return False  # Conductor's default for what is not registered is for workers' tasks only
        total_ms = int(task_def.get("totalTimeoutSeconds") or 0) * 1000
        in_time = total_ms <= 0 or self.draft.now_ms - task.first_scheduled_ms < total_ms
        return in_time and task.retry_count < retry_limit(task_def, node.task)

    def retry(self, node: Node, task: TaskState) -> None:
        """The next attempt takes a failed one's place."""
        self.draft.executed(task, retried=True)
        delay_ms = retry_delay_ms(task_def_of(self.draft, node), task.retry_count, self.jitter)
        self.start(node, task, delay_ms=delay_ms)

    def follow(self, node: Node, task: TaskState) -> None:
        """Go on behind a task."""
        if node.type == "TERMINATE" and task.status == "COMPLETED":
            self.terminated(task)
        elif node.cases and (case := self.case_of(node, task)):
            self.enter(case[0])
        else:
            for branch in node.branches if task.status == "COMPLETED" else ():
                self.enter(branch[0])
            self.enter(self.plan.following(node))

    def case_of(self, node: Node, task: TaskState) -> list[Node]:
        """The tasks that a SWITCH has chosen."""
        if node.type not in ("SWITCH", "DECISION") or task.status != "COMPLETED":
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
                self.draft.end(task, "COMPLETED")
            else:
                self.draft.put(start_sub_workflow(self.draft, task))

    def look_at_waiting(self) -> bool:
        """Whether a JOIN or a DO_WHILE has moved."""
        waiting = [task for task in self.draft.open.values() if task.type in ("JOIN", "DO_WHILE")]
        moved = False
        for task in waiting:
            node = self.plan.nodes[task.base_ref]
            moved |= self.join(node, task) if task.type == "JOIN" else self.next_round(node, task)
        return moved

    def over(self, sequence: Sequence[Node]) -> bool:
        """Whether a sequence has been run to its end."""
        return bool(self.ending(sequence[-1]))

    def ending(self, node: Node) -> list[TaskState]:
        """A task that is over; behind a SWITCH, also the last one of the case it chose. Empty while one runs."""
        task = self.draft.task_of(node)
        if task is None or not (task.terminal and task.executed):
            return []
        case = self.case_of(node, task)
        if not case:
            return [task]
        behind = self.ending(case[-1])
        return [task, *behind] if behind else []

    def join(self, node: Node, task: TaskState) -> bool:
        """End a JOIN if all that it waits for has ended."""
        refs = dict.fromkeys(task.input.get("joinOn", ()))
        joined, size = list[TaskState](), 0
        # What is open is at hand; what has ended would have to be read, branch by branch, at every step of a wide fork.
        if any(ref in refs for ref in self.draft.open_refs()):
            return False
        for ref in refs:
            ending = self.ending(self.plan.nodes[ref])
            if not ending and not self.never_comes(node, self.plan.nodes[ref]):
                return False
            joined += ending
            size += sum(size_of(forked.output) for forked in ending)
            if size > MAX_VALUE_BYTES:
                reason = str(TooLarge(f"what {task.ref} joins"))
                self.draft.end(task, "FAILED_WITH_TERMINAL_ERROR", reason=reason)
                return True
        bad = [forked for forked in joined if not forked.successful]
        partly = [forked for forked in joined if forked.status == "COMPLETED_WITH_ERRORS"]
        status = "FAILED" if bad else "COMPLETED_WITH_ERRORS" if partly else "COMPLETED"
        why = " ".join(forked.reason or forked.ref for forked in bad or partly) or None
        self.draft.end(task, status, output={forked.ref: forked.output for forked in joined}, reason=why)
        return True

    def never_comes(self, join: Node, node: Node) -> bool:
        """Whether a task to join was left out: its branch is over without it (another case was chosen)."""
        fork, at = join.fork, node if self.draft.task_of(node) is None else None
        if fork is None:
            return False
        forked = self.draft.task_of(fork)
        if forked is not None and forked.status == "SKIPPED":
            return True
        while at is not None and at.parent is not fork:
            at = at.parent
        return at is not None and any(at in branch and self.over(branch) for branch in fork.branches)

    def next_round(self, node: Node, task: TaskState) -> bool:
        """End a round of a loop if it is over, and begin the next one or end the loop."""
        if any(self.plan.nodes[ref].loop is node for ref in self.draft.open_refs()):
            return False
        if not self.over(node.body):
            return False
        output = {**task.output, str(task.iteration): self.round_output(node, task.iteration)}
        keep = task.input.get("keepLastN")
        if isinstance(keep, int) and keep > 0:
            output.pop(str(task.iteration - keep), None)
        try:
            check_size(f"the output of all rounds of {task.ref} (keepLastN limits it)", output)
            again = self.loops_again(node, task, output)
        except (conditions.ConditionError, TooLarge) as error:
            kept = task.output if isinstance(error, TooLarge) else output
            self.draft.end(task, "FAILED_WITH_TERMINAL_ERROR", output=kept, reason=str(error))
            return True
        if not again:
            self.draft.end(task, "COMPLETED", output=output)
            return True
        round_no = task.iteration + 1
        self.draft.put(replace(task, iteration=round_no, output={**output, "iteration": round_no}))
        self.enter(node.body[0])
        return True

    def round_output(self, node: Node, iteration: int) -> dict[str, Any]:
        tasks = (
            (inner.ref, self.draft.latest(round_ref(inner.ref, iteration))) for inner in self.plan.inside[node.ref]
        )
        return {ref: task.output for ref, task in tasks if task is not None}

    def loops_again(self, node: Node, task: TaskState, output: dict[str, Any]) -> bool:
        """The loop's condition. `$` holds its inputs, its own output, and the last output of each task inside."""
        data = {**task_input(self.draft, node, task.task_id), node.ref: output}
        for inner in self.plan.inside[node.ref]:
            if newest := self.draft.newest(inner.ref):
                data[inner.ref] = newest.output
        return conditions.evaluate_bool(str(node.task.get("loopCondition")), data)

    # -- the end

    def complete(self) -> None:
        """The flow has come to its end."""
        for node in self.plan.permissive:
            task = self.draft.newest(node.ref)
            if task is not None and task.terminal and not task.successful:
                self.fail(task)
                return
        self.end("COMPLETED", None)

    def terminated(self, task: TaskState) -> None:
        """A TERMINATE task was reached."""
        status = str(task.input["terminationStatus"])
        reason = task.input.get("terminationReason") or f"Workflow is {status} by TERMINATE task: {task.task_id}"
        failed = status != "COMPLETED"
        self.end(status, str(reason), failed_task=task if failed else None, output=task.output, failure=failed)

    def fail(self, task: TaskState) -> None:
        """A task has failed for good."""
        status = _WORKFLOW_STATUS_AFTER.get(task.status, "FAILED")
        reason = f"Task {task.task_id} failed with status: {status} and reason: '{task.reason or 'null'}'"
        self.end(status, reason, failed_task=task)

    def end(
        self,
        status: str,
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
            output = self.workflow_output(failed_task) if output is None else output
        except TooLarge as error:
            output = {}
            if status == "COMPLETED":
                status, reason = "FAILED", f"the output of the workflow: {error}"
        draft.status = status
        decision.output = output
        decision.reason = reason
        decision.failed_task = failed_task
        if status != "COMPLETED" if failure is None else failure:
            decision.failure_workflow = self.failure_workflow(status, reason, failed_task)

    def cancel(self, task: TaskState) -> None:
        """Cancel an open task, because its workflow has ended."""
        decision = self.draft.decision
        self.draft.end(task, "CANCELED", executed=True)
        decision.start_sub_workflows = [
            start for start in decision.start_sub_workflows if start.task_id != task.task_id
        ]
        if task.sub_workflow_id:
            decision.terminate_sub_workflows.append(task.sub_workflow_id)

    def workflow_output(self, task: TaskState | None) -> dict[str, Any]:
        """As the definition's output parameters say; without any, the output of the task that came last."""
        parameters = self.draft.state.definition.get("outputParameters")
        if parameters:
            resolved: dict[str, Any] = resolve(parameters, Scope(self.draft))
            return resolved
        last = task or self.draft.last()
        return last.output if last else {}

    def failure_workflow(self, status: str, reason: str | None, task: TaskState | None) -> FailureWorkflow | None:
        """The workflow to start because this one failed, if its definition names one."""
        name = resolve(self.draft.state.definition.get("failureWorkflow"), Scope(self.draft))
        if not isinstance(name, str) or not name:
            return None
        about = {
            "workflowId": self.draft.state.workflow_id,
            "reason": reason,
            "failureStatus": status,
            "failureTaskId": task.task_id if task else None,
        }
        return FailureWorkflow(name=name, input={**self.draft.state.input, **about})
