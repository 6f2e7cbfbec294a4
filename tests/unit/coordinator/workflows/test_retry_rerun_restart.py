"""Retry, rerun and restart of workflows with sub-workflows give the task lists of a Conductor server."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.coordinator.limits import MAX_SUB_WORKFLOW_DEPTH
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.lookup import find_workflow, remove_workflow
from conductor.coordinator.workflows import workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import fork, loop, switch, task


def sub(name: str, ref: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": name}, **more}


def rerun(harness: Harness, workflow: str, **asked: Any) -> None:
    harness.store.call(lambda tx: harness.core.workflows.executions.rerun(tx, find_workflow(tx, workflow), **asked))


class Family:
    """A fork of two sub-workflows: one that fails in `f`, and one that has done `a` and is cancelled in `b`."""

    def __init__(self, harness: Harness, *, looped: bool = False, beside: list[Any] | None = None) -> None:
        self.harness = harness
        for name in ("f", "a", "b"):
            harness.task_def(name, retryCount=0)
        harness.workflow_def("F", simple("f"))
        harness.workflow_def("C", simple("a"), simple("b"))
        forked = fork("fork", [sub("F", "subF")], [sub("C", "subC")], *([beside] if beside else []))
        harness.workflow_def("P", *([loop("l", "$.l['iteration'] < 1", *forked)] if looped else forked))
        self.round = "__1" if looped else ""
        self.parent = harness.start("P")
        self.failed, self.cancelled = self.child("subF"), self.child("subC")
        self.do("a")
        self.before = self.tasks(self.parent)

    def task(self, workflow: str, ref: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.harness.workflow(workflow)["tasks"]
        return [one for one in found if one["referenceTaskName"] == ref][-1]

    def tasks(self, workflow: str) -> list[tuple[str, str, str, int]]:
        found = self.harness.workflow(workflow)["tasks"]
        return [(one["referenceTaskName"], one["status"], one["taskId"], one["retryCount"]) for one in found]

    def child(self, ref: str) -> str:
        return str(self.task(self.parent, ref + self.round)["subWorkflowId"])

    def do(self, name: str, status: str = "COMPLETED") -> None:
        self.harness.report(self.harness.poll_one(name), status)

    def fail(self) -> Family:
        self.do("f", "FAILED")
        assert [self.status(one) for one in (self.parent, self.failed, self.cancelled)] == [
            "FAILED",
            "FAILED",
            "TERMINATED",
        ]
        return self

    def status(self, workflow: str) -> str:
        return str(self.harness.workflow(workflow)["status"])

    def check_all_go_on(self) -> None:
        """Every task of the parent is the one it was before, and the children are the ones they were."""
        assert [self.status(one) for one in (self.parent, self.failed, self.cancelled)] == ["RUNNING"] * 3
        assert self.tasks(self.parent) == self.before
        assert (self.child("subF"), self.child("subC")) == (self.failed, self.cancelled)
        found = self.harness.workflow(self.parent)["tasks"]
        assert all("reasonForIncompletion" not in one for one in found)

    def check_done_once(self) -> None:
        """The remaining tasks run, and completed tasks do not run again."""
        assert self.harness.poll("a") == []
        self.do("f")
        self.do("b")
        assert [self.status(one) for one in (self.failed, self.cancelled, self.parent)] == ["COMPLETED"] * 3


def retried_in_child(family: Family) -> None:
    family.harness.act(family.failed, workflow_actions.retry, resume=False)


def retried_in_parent(family: Family) -> None:
    family.harness.act(family.parent, workflow_actions.retry, resume=True)


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("recover", [retried_in_child, retried_in_parent])
def test_a_retry_resumes_the_failed_child_and_the_cancelled_one_in_place(
    harness: Harness, recover: Any, looped: bool
) -> None:
    family = Family(harness, looped=looped).fail()
    done = family.task(family.cancelled, "a")
    recover(family)
    family.check_all_go_on()
    assert [(ref, status, count) for ref, status, _, count in family.tasks(family.failed)] == [
        ("f", "FAILED", 0),
        ("f", "SCHEDULED", 1),
    ]
    assert [(ref, status, count) for ref, status, _, count in family.tasks(family.cancelled)] == [
        ("a", "COMPLETED", 0),
        ("b", "CANCELED", 0),
        ("b", "SCHEDULED", 1),
    ]
    assert family.task(family.cancelled, "a") == done
    assert harness.workflow(family.cancelled)["lastRetriedTime"] > 0
    family.check_done_once()


def test_a_retry_without_the_flag_starts_new_children(harness: Harness) -> None:
    family = Family(harness).fail()
    harness.act(family.parent, workflow_actions.retry, resume=False)
    found = harness.workflow(family.parent)["tasks"]
    assert [(one["referenceTaskName"], one["status"], one["retryCount"], one["retried"]) for one in found] == [
        ("fork", "COMPLETED", 0, False),
        ("subF", "FAILED", 0, True),
        ("subC", "CANCELED", 0, True),
        ("fork_join", "IN_PROGRESS", 1, False),
        ("subF", "IN_PROGRESS", 1, False),
        ("subC", "IN_PROGRESS", 1, False),
    ]
    assert family.child("subF") != family.failed
    for name in ("f", "a", "b"):
        family.do(name)
    assert family.status(family.parent) == "COMPLETED"


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("through_parent", [False, True])
def test_a_rerun_of_a_childs_task_keeps_its_id_and_resumes_the_sibling(
    harness: Harness, through_parent: bool, looped: bool
) -> None:
    family = Family(harness, looped=looped).fail()
    failed = family.task(family.failed, "f")["taskId"]
    rerun(harness, family.parent if through_parent else family.failed, task_id=failed)
    family.check_all_go_on()
    assert family.tasks(family.failed) == [("f", "SCHEDULED", failed, 0)]
    family.check_done_once()


def test_a_rerun_of_the_cancelled_child_resumes_the_failed_one(harness: Harness) -> None:
    family = Family(harness).fail()
    cancelled = family.task(family.cancelled, "b")["taskId"]
    rerun(harness, family.cancelled, task_id=cancelled)
    family.check_all_go_on()
    assert [one[:2] for one in family.tasks(family.cancelled)] == [("a", "COMPLETED"), ("b", "SCHEDULED")]
    assert [one[:2] for one in family.tasks(family.failed)] == [("f", "FAILED"), ("f", "SCHEDULED")]
    family.check_done_once()


@pytest.mark.parametrize("how", ["retry", "rerun"])
def test_a_cancelled_task_of_the_parent_is_put_back_in_place(harness: Harness, how: str) -> None:
    family = Family(harness, beside=[simple("sib")])
    held = harness.poll_one("sib")
    family.do("f", "FAILED")
    for cycle in (1, 2, 3):
        if how == "retry":
            harness.act(family.failed, workflow_actions.retry, resume=False)
        else:
            rerun(harness, family.failed, task_id=family.task(family.failed, "f")["taskId"])
        sibling = [one for one in family.tasks(family.parent) if one[0] == "sib"]
        assert sibling == [("sib", "SCHEDULED", held["taskId"], cycle)]
        if cycle < 3:
            family.do("f", "FAILED")
    late = harness.report(held)
    assert late.verdict == "CANCELLED", "the lease of the first run has ended, and does not come back"
    family.do("sib")
    family.check_done_once()


def test_the_lease_of_a_task_does_not_survive_its_rerun(harness: Harness) -> None:
    workflow = harness.start_one("work", task_def={"retryCount": 0})
    first = harness.poll_one(worker="w1")
    harness.report(first, "FAILED")
    rerun(harness, workflow, task_id=first["taskId"])
    without_lease = {key: first[key] for key in ("taskId", "workflowInstanceId", "workerId")}
    assert harness.send({**without_lease, "status": "COMPLETED"}).verdict == "CANCELLED"
    assert harness.report(first).status == 409
    second = harness.poll_one(worker="w1")
    assert (second["taskId"], second["pollCount"]) == (first["taskId"], 1)
    assert second["leaseId"] != first["leaseId"]
    assert harness.report(second).verdict == "COMMITTED"
    assert harness.workflow(workflow)["status"] == "COMPLETED"


def test_rerun_with_another_input_and_correlation_id(harness: Harness) -> None:
    given = simple("work", inputParameters={"x": "${workflow.input.x}"})
    harness.workflow_def("flow", given)
    workflow = harness.start("flow", input={"x": 1}, correlation_id="old")
    harness.report(harness.poll_one())
    task_id = harness.workflow(workflow)["tasks"][0]["taskId"]
    rerun(harness, workflow, task_id=task_id, workflow_input={"x": 2}, correlation_id="new")
    found = harness.poll_one()
    assert (found["inputData"], found["correlationId"]) == ({"x": 2}, "new")
    harness.report(found)
    rerun(harness, workflow, task_id=task_id, task_input={"x": 3})
    assert harness.workflow(workflow)["correlationId"] == "new"
    assert harness.poll_one()["inputData"] == {"x": 3}


def test_tasks_after_a_rerun_task_come_after_it_in_the_list(harness: Harness) -> None:
    harness.workflow_def("flow", *[simple(name) for name in "abcd"])
    workflow = harness.start("flow")
    for name in "abcd":
        harness.report(harness.poll_one(name))
    for _ in range(2):
        target = harness.workflow(workflow)["tasks"][1]["taskId"]
        rerun(harness, workflow, task_id=target)
        for name in "bcd":
            harness.report(harness.poll_one(name))
    tasks = harness.workflow(workflow)["tasks"]
    assert [(one["referenceTaskName"], one["seq"]) for one in tasks] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_a_rerun_through_the_parent_changes_the_parents_input(harness: Harness) -> None:
    family = Family(harness).fail()
    failed = family.task(family.failed, "f")["taskId"]
    rerun(harness, family.parent, task_id=failed, task_input={"t": 1}, workflow_input={"p": 1}, correlation_id="c")
    parent = harness.workflow(family.parent)
    assert (parent["input"], parent["correlationId"]) == ({"p": 1}, "c")
    assert harness.workflow(family.failed)["input"] == {}
    assert harness.poll_one("f")["inputData"] == {"t": 1}


def test_a_rerun_of_a_strangers_task_is_refused(harness: Harness) -> None:
    family, other = Family(harness).fail(), harness.start_one("other")
    with pytest.raises(ApiError, match="is not part of") as refused:
        rerun(harness, family.parent, task_id=harness.poll_one("other")["taskId"])
    assert refused.value.status == 400
    with pytest.raises(ApiError, match="not in terminal state, unable to rerun: wait for its end, or term") as refused:
        rerun(harness, other, task_id=family.task(family.failed, "f")["taskId"])
    assert refused.value.status == 409


def test_a_retry_of_the_leaf_brings_every_ancestor_and_every_cancelled_branch_back(harness: Harness) -> None:
    harness.task_def("leaf", retryCount=0)
    harness.workflow_def("side", simple("done"), simple("beside"))
    harness.workflow_def("w0", simple("leaf"))
    for depth in range(1, 4):
        below = [sub(f"w{depth - 1}", "down")]
        harness.workflow_def(f"w{depth}", *fork("fork", below, [sub("side", "side")], [simple("sib")]))
    chain = [harness.start("w3")]
    for _ in range(3):
        tasks = harness.workflow(chain[-1])["tasks"]
        chain.append(next(one["subWorkflowId"] for one in tasks if one["referenceTaskName"] == "down"))
    for found in harness.poll("done", count=3):
        harness.report(found)
    before = [harness.workflow(one)["tasks"] for one in chain[:-1]]
    harness.report(harness.poll_one("leaf"), "FAILED")
    assert {harness.workflow(one)["status"] for one in chain} == {"FAILED"}
    harness.act(chain[-1], workflow_actions.retry, resume=False)
    for workflow, tasks in zip(chain, before, strict=False):
        now = harness.workflow(workflow)
        assert now["status"] == "RUNNING"
        assert [(one["taskId"], one["status"], one.get("subWorkflowId")) for one in now["tasks"]] == [
            (one["taskId"], one["status"], one.get("subWorkflowId")) for one in tasks
        ]
    assert harness.poll("done") == [], "nothing that was done is done again"
    for name in ("leaf", "beside", "sib"):
        for found in harness.poll(name, count=9):
            harness.report(found)
    assert {harness.workflow(one)["status"] for one in chain} == {"COMPLETED"}


def test_the_deepest_family_there_is_can_be_recovered(harness: Harness) -> None:
    harness.task_def("work", retryCount=0)
    harness.workflow_def("d0", simple("work"))
    for depth in range(1, MAX_SUB_WORKFLOW_DEPTH):
        harness.workflow_def(f"d{depth}", sub(f"d{depth - 1}", "down"))
    top = harness.start(f"d{MAX_SUB_WORKFLOW_DEPTH - 1}")
    harness.report(harness.poll_one(), "FAILED")
    harness.settle()
    assert harness.workflow(top)["status"] == "FAILED"
    harness.act(top, workflow_actions.retry, resume=True)
    harness.settle()
    harness.report(harness.poll_one(), "FAILED")
    harness.settle()
    leaf = harness.store.call(lambda tx: tx.select("SELECT max(pk) FROM workflow", ()))[0][0]
    harness.act(harness.store.call(lambda tx: tx.ids.workflow(leaf)), workflow_actions.retry, resume=False)
    harness.settle()
    harness.report(harness.poll_one())
    harness.settle()
    assert harness.workflow(top)["status"] == "COMPLETED"


def test_a_child_that_has_nothing_to_go_on_from_begins_again(harness: Harness) -> None:
    ended = task("t", "TERMINATE", inputParameters={"terminationStatus": "FAILED", "workflowOutput": {"n": 1}})
    wanted = switch("s", "${workflow.variables.seen}", {"yes": [simple("work")]}, [ended])
    harness.workflow_def("child", task("v", "SET_VARIABLE", inputParameters={"n": 1}), wanted)
    harness.workflow_def("top", sub("child", "s"))
    top = harness.start("top")
    child = harness.workflow(top)["tasks"][0]["subWorkflowId"]
    assert harness.workflow(top)["status"] == "FAILED"
    harness.act(top, workflow_actions.retry, resume=True)
    found = harness.workflow(top)
    assert (found["status"], found["tasks"][0]["subWorkflowId"]) == ("FAILED", child)


def test_a_removed_child_is_started_anew(harness: Harness) -> None:
    family = Family(harness).fail()
    harness.store.call(lambda tx: remove_workflow(tx, find_workflow(tx, family.failed).pk))
    harness.act(family.parent, workflow_actions.retry, resume=True)
    assert family.child("subF") != family.failed
    assert family.child("subC") == family.cancelled
    family.do("f")
    family.do("b")
    assert family.status(family.parent) == "COMPLETED"


def test_a_wait_is_waited_for_again_under_its_id(harness: Harness) -> None:
    harness.workflow_def("flow", task("w", "WAIT", inputParameters={"duration": "30 seconds"}))
    workflow = harness.start("flow")
    waiting = harness.workflow(workflow)["tasks"][0]
    assert waiting["callbackAfterSeconds"] == 30
    harness.act(workflow, workflow_actions.terminate)
    harness.clock.advance(100)
    rerun(harness, workflow, task_id=waiting["taskId"])
    (again,) = harness.workflow(workflow)["tasks"]
    assert (again["taskId"], again["callbackAfterSeconds"], again["pollCount"]) == (waiting["taskId"], 30, 0)
    harness.advance(29)
    assert harness.workflow(workflow)["status"] == "RUNNING"
    harness.advance(1)
    assert harness.workflow(workflow)["status"] == "COMPLETED"


def test_a_task_that_was_refused_for_its_input_can_be_rerun_with_a_better_one(harness: Harness) -> None:
    schema = {"name": "s", "version": 1, "type": "JSON", "data": {"type": "object", "required": ["x"]}}
    workflow = harness.start_one("work", task_def={"inputSchema": schema, "enforceSchema": True})
    (refused,) = harness.workflow(workflow)["tasks"]
    assert refused["status"] == "FAILED_WITH_TERMINAL_ERROR"
    rerun(harness, workflow, task_id=refused["taskId"])
    assert harness.workflow(workflow)["status"] == "FAILED"
    rerun(harness, workflow, task_id=refused["taskId"], task_input={"x": 1})
    harness.report(harness.poll_one())
    assert harness.workflow(workflow)["status"] == "COMPLETED"


def test_restart_on_the_latest_definition_shows_its_version(harness: Harness) -> None:
    harness.workflow_def("flow", simple("work"), version=1)
    workflow = harness.start("flow")
    harness.report(harness.poll_one())
    harness.workflow_def("flow", simple("other"), version=2)
    harness.act(workflow, workflow_actions.restart, latest=True)
    found = harness.workflow(workflow)
    assert (found["workflowVersion"], [one["taskType"] for one in found["tasks"]]) == (2, ["other"])
