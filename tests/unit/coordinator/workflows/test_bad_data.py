"""The data of a workflow can end that workflow, with a reason. It never ends the server or another workflow."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from conductor.coordinator.store.statements import WORKFLOW
from conductor.coordinator.store.writer import StoreError
from conductor.coordinator.workflows import deadlines, executions
from conductor.coordinator.workflows import workflow_actions as workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import fork, loop

WAIT = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 seconds"}}
GIVEN = "${workflow.input.v}"


def sub(**parameters: Any) -> dict[str, Any]:
    return {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": parameters}


def script(expression: str) -> dict[str, Any]:
    return {
        "name": "sw",
        "taskReferenceName": "sw",
        "type": "SWITCH",
        "evaluatorType": "javascript",
        "expression": expression,
        "inputParameters": {"a": GIVEN},
        "decisionCases": {"never": [simple("t1")]},
    }


INLINE = {"name": "inline", "tasks": [simple("z", taskDefinition={"retryCount": "x"})]}


class TestValuesOfExpressions:
    """A value that an expression delivers is looked at where it is used; a wrong one fails its task with a reason."""

    @pytest.mark.parametrize(
        ("task", "value", "said"),
        [
            (sub(name="victim", taskToDomain={"*": GIVEN}), 1, "gives '*' the domain '1'; it must be a string"),
            (sub(name="victim", version=GIVEN), 10**24, "version of a sub-workflow is '1000000000000000000000000'"),
            (sub(name="victim", version=GIVEN), -1, "from 0 to 2147483647"),
            (sub(name="victim", version=GIVEN), 1e300, "version of a sub-workflow is '1e+300'"),
            (sub(name="victim", priority=GIVEN), 1e300, "a whole number from 0 to 99"),
            (sub(name="victim", version=GIVEN), "9" * 5000, "99..."),
            (sub(name=GIVEN), ["x" * 1000], "it must be a string"),
            (sub(name="i", workflowDefinition=GIVEN), INLINE, "taskDefinition"),
            (sub(name="i", workflowDefinition=GIVEN), {**INLINE, "version": 2**63}, "from 1 to 2147483647"),
        ],
    )
    def test_a_wrong_one_fails_its_task(self, harness: Harness, task: dict[str, Any], value: Any, said: str) -> None:
        harness.workflow_def("victim", simple("vt"))
        harness.workflow_def("p", WAIT, task)
        workflow = harness.start("p", input={"v": value})
        harness.advance(1)
        found = harness.workflow(workflow)
        assert found["status"] == "FAILED"
        failed = found["tasks"][-1]
        assert (failed["referenceTaskName"], failed["status"]) == ("s", "FAILED_WITH_TERMINAL_ERROR")
        assert said in failed["reasonForIncompletion"]
        assert said in found["reasonForIncompletion"]

    def test_a_domain_that_an_expression_did_not_find_is_none(self, harness: Harness) -> None:
        harness.workflow_def("victim", simple("vt"))
        harness.workflow_def("p", sub(name="victim", taskToDomain={"*": "${workflow.input.none}"}))
        harness.start("p")
        assert len(harness.poll("vt")) == 1

    @pytest.mark.parametrize(
        "expression",
        ["'' + $.a * $.a * $.a", "$.a - $.a", "9" * 5000 + " > 1 ? 'big' : 'small'", "'' + 9007199254740991 * 10"],
    )
    def test_numbers_that_only_javascript_knows_wait_for_the_engine_a08(
        self, harness: Harness, expression: str
    ) -> None:
        harness.workflow_def("p", script(expression))
        (task,) = harness.workflow(harness.start("p", input={"v": int("9" * 1500)}))["tasks"]
        assert (task["status"], task["outputData"]) == ("IN_PROGRESS", {})


class Poison(RuntimeError):
    """Simulates a bug of the coordinator that the data of one workflow triggers."""


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workflows with the input {"poison": ...} cannot be decided; with "unreadable" they cannot even be read."""
    decide, load_state = executions.decide, executions.load_state  # type: ignore[attr-defined]

    def decide_or_die(state: Any, *args: Any, **more: Any) -> Any:
        if state.input.get("poison") and list(state.tasks.pending()):
            raise {"recursion": RecursionError, "memory": MemoryError}.get(state.input["poison"], Poison)("boo")
        return decide(state, *args, **more)

    def load_or_die(*args: Any) -> Any:
        state = load_state(*args)
        if state.input.get("unreadable") and list(state.tasks.pending()):
            raise Poison("unreadable")
        return state

    monkeypatch.setattr(executions, "decide", decide_or_die)
    monkeypatch.setattr(executions, "load_state", load_or_die)


@pytest.mark.usefixtures("poisoned")
class TestWhateverGoesWrong:
    @pytest.mark.parametrize("poison", ["poison", "unreadable"])
    def test_an_error_ends_its_workflow_and_no_other(
        self, harness: Harness, poison: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        harness.workflow_def("p", WAIT, simple("never"))
        bad, good = harness.start("p", input={poison: "x"}), harness.start_one()
        harness.clock.advance(1)
        with caplog.at_level(logging.ERROR):
            assert [task["workflowInstanceId"] for task in harness.poll()] == [good]
        found = harness.workflow(bad)
        assert found["status"] == "FAILED"
        assert "Poison: " in found["reasonForIncompletion"]
        assert [task["status"] for task in found["tasks"]] == ["CANCELED"]
        first = caplog.records[0]
        assert bad in first.getMessage()
        assert first.exc_info is not None

    @pytest.mark.parametrize("poison", ["recursion", "memory"])
    def test_a_reason_for_people(self, harness: Harness, poison: str) -> None:
        harness.workflow_def("p", WAIT)
        bad = harness.start("p", input={"poison": poison})
        harness.advance(1)
        assert "its data" in harness.workflow(bad)["reasonForIncompletion"]

    @pytest.mark.parametrize("poison", ["poison", "unreadable"])
    def test_a_report_that_is_right_is_committed_and_its_result_kept(self, harness: Harness, poison: str) -> None:
        bad = harness.start_one(input={poison: "x"})
        task = harness.poll_one()
        assert (harness.report(task, outputData={"x": 1}).verdict, harness.report(task).status) == ("COMMITTED", 409)
        assert harness.task(task["taskId"])["status"] == "COMPLETED"
        assert harness.task(task["taskId"])["outputData"] == {"x": 1}
        assert harness.workflow(bad)["status"] == "FAILED"

    @pytest.mark.parametrize("poison", ["poison", "unreadable"])
    def test_a_parent_is_told(self, harness: Harness, poison: str) -> None:
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", {**sub(name="child"), "inputParameters": {poison: "x"}})
        top = harness.start("top")
        harness.report(harness.poll_one())
        found = harness.workflow(top)
        assert found["status"] == "FAILED"
        assert "Poison" in found["tasks"][0]["reasonForIncompletion"]

    @pytest.mark.parametrize("poison", ["poison", "unreadable"])
    def test_children_end_with_it(self, harness: Harness, poison: str) -> None:
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", {**sub(name="child"), "inputParameters": {}})
        top = harness.start("top", input={poison: "x"})
        child = harness.workflow(top)["tasks"][0]["subWorkflowId"]
        harness.store.call(lambda tx: harness.core.workflows.executions.advance(tx, [tx.ids.workflow_pk(top) or 0]))
        assert harness.workflow(top)["status"] == "FAILED"
        assert harness.workflow(child)["status"] == "TERMINATED"
        assert harness.poll() == []

    def test_a_workflow_ended_by_an_error_can_be_retried_when_the_cause_is_gone(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.workflow_def("p", simple("work"), simple("after"))
        bad = harness.start("p", input={"unreadable": "x"})
        harness.report(harness.poll_one())
        monkeypatch.undo()
        harness.act(bad, workflow_actions.retry)
        harness.report(harness.poll_one("after"))
        assert harness.workflow(bad)["status"] == "COMPLETED"

    def test_an_action_on_a_workflow_ended_by_an_error_changes_nothing(self, harness: Harness) -> None:
        workflow = harness.start_one(input={"poison": "x"})
        harness.report(harness.poll_one())
        before = harness.workflow(workflow)

        def action(*_: Any) -> Any:
            raise Poison("boo")

        with pytest.raises(Poison):
            harness.act(workflow, action)
        assert harness.workflow(workflow) == before


class TestTheTimer:
    def test_the_timer_survives_whatever_happens_and_start_too(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.task_def("work", responseTimeoutSeconds=1, retryCount=0)
        workflow = harness.start_one()
        harness.poll()
        harness.clock.advance(2)
        expire, failures = deadlines.Deadlines.apply, [StoreError("full"), KeyError("a bug of ours")]

        def failing(self: Any, tx: Any, limit: int) -> Any:
            if failures:
                raise failures.pop()
            return expire(self, tx, limit)

        monkeypatch.setattr(deadlines.Deadlines, "apply", failing)

        async def run() -> None:
            await harness.core.start()
            while failures or (await asyncio.to_thread(harness.workflow, workflow))["status"] == "RUNNING":
                harness.clock.advance(2)
                await asyncio.sleep(0)
            await harness.core.stop()

        asyncio.run(run())
        assert not failures
        assert harness.workflow(workflow)["status"] == "TIMED_OUT"


class TestChains:
    @pytest.mark.parametrize("names", [("f1", "f1"), ("f1", "f2")], ids=["itself", "each other"])
    def test_a_failure_workflow_that_fails_starts_no_other(
        self, harness: Harness, names: tuple[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        harness.task_def("work", retryCount=0)
        first, second = names
        harness.workflow_def(first, simple("work"), failureWorkflow=second)
        if first != second:
            harness.workflow_def(second, simple("work"), failureWorkflow=first)
        harness.start(first)
        harness.report(harness.poll_one(), "FAILED")
        harness.report(harness.poll_one(), "FAILED")
        assert harness.poll() == []
        assert "Failure workflow not started, because a failure workflow has failed" in caplog.text

    def test_a_chain_through_failure_workflows_comes_to_an_end(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"), failureWorkflow="handler")
        harness.workflow_def("handler", sub(name="child"))
        harness.start("child")
        for _ in range(2):
            harness.report(harness.poll_one(), "FAILED")
        assert harness.poll() == []

    def test_a_sub_workflow_that_starts_itself_comes_to_an_end(self, harness: Harness) -> None:
        harness.workflow_def("again", sub(name="again"))
        top = harness.start("again")
        while (due := harness.tick()) is not None and due <= harness.clock.wall_ms():
            pass
        found = harness.workflow(top)
        assert found["status"] == "FAILED"
        assert "nested more than 100 deep" in found["reasonForIncompletion"]
        assert harness.store.call(lambda tx: tx.first(WORKFLOW, 101)) is None

    def test_a_deep_family_can_be_terminated(self, harness: Harness) -> None:
        harness.workflow_def("leaf", simple("work"))
        below = "leaf"
        for depth in range(99):
            harness.workflow_def(f"w{depth}", sub(name=below))
            below = f"w{depth}"
        top = harness.start(below)
        while harness.poll() == []:
            harness.tick()
        harness.act(top, workflow_actions.terminate, reason="enough")
        leaf = harness.store.call(lambda tx: tx.ids.workflow(100))
        assert harness.workflow(leaf)["workflowName"] == "leaf"
        assert harness.workflow(leaf)["status"] == "TERMINATED"


def test_a_running_sub_workflow_task_says_which_workflow_it_waits_for(harness: Harness) -> None:
    harness.workflow_def("child", simple("work"))
    harness.workflow_def("top", sub(name="child"))
    (task,) = harness.workflow(harness.start("top"))["tasks"]
    assert task["outputData"] == {"subWorkflowId": task["subWorkflowId"]}


@pytest.mark.parametrize("field", ["version", "timeoutSeconds"])
def test_numbers_beyond_those_of_conductor_are_refused(harness: Harness, field: str) -> None:
    with pytest.raises(Exception, match="Validation failed"):
        harness.workflow_def("p", simple("a"), **{field: 2**63})
    with pytest.raises(Exception, match="Validation failed"):
        harness.workflow_def("p", simple("a", startDelay=10**18))


def test_a_lease_id_with_endless_digits_is_unknown(harness: Harness) -> None:
    harness.start_one()
    task = harness.poll_one()
    assert harness.report(task, leaseId="f" * 100_000 + "-0").status == 404


MB = 1024 * 1024


def set_variable(ref: str, **given: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "SET_VARIABLE", "inputParameters": given}


class TestSizes:
    """A few expressions can build more than fits into memory: the limit is that of a request's body."""

    def failed(self, harness: Harness, workflow: str) -> dict[str, Any]:
        harness.settle()
        found = harness.workflow(workflow)
        assert found["status"] == "FAILED"
        assert "would be larger than 10485760 bytes" in found["reasonForIncompletion"]
        return found

    def test_variables_that_double_fail_the_workflow(self, harness: Harness) -> None:
        first = set_variable("s0", a="x" * 1000)
        more = [set_variable(f"s{n}", a=["${workflow.variables.a}"] * 4) for n in range(1, 20)]
        harness.workflow_def("grow", first, *more)
        found = self.failed(harness, harness.start("grow"))
        assert [task["status"] for task in found["tasks"]] == ["COMPLETED"] * 7 + ["FAILED_WITH_TERMINAL_ERROR"]

    def test_variables_that_are_too_large_together_fail_the_workflow(self, harness: Harness) -> None:
        harness.workflow_def("grow", *[set_variable(f"s{n}", **{f"a{n}": GIVEN}) for n in range(4)])
        self.failed(harness, harness.start("grow", input={"v": "x" * (4 * MB)}))

    @pytest.mark.parametrize(
        "given",
        [{f"a{n}": GIVEN for n in range(100)}, {"a": GIVEN * 100}, {f"a{n}": f"-{GIVEN}" for n in range(100)}],
        ids=["values", "one text", "texts"],
    )
    def test_a_task_input_that_is_too_large_fails_the_workflow(self, harness: Harness, given: dict[str, str]) -> None:
        harness.workflow_def("grow", simple("work", inputParameters=given))
        (task,) = self.failed(harness, harness.start("grow", input={"v": "x" * (5 * MB)}))["tasks"]
        assert (task["status"], task["inputData"]) == ("FAILED_WITH_TERMINAL_ERROR", {})
        assert "the input of work" in task["reasonForIncompletion"]

    def test_an_optional_task_may_fail_of_it(self, harness: Harness) -> None:
        grown = simple("work", inputParameters={"a": [GIVEN] * 3}, optional=True)
        harness.workflow_def("grow", grown, simple("after"))
        harness.start("grow", input={"v": "x" * (5 * MB)})
        assert len(harness.poll("after")) == 1

    def test_a_workflow_output_that_is_too_large_fails_the_workflow(self, harness: Harness) -> None:
        harness.workflow_def("grow", simple("work"), outputParameters={"a": [GIVEN] * 3})
        workflow = harness.start("grow", input={"v": "x" * (5 * MB)})
        harness.report(harness.poll_one())
        assert self.failed(harness, workflow)["output"] == {}

    def test_a_join_output_that_is_too_large_fails_the_workflow(self, harness: Harness) -> None:
        harness.workflow_def("grow", *fork("f", *[[simple("work", f"b{n}")] for n in range(3)]))
        workflow = harness.start("grow")
        for task in harness.poll(count=3):
            harness.report(task, outputData={"x": "x" * (4 * MB)})
        assert self.failed(harness, workflow)["tasks"][-1]["outputData"] == {}

    def test_a_loop_output_that_is_too_large_fails_the_workflow(self, harness: Harness) -> None:
        harness.workflow_def("grow", loop("l", "$.l.iteration < 9", simple("work")))
        workflow = harness.start("grow")
        for _ in range(3):
            harness.report(harness.poll_one(), outputData={"x": "x" * (4 * MB)})
        assert "keepLastN" in self.failed(harness, workflow)["reasonForIncompletion"]

    @pytest.mark.parametrize(("size", "tasks"), [(1, 2), (6, 0)])
    def test_the_input_of_a_failure_workflow_has_a_bounded_size(self, harness: Harness, size: int, tasks: int) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def(
            "handler", simple("handle", inputParameters={"n": "${workflow.input.failedWorkflow.tasks.length()}"})
        )
        harness.workflow_def("grow", simple("work", "a"), simple("work", "b"), failureWorkflow="handler")
        harness.start("grow")
        for status in ("COMPLETED", "FAILED"):
            harness.report(harness.poll_one(), status, outputData={"x": "x" * (size * MB)})
        assert harness.poll_one("handle")["inputData"] == {"n": tasks}
