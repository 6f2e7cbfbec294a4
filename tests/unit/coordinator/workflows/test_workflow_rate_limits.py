"""Workflow rate limits (`rateLimitConfig`): a limited number of workflows per key runs; the others wait in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.views.waiting_facts import PollRecords, explain_workflow
from conductor.coordinator.workflows import workflow_actions
from conductor.protocol.why_waiting import Waiting
from tests.unit.coordinator.core_harness import Harness, simple

KEY = "${workflow.input.customer}"


def limit(harness: Harness, at_most: int, *tasks: Any, name: str = "flow", **more: Any) -> None:
    harness.task_def("work", retryCount=0)
    config = {"rateLimitKey": KEY, "concurrentExecLimit": at_most, **more}
    harness.workflow_def(name, *(tasks or [simple("work")]), rateLimitConfig=config)


def start(harness: Harness, customer: str = "a", **more: Any) -> str:
    return harness.start(input={"customer": customer}, **more)


def why(harness: Harness, workflow: str) -> Waiting:
    polls = PollRecords({}, harness.clock.wall_ms())
    return harness.store.call(lambda tx: explain_workflow(tx, harness.core.reader.snapshots, polls, workflow))


def end_next(harness: Harness, status: str = "COMPLETED") -> str:
    """Do the next task; the workflow that it belongs to."""
    task = harness.poll_one()
    harness.report(task, status)
    return str(task["workflowInstanceId"])


class TestTurns:
    def test_a_workflow_over_the_limit_waits_without_tasks_until_another_ends(self, harness: Harness) -> None:
        limit(harness, 1)
        first, second = start(harness), start(harness)
        held = harness.workflow(second)
        assert (held["status"], held["tasks"], held["rateLimited"], held["rateLimitKey"]) == ("RUNNING", [], True, "a")
        assert harness.workflow(first)["rateLimited"] is False
        assert end_next(harness) == first
        assert harness.workflow(second)["rateLimited"] is False
        assert end_next(harness) == second
        assert harness.workflow(second)["status"] == "COMPLETED"
        assert "rateLimited" not in harness.workflow(second)

    def test_waiting_workflows_begin_in_the_order_of_their_starts(self, harness: Harness) -> None:
        limit(harness, 2)
        started = [start(harness) for _ in range(6)]
        assert [end_next(harness) for _ in started] == started

    def test_keys_do_not_wait_for_each_other_so_one_of_many_is_soon_done(self, harness: Harness) -> None:
        limit(harness, 1)
        many = [start(harness, "a") for _ in range(50)]
        other = start(harness, "b")
        assert end_next(harness) == many[0]
        assert end_next(harness) == other

    def test_a_key_that_comes_to_nothing_is_a_key_and_no_limit_is_none(self, harness: Harness) -> None:
        limit(harness, 1)
        harness.start()
        assert harness.workflow(harness.start())["rateLimited"] is True
        limit(harness, 0, name="free")
        assert "rateLimited" not in harness.workflow(harness.start("free"))

    def test_a_waiting_workflow_says_why(self, harness: Harness) -> None:
        limit(harness, 2)
        for _ in range(3):
            start(harness)
        found = why(harness, start(harness))
        assert found.kind == "turn"
        reached = "the limit of 2 concurrent workflows flow with key a is reached (2 running)"
        assert found.sentence == f"waits for its turn: {reached}; 1 ahead of it"

    def test_a_rejected_workflow_is_not_stored(self, harness: Harness) -> None:
        limit(harness, 1, policy="REJECT")
        start(harness)
        with pytest.raises(
            ApiError, match="the limit of 1 concurrent `flow` workflows with key 'a' is reached"
        ) as refused:
            start(harness)
        assert refused.value.status == 429
        end_next(harness)
        assert harness.workflow(start(harness))["rateLimited"] is False

    def test_a_rejected_sub_workflow_or_failure_workflow_leaves_nothing_behind(self, harness: Harness) -> None:
        limit(harness, 1, policy="REJECT")
        start(harness, "")
        sub = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "flow"}}
        end = {"name": "x", "taskReferenceName": "x", "type": "TERMINATE"}
        failed = {**end, "inputParameters": {"terminationStatus": "FAILED"}}
        harness.workflow_def("parent", sub)
        harness.workflow_def("failing", failed, failureWorkflow="flow")
        (task,) = harness.workflow(harness.start("parent", input={"customer": ""}))["tasks"]
        assert task["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "the limit of 1 concurrent" in task["reasonForIncompletion"]
        assert harness.workflow(harness.start("failing"))["status"] == "FAILED"
        rows = harness.store.call(lambda tx: tx.select("SELECT count(*) FROM workflow WHERE name = 'flow'", ()))
        assert rows[0][0] == 1

    def test_a_paused_one_is_passed_and_waits_on_when_it_is_resumed(self, harness: Harness) -> None:
        limit(harness, 1)
        first, second, third, fourth = (start(harness) for _ in range(4))
        harness.act(second, workflow_actions.pause)
        assert harness.workflow(second)["status"] == "PAUSED"
        assert end_next(harness) == first
        harness.act(second, workflow_actions.resume)
        assert harness.workflow(second)["tasks"] == []
        assert [end_next(harness) for _ in range(3)] == [third, second, fourth]

    def test_a_paused_one_that_runs_keeps_its_turn(self, harness: Harness) -> None:
        limit(harness, 1)
        first, second = start(harness), start(harness)
        harness.act(first, workflow_actions.pause)
        assert harness.workflow(second)["rateLimited"] is True

    def test_a_waiting_workflow_can_be_terminated_and_queued_again(self, harness: Harness) -> None:
        limit(harness, 1)
        first, second, third = (start(harness) for _ in range(3))
        harness.act(second, workflow_actions.terminate)
        assert harness.workflow(second)["status"] == "TERMINATED"
        harness.act(second, workflow_actions.restart)
        assert (harness.workflow(second)["status"], harness.workflow(second)["tasks"]) == ("RUNNING", [])
        assert [end_next(harness) for _ in range(3)] == [first, third, second]

    def test_a_retry_waits_for_its_turn_and_is_then_made(self, harness: Harness) -> None:
        limit(harness, 1, simple("before"), simple("work"))
        first = start(harness)
        harness.report(harness.poll_one("before"), output={"kept": 1})
        assert end_next(harness, "FAILED") == first
        second = start(harness)
        harness.act(first, workflow_actions.retry, resume=False)
        waiting = harness.workflow(first)
        assert (waiting["status"], waiting["rateLimited"]) == ("RUNNING", True)
        assert [one["status"] for one in waiting["tasks"]] == ["COMPLETED", "FAILED"]
        harness.restart()
        harness.report(harness.poll_one("before"))
        assert end_next(harness) == second
        assert end_next(harness) == first
        assert [one["status"] for one in harness.workflow(first)["tasks"]] == ["COMPLETED", "FAILED", "COMPLETED"]

    def test_a_retry_that_is_impossible_is_refused_at_once(self, harness: Harness) -> None:
        limit(harness, 1)
        end_next_of = start(harness)
        assert end_next(harness) == end_next_of
        start(harness)
        with pytest.raises(ApiError, match="no retryable tasks"):
            harness.act(end_next_of, workflow_actions.retry, resume=False)

    def test_tasks_cannot_be_skipped_before_it_has_begun(self, harness: Harness) -> None:
        limit(harness, 1)
        start(harness)
        with pytest.raises(ApiError, match="waits for its turn"):
            harness.act(start(harness), workflow_actions.skip_task, ref="work")

    def test_the_timeout_of_a_waiting_workflow_goes_on(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        config = {"rateLimitKey": KEY, "concurrentExecLimit": 1}
        timeout = {"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"}
        harness.workflow_def("flow", simple("work"), rateLimitConfig=config, **timeout)
        start(harness)
        harness.advance(30)
        held = start(harness)
        harness.act(held, workflow_actions.pause)
        harness.advance(61)
        assert harness.workflow(held)["status"] == "TIMED_OUT"

    def test_a_running_one_that_is_removed_makes_room(self, harness: Harness) -> None:
        limit(harness, 1)
        first, second = start(harness), start(harness)
        harness.store.call(lambda tx: harness.core.workflows.executions.remove(tx, find_workflow(tx, first)))
        assert harness.workflow(second)["rateLimited"] is False

    def test_a_larger_limit_counts_from_the_next_start_on(self, harness: Harness) -> None:
        limit(harness, 1)
        waiting = [start(harness) for _ in range(3)]
        limit(harness, 3)
        last = start(harness)
        harness.settle()
        # Workflows that were started under the old limit keep it, and their order.
        assert [harness.workflow(one)["rateLimited"] for one in (*waiting, last)] == [False, True, True, True]
        assert [end_next(harness) for _ in range(4)] == [*waiting, last]

    def test_sub_workflows_wait_for_their_turn(self, harness: Harness) -> None:
        limit(harness, 1, name="child")
        step = {"type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child"}, "inputParameters": {"customer": "a"}}
        harness.workflow_def("flow", {"name": "s", "taskReferenceName": "s", **step})
        first, second = start(harness), start(harness)
        end_next(harness)
        assert [harness.workflow(one)["status"] for one in (first, second)] == ["COMPLETED", "RUNNING"]
        end_next(harness)
        assert harness.workflow(second)["status"] == "COMPLETED"

    def test_a_parent_under_a_limit_is_not_brought_back_over_it(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"))
        step = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child"}}
        limit(harness, 1, step)
        parent = start(harness)
        child = harness.workflow(parent)["tasks"][0]["subWorkflowId"]
        end_next(harness, "FAILED")
        start(harness)
        with pytest.raises(ApiError, match="the limit of concurrent flow workflows is reached"):
            harness.act(child, workflow_actions.retry, resume=False)
        assert [harness.workflow(one)["status"] for one in (parent, child)] == ["FAILED", "FAILED"]
        end_next(harness)
        harness.act(child, workflow_actions.retry, resume=False)
        end_next(harness)
        assert harness.workflow(parent)["status"] == "COMPLETED"


# -- whatever happens, in whatever order

LIMIT = 2
KEYS = ("a", "b")
DONE_TO_ONE = ("complete", "fail", "terminate", "pause", "resume", "retry", "restart", "remove")


class Model:
    """The expected state, as lists."""

    def __init__(self) -> None:
        self.key: dict[str, str] = {}
        self.state: dict[str, str] = {}
        self.line: dict[str, list[str]] = {key: [] for key in KEYS}
        self.running: dict[str, list[str]] = {key: [] for key in KEYS}

    def come(self, workflow: str) -> None:
        self.state[workflow] = "RUNNING"
        self.line[self.key[workflow]].append(workflow)
        self.settle()

    def go(self, workflow: str, state: str) -> None:
        self.state[workflow] = state
        for places in (self.line[self.key[workflow]], self.running[self.key[workflow]]):
            if workflow in places:
                places.remove(workflow)
        self.settle()

    def settle(self) -> None:
        for key in KEYS:
            ready = [one for one in self.line[key] if self.state[one] == "RUNNING"]
            for workflow in ready[: LIMIT - len(self.running[key])]:
                self.line[key].remove(workflow)
                self.running[key].append(workflow)

    def waits(self, workflow: str) -> bool:
        return workflow in self.line[self.key[workflow]]


class Machine:
    """A coordinator and the model beside it."""

    def __init__(self, database: Path) -> None:
        self.harness = Harness(database)
        limit(self.harness, LIMIT)
        self.model = Model()
        self.tasks: dict[str, Any] = {}

    def step(self, what: str, number: int) -> None:
        known = sorted(self.model.state)
        if what == "restart process":
            self.harness.restart()
        elif what in KEYS:
            workflow = start(self.harness, what)
            self.model.key[workflow] = what
            self.model.come(workflow)
        elif known:
            self.do(what, known[number % len(known)])
        self.look()

    def do(self, what: str, workflow: str) -> None:
        state, waits = self.model.state[workflow], self.model.waits(workflow)
        if what in ("complete", "fail") and state == "RUNNING" and not waits:
            status, after = ("COMPLETED", "COMPLETED") if what == "complete" else ("FAILED", "FAILED")
            self.harness.report(self.tasks.pop(workflow), status)
            self.model.go(workflow, after)
        elif what == "terminate" and state in ("RUNNING", "PAUSED"):
            self.harness.act(workflow, workflow_actions.terminate)
            self.model.go(workflow, "TERMINATED")
        elif what == "pause" and state == "RUNNING":
            self.harness.act(workflow, workflow_actions.pause)
            self.model.state[workflow] = "PAUSED"
        elif what == "resume" and state == "PAUSED":
            self.harness.act(workflow, workflow_actions.resume)
            self.model.state[workflow] = "RUNNING"
            self.model.settle()
        elif what == "retry" and state in ("FAILED", "TERMINATED"):
            self.harness.act(workflow, workflow_actions.retry, resume=False)
            self.model.come(workflow)
        elif what == "restart" and state in ("COMPLETED", "FAILED", "TERMINATED"):
            self.harness.act(workflow, workflow_actions.restart)
            self.model.come(workflow)
        elif what == "remove":
            self.harness.store.call(
                lambda tx: self.harness.core.workflows.executions.remove(tx, find_workflow(tx, workflow))
            )
            self.model.go(workflow, "gone")
            del self.model.state[workflow]

    def look(self) -> None:
        self.harness.settle()
        for task in self.harness.poll(count=100):
            self.tasks[task["workflowInstanceId"]] = task
        for workflow, state in self.model.state.items():
            found = self.harness.workflow(workflow)
            is_open = any(task["status"] in ("SCHEDULED", "IN_PROGRESS") for task in found["tasks"])
            runs = state in ("RUNNING", "PAUSED") and not self.model.waits(workflow)
            assert (found["status"], found.get("rateLimited", False)) == (state, self.model.waits(workflow))
            assert is_open == runs, found


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from((*KEYS, *KEYS, *DONE_TO_ONE, "restart process")), st.integers(0, 20)), max_size=40
    )
)
def test_the_limit_is_kept_and_the_order_too_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("turns") / "a.db")
    try:
        for what, number in steps:
            machine.step(what, number)
    finally:
        machine.harness.close()
