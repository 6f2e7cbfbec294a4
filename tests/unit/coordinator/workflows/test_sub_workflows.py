"""Sub-workflows and their parents, failure workflows, and other effects of a workflow's end on another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.tasks.task_report import Report
from conductor.coordinator.workflows import executions, stored_tasks
from conductor.coordinator.workflows import workflow_actions as workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import fork, loop


def sub(name: str, ref: str = "s", **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": name}, **more}


def retry(harness: Harness, workflow: str) -> None:
    harness.act(workflow, workflow_actions.retry)


def remove(harness: Harness, workflow: str) -> None:
    executions = harness.core.workflows.executions
    harness.store.call(lambda tx: executions.remove(tx, find_workflow(tx, workflow)))


class TestFamilies:
    def child_of(self, harness: Harness, workflow: str, ref: str = "s") -> str:
        (task,) = [one for one in harness.workflow(workflow)["tasks"] if one["referenceTaskName"] == ref]
        return str(task["subWorkflowId"])

    def test_a_retried_sub_workflow_reopens_every_parent_that_failed_with_it(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("middle", sub("child"))
        harness.workflow_def("top", sub("middle"), simple("last"))
        top = harness.start("top")
        middle = self.child_of(harness, top)
        child = self.child_of(harness, middle)
        harness.report(harness.poll_one(), "FAILED")
        assert [harness.workflow(one)["status"] for one in (child, middle, top)] == ["FAILED"] * 3
        retry(harness, child)
        assert [harness.workflow(one)["status"] for one in (child, middle, top)] == ["RUNNING"] * 3
        assert self.child_of(harness, middle) == child, "the same task waits for the same sub-workflow"
        harness.report(harness.poll_one())
        harness.report(harness.poll_one("last"))
        assert [harness.workflow(one)["status"] for one in (child, middle, top)] == ["COMPLETED"] * 3

    def test_branches_that_were_cancelled_with_it_are_tried_again(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", *fork("f", [sub("child")], [simple("other")]))
        top = harness.start("top")
        harness.report(harness.poll_one(), "FAILED")
        assert harness.poll("other") == []
        retry(harness, self.child_of(harness, top))
        harness.report(harness.poll_one("other"))
        harness.report(harness.poll_one())
        assert harness.workflow(top)["status"] == "COMPLETED"

    def test_a_parent_that_went_on_without_it_stays_as_it_is(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", sub("child", optional=True))
        top = harness.start("top")
        child = self.child_of(harness, top)
        harness.report(harness.poll_one(), "FAILED")
        before = harness.workflow(top)
        retry(harness, child)
        assert harness.workflow(top) == before
        harness.report(harness.poll_one())
        assert harness.workflow(child)["status"] == "COMPLETED"
        assert harness.workflow(top) == before

    @pytest.mark.parametrize(("said", "told"), [("enough", "reason: enough"), (None, "status TERMINATED")])
    def test_a_child_is_told_why_its_parent_ended(self, harness: Harness, said: str | None, told: str) -> None:
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", sub("child"))
        top = harness.start("top")
        child = self.child_of(harness, top)
        harness.act(top, workflow_actions.terminate, reason=said)
        found = harness.workflow(child)
        assert found["status"] == "TERMINATED"
        assert found["reasonForIncompletion"] == f"Parent workflow has been terminated with {told}"

    def test_a_removed_running_child_ends_the_task_that_waits_for_it(self, harness: Harness) -> None:
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", sub("child"))
        top = harness.start("top")
        remove(harness, self.child_of(harness, top))
        found = harness.workflow(top)
        assert found["status"] == "TERMINATED"
        assert "the workflow was removed" in found["tasks"][0]["reasonForIncompletion"]

    def test_the_children_of_a_removed_running_workflow_are_terminated(self, harness: Harness) -> None:
        harness.workflow_def("child", simple("work"))
        harness.workflow_def("top", sub("child"))
        top = harness.start("top")
        child = self.child_of(harness, top)
        remove(harness, top)
        harness.settle()
        assert harness.workflow(child)["status"] == "TERMINATED"
        assert harness.poll() == []

    def test_a_failure_workflow_is_given_the_workflow_that_failed(self, harness: Harness) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("cleanup", simple("tidy"))
        harness.workflow_def("flow", simple("work"), failureWorkflow="cleanup")
        workflow = harness.start("flow", input={"order": 7})
        task = harness.poll_one()
        harness.report(task, "FAILED", outputData={"half": "done"})
        started = harness.workflow(harness.workflow(workflow)["output"]["conductor.failure_workflow"])
        failed = started["input"]["failedWorkflow"]
        assert (failed["workflowId"], failed["status"], failed["input"]) == (workflow, "FAILED", {"order": 7})
        assert [(one["taskId"], one["outputData"]) for one in failed["tasks"]] == [(task["taskId"], {"half": "done"})]


def test_an_ended_workflow_that_is_terminated_again_has_no_deadline(harness: Harness) -> None:
    harness.workflow_def("flow", simple("work"), timeoutSeconds=5, timeoutPolicy="TIME_OUT_WF")
    workflow = harness.start("flow")
    for _ in range(2):
        harness.act(workflow, workflow_actions.terminate, reason="enough")
    harness.clock.advance(10)
    assert harness.tick() is None
    assert harness.workflow(workflow)["status"] == "TERMINATED"


def test_a_name_that_only_looks_like_a_round_is_none(harness: Harness) -> None:
    loop = {
        "name": "loop",
        "taskReferenceName": "loop",
        "type": "DO_WHILE",
        "loopCondition": "$.loop['iteration'] < 2",
        "loopOver": [simple("work", "a")],
    }
    last = simple("last", inputParameters={"x": "${a.output.x}"})
    harness.workflow_def("flow", loop, simple("odd", "a__1x"), last)
    harness.start("flow")
    for n in (1, 2):
        harness.report(harness.poll_one(), outputData={"x": n})
    harness.report(harness.poll_one("odd"), outputData={"x": "wrong"})
    assert harness.poll_one("last")["inputData"] == {"x": 2}


class TestWideForks:
    """The cost of a report must not grow with the number of open tasks."""

    WIDTH = 300

    def wide(self, harness: Harness) -> tuple[str, list[Any]]:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("wide", *fork("f", *[[simple("work", f"b{n}")] for n in range(self.WIDTH)]))
        return harness.start("wide"), harness.poll(count=self.WIDTH)

    def reports(self, tasks: list[Any], **more: Any) -> list[Report]:
        keys = ("taskId", "workflowInstanceId", "leaseId")
        return [
            msgspec.convert({key: task[key] for key in keys} | {"status": "COMPLETED"} | more, Report) for task in tasks
        ]

    def test_reports_that_come_together_are_decided_on_together(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workflow, tasks = self.wide(harness)
        decide, decided = executions.decide, []  # type: ignore[attr-defined]

        def counting(state: Any, *args: Any, **more: Any) -> Any:
            decided.append(state.workflow_id)
            return decide(state, *args, **more)

        monkeypatch.setattr(executions, "decide", counting)
        outcomes = harness.store.call(lambda tx: harness.core.tasks.judge(tx, self.reports(tasks)))
        assert {outcome.verdict for outcome in outcomes} == {"COMMITTED"}
        assert decided == [workflow]
        assert harness.workflow(workflow)["status"] == "COMPLETED"

    def test_each_is_still_judged_by_itself(self, harness: Harness) -> None:
        workflow, (first, second, third, *_) = self.wide(harness)
        reports = [
            *self.reports([first]),
            *self.reports([second], leaseId="1-nonsense"),
            *self.reports([first], reportId="another"),
            *self.reports([first], taskId="unknown"),
            *self.reports([second], status="FAILED"),
            *self.reports([third]),
        ]
        outcomes = harness.store.call(lambda tx: harness.core.tasks.judge(tx, reports))
        assert [outcome.status for outcome in outcomes] == [200, 404, 409, 404, 200, 200]
        found = harness.workflow(workflow)
        assert found["status"] == "FAILED"
        assert [task["status"] for task in found["tasks"][1:4]] == ["COMPLETED", "FAILED", "COMPLETED"]
        assert {task["status"] for task in found["tasks"][4:]} == {"CANCELED"}

    def test_a_report_reads_no_task_that_is_still_to_be_done(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, tasks = self.wide(harness)
        read, state = [], stored_tasks._decode_task

        def counting(*args: Any) -> Any:
            read.append(args[1])
            return state(*args)

        monkeypatch.setattr(stored_tasks, "_decode_task", counting)
        harness.report(tasks[0])
        assert len(read) <= 3


class TestFields:
    """Fields of a SUB_WORKFLOW task and of a definition that have an effect."""

    def sub_task(self, harness: Harness, workflow: str) -> dict[str, Any]:
        (found,) = harness.workflow(workflow)["tasks"]
        return dict(found)

    def test_the_version_that_was_meant_is_shown(self, harness: Harness) -> None:
        for version in (1, 2):
            harness.workflow_def("child", simple("work"), version=version)
        harness.workflow_def("top", loop("l", "false", sub("child")))
        workflow = harness.workflow(harness.start("top"))
        found = workflow["tasks"][1]
        assert found["workflowTask"]["subWorkflowParam"] == {"name": "child", "version": 2}
        assert found["inputData"]["subWorkflowVersion"] == 2
        assert workflow["workflowDefinition"]["tasks"][0]["loopOver"][0]["subWorkflowParam"]["version"] == 2
        assert harness.workflow(found["subWorkflowId"])["workflowVersion"] == 2

    @pytest.mark.parametrize(("asked", "ran"), [(1, "one"), (None, "two"), (9, None)])
    def test_the_version_of_the_failure_workflow(self, harness: Harness, asked: int | None, ran: str | None) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("cleanup", simple("one"), version=1)
        harness.workflow_def("cleanup", simple("two"), version=2)
        harness.workflow_def("flow", simple("work"), failureWorkflow="cleanup", failureWorkflowVersion=asked)
        workflow = harness.start("flow")
        harness.report(harness.poll_one(), "FAILED")
        assert [name for name in ("one", "two") if harness.poll(name)] == ([ran] if ran else [])
        told = harness.workflow(workflow)["output"]["conductor.failure_workflow"]
        assert ran or "Error workflow cleanup failed to start.  reason: No such workflow defined." in told

    def keyed(self, harness: Harness, strategy: str | None = None, **more: Any) -> None:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("child", simple("work"), outputParameters={"n": "${work.output.n}"})
        parameters = {"name": "child", "idempotencyKey": "order-${workflow.input.n}", "idempotencyStrategy": strategy}
        harness.workflow_def("top", sub("child", subWorkflowParam=parameters, **more))

    def test_a_second_task_with_the_same_key_waits_for_the_same_sub_workflow(self, harness: Harness) -> None:
        self.keyed(harness)
        tops = [harness.start("top", input={"n": n}) for n in (1, 1, 2)]
        first, second, other = (self.sub_task(harness, top) for top in tops)
        assert first["inputData"]["idempotencyKey"] == "order-1"
        assert first["subWorkflowId"] == second["subWorkflowId"] != other["subWorkflowId"]
        assert harness.workflow(first["subWorkflowId"])["idempotencyKey"] == "order-1"
        held = harness.poll(count=9)
        assert len(held) == 2
        for task in held:
            harness.report(task, outputData={"n": 5})
        assert [harness.workflow(top)["status"] for top in tops] == ["COMPLETED"] * 3
        assert self.sub_task(harness, tops[1])["outputData"]["n"] == 5
        late = harness.start("top", input={"n": 1})
        assert harness.workflow(late)["status"] == "COMPLETED", "its result is there already"
        assert harness.poll() == []

    def test_a_parent_that_shares_a_sub_workflow_does_not_end_it(self, harness: Harness) -> None:
        self.keyed(harness)
        owner, guest = harness.start("top", input={"n": 1}), harness.start("top", input={"n": 1})
        harness.act(guest, workflow_actions.terminate, reason="enough")
        child = self.sub_task(harness, owner)["subWorkflowId"]
        assert harness.workflow(child)["status"] == "RUNNING"
        harness.report(harness.poll_one())
        assert harness.workflow(owner)["status"] == "COMPLETED"

    @pytest.mark.parametrize(("strategy", "running", "ended"), [("FAIL", 1, 1), ("FAIL_ON_RUNNING", 1, 0)])
    def test_a_strategy_that_refuses_fails_the_task(
        self, harness: Harness, strategy: str, running: int, ended: int
    ) -> None:
        self.keyed(harness, strategy)
        harness.start("top", input={"n": 1})
        refused = harness.workflow(harness.start("top", input={"n": 1}))
        assert (refused["status"] == "FAILED") == bool(running)
        assert "idempotency key order-1 already exists" in refused["tasks"][0]["reasonForIncompletion"]
        harness.report(harness.poll_one())
        assert (harness.workflow(harness.start("top", input={"n": 1}))["status"] == "FAILED") == bool(ended)

    def test_a_new_attempt_is_one_although_its_key_is_the_same(self, harness: Harness) -> None:
        self.keyed(harness, retryCount=1)
        top = harness.start("top", input={"n": 1})
        harness.report(harness.poll_one(), "FAILED")
        harness.advance(60)
        harness.report(harness.poll_one())
        assert harness.workflow(top)["status"] == "COMPLETED"
