"""A workflow on paper: decisions are applied to a state in memory, and the test plays the workers."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from conductor.coordinator.draft import Decision
from conductor.coordinator.plan import Plan
from conductor.coordinator.validation import validate_definition
from conductor.coordinator.workflow_state import TaskList, TaskState, WorkflowState
from conductor.coordinator.workflows import apply, decide, first_variables, workflow_input

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


@st.composite
def sequences(draw: st.DrawFn, prefix: str = "t", depth: int = 2, *, in_loop: bool = False) -> list[dict[str, Any]]:
    """A random sequence of tasks with unique names."""
    kinds = ["SIMPLE", "OPTIONAL", "SET"] + (["SWITCH", "FORK", "LOOP"] if depth else [])
    result: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 3))):
        ref = f"{prefix}{index}"
        match draw(st.sampled_from(kinds)):
            case "SWITCH":
                inner = {case: draw(sequences(f"{ref}{case}", depth - 1, in_loop=in_loop)) for case in "xy"}
                result.append(switch(ref, draw(st.sampled_from("xyz")), inner))
            case "FORK":
                branches = [draw(sequences(f"{ref}{branch}", depth - 1, in_loop=in_loop)) for branch in "ab"]
                result += fork(ref, *branches)
            case "LOOP" if not in_loop:
                body = draw(sequences(f"{ref}l", depth - 1, in_loop=True))
                result.append(loop(ref, f"$.{ref}.iteration < {draw(st.integers(1, 3))}", *body))
            case "SET":
                result.append(task(ref, "SET_VARIABLE", inputParameters={ref: "${workflow.input.x}"}))
            case kind:
                result.append(
                    task(ref, optional=kind == "OPTIONAL", retryCount=1, inputParameters={"v": "${workflow.variables}"})
                )
    return result


class Run:
    """One execution. Deciding twice must give nothing the second time, and is done after every step."""

    def __init__(
        self, *tasks: Any, given: dict[str, Any] | None = None, task_defs: dict[str, Any] | None = None, **fields: Any
    ) -> None:
        definition = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": list(tasks), **fields}
        assert validate_definition(definition) == []
        self._ids = count(1)
        self.now_ms = START_MS
        self.decisions: list[Decision] = []
        self.state = WorkflowState(
            workflow_id="flow-1",
            plan=Plan(definition),
            tasks=TaskList(),
            input=workflow_input(definition, given or {}),
            variables=first_variables(definition),
            task_defs=task_defs or {},
            correlation_id="order-7",
        )
        self.decide()

    def new_id(self) -> str:
        return f"task-{next(self._ids)}"

    def decide(self, jitter: float = 0.0) -> Decision:
        decision = decide(self.state, self.now_ms, new_id=self.new_id, jitter=jitter)
        return self.carry_out(decision)

    def carry_out(self, decision: Decision) -> Decision:
        """Apply a decision as a store would, and check that there is nothing left to decide."""
        self.decisions.append(decision)
        self.state = apply(self.state, decision)
        for start in decision.start_sub_workflows:
            self.put(start.task_id, sub_workflow_id=f"sub-of-{start.task_id}")
        again = decide(self.state, self.now_ms, new_id=self.new_id)
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
