"""Runs the decider alone: decisions are applied to a state in memory, and the test plays the workers."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from conductor.coordinator.definitions.validation import validate_definition
from conductor.coordinator.definitions.workflow_plan import WorkflowPlan
from conductor.coordinator.workflows.decider import decide, initial_variables, workflow_input
from conductor.coordinator.workflows.decision import Decision
from conductor.coordinator.workflows.state import TaskList, TaskState, WorkflowState

START_MS = 1_700_000_000_000


def task(ref: str, kind: str = "SIMPLE", **fields: Any) -> dict[str, Any]:
    """A task of a definition whose name is its reference name."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


def switch(ref: str, value: str, cases: dict[str, list[Any]], default: list[Any] | None = None) -> dict[str, Any]:
    return task(
        ref,
        "SWITCH",
        evaluatorType="value-param",
        expression="value",
        inputParameters={"value": value},
        decisionCases=cases,
        defaultCase=default or [],
    )


def fork(ref: str, *branches: list[Any], join_on: list[str] | None = None) -> list[dict[str, Any]]:
    """A FORK_JOIN and its JOIN `<ref>_join`, which waits for the last task of every branch."""
    joined = join_on if join_on is not None else [branch[-1]["taskReferenceName"] for branch in branches]
    return [task(ref, "FORK_JOIN", forkTasks=list(branches)), task(f"{ref}_join", "JOIN", joinOn=joined)]


def loop(ref: str, condition: str, *body: Any, **fields: Any) -> dict[str, Any]:
    return task(ref, "DO_WHILE", loopCondition=condition, loopOver=list(body), **fields)


def dynamic_fork(ref: str, *tasks: Any) -> list[dict[str, Any]]:
    """A FORK_JOIN_DYNAMIC whose branches are these tasks, and its JOIN `<ref>_join`."""
    named = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    given = {"tasks": list(tasks), "inputs": {}}
    return [task(ref, "FORK_JOIN_DYNAMIC", inputParameters=given, **named), task(f"{ref}_join", "JOIN")]


@st.composite
def sequences(draw: st.DrawFn, prefix: str = "t", depth: int = 2) -> list[dict[str, Any]]:
    """A random sequence of tasks with unique names."""
    leaves = ["SIMPLE", "OPTIONAL", "SET", "DYNAMIC", "DYNAMIC_FORK"]
    kinds = leaves + (["SWITCH", "FORK", "LOOP", "ITEMS", "EXCLUSIVE"] if depth else [])
    result: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 3))):
        ref = f"{prefix}{index}"
        match draw(st.sampled_from(kinds)):
            case "SWITCH":
                inner = {case: draw(sequences(f"{ref}{case}", depth - 1)) for case in "xy"}
                result.append(switch(ref, draw(st.sampled_from("xyz")), inner))
            case "FORK":
                result += fork(ref, *[draw(sequences(f"{ref}{branch}", depth - 1)) for branch in "ab"])
            case "LOOP":
                body = draw(sequences(f"{ref}l", depth - 1))
                result.append(loop(ref, f"$.{ref}.iteration < {draw(st.integers(1, 3))}", *body))
            case "ITEMS":
                body = draw(sequences(f"{ref}l", depth - 1))
                result.append(
                    loop(ref, "true", *body, items=draw(st.sampled_from(["${workflow.input.nothing}", "one"])))
                )
            case "EXCLUSIVE":
                before, one, other = task(f"{ref}p"), task(f"{ref}x"), task(f"{ref}y")
                result += [before, switch(ref, draw(st.sampled_from("xyz")), {"x": [one], "y": [other]})]
                joined = {"joinOn": [f"{ref}x", f"{ref}y"], "defaultExclusiveJoinTask": [f"{ref}p"]}
                result.append(task(f"{ref}e", "EXCLUSIVE_JOIN", **joined))
            case "DYNAMIC_FORK":
                width = draw(st.integers(0, 3))
                result += dynamic_fork(ref, *[task(f"{ref}d{n}", retryCount=1) for n in range(width)])
            case "DYNAMIC":
                given = {"what": f"{ref}_chosen", "v": "${workflow.input}"}
                result.append(task(ref, "DYNAMIC", dynamicTaskNameParam="what", inputParameters=given, retryCount=1))
            case "SET":
                result.append(task(ref, "SET_VARIABLE", inputParameters={ref: "${workflow.input.x}"}))
            case kind:
                result.append(
                    task(ref, optional=kind == "OPTIONAL", retryCount=1, inputParameters={"v": "${workflow.variables}"})
                )
    return result


def _with_definition(task: dict[str, Any], task_defs: dict[str, Any]) -> dict[str, Any]:
    """A task as a snapshot has it: its definition is inside."""
    known = task_defs.get(task["name"])
    return task if known is None else {**task, "taskDefinition": known}


def apply(state: WorkflowState, decision: Decision) -> WorkflowState:
    """The state after a decision, as a store would have it."""
    assert isinstance(state.tasks, TaskList)
    tasks = {task.task_id: task for task in state.tasks}
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
        restless=decision.restless,
    )


class Run:
    """An execution. After every step it decides twice; the second decision must be empty."""

    def __init__(
        self, *tasks: Any, given: dict[str, Any] | None = None, task_defs: dict[str, Any] | None = None, **fields: Any
    ) -> None:
        known = [_with_definition(one, task_defs or {}) for one in tasks]
        definition = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": known, **fields}
        assert validate_definition(definition) == []
        self._ids = count(1)
        self.now_ms = START_MS
        self.decisions: list[Decision] = []
        self.state = WorkflowState(
            workflow_id="flow-1",
            plan=WorkflowPlan(definition),
            tasks=TaskList(),
            input=workflow_input(definition, given or {}),
            variables=initial_variables(definition),
            correlation_id="order-7",
        )
        self.decide()

    def new_id(self) -> str:
        return f"task-{next(self._ids)}"

    def decide(self, jitter: float = 0.0) -> Decision:
        decision = decide(self.state, self.now_ms, self.new_id, jitter=jitter)
        return self.carry_out(decision)

    def carry_out(self, decision: Decision) -> Decision:
        """Apply a decision as a store would, and check that there is nothing left to decide."""
        self.decisions.append(decision)
        self.state = apply(self.state, decision)
        for start in decision.start_sub_workflows:
            self.put(start.task_id, sub_workflow_id=f"sub-of-{start.task_id}")
        again = decide(self.state, self.now_ms, self.new_id)
        if decision.restless:
            return self.carry_out(again)  # there is more to be decided, in steps of their own
        assert not again, again
        return decision

    # -- playing the workers

    def put(self, task_id: str, **changes: Any) -> TaskState:
        changed = replace(self.by_id(task_id), **changes)
        assert isinstance(self.state.tasks, TaskList)
        self.state.tasks.put(changed)
        return changed

    def end(self, ref: str, status: str = "COMPLETED", **changes: Any) -> Decision:
        """A task ends; then decide."""
        now = self[ref]
        assert not now.terminal, f"{ref} is {now.status}"
        self.put(now.task_id, status=status, ended_ms=self.now_ms, **changes)
        return self.decide()

    def complete(self, *refs: str) -> None:
        for ref in refs:
            self.end(ref)

    def pass_time(self, ms: int) -> Decision:
        self.now_ms += ms
        return self.decide()

    # -- looking

    def by_id(self, task_id: str) -> TaskState:
        found = self.tasks.get(task_id)
        assert found is not None
        return found

    @property
    def tasks(self) -> TaskList:
        assert isinstance(self.state.tasks, TaskList)
        return self.state.tasks

    def __getitem__(self, ref: str) -> TaskState:
        found = self.tasks.latest(ref)
        assert found is not None, f"{ref} was not scheduled"
        return found

    def __contains__(self, ref: str) -> bool:
        return self.tasks.latest(ref) is not None

    @property
    def open(self) -> list[str]:
        """Reference names of what has not ended, in order."""
        return [one.ref for one in self.tasks if not one.terminal]

    @property
    def ready(self) -> list[str]:
        """Reference names of what workers could take."""
        return [one.ref for one in self.tasks if one.status == "SCHEDULED" and one.type == "SIMPLE"]

    @property
    def status(self) -> str:
        return self.state.status
