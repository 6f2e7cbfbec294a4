"""Retry, rerun and restart of families of workflows: the task list afterwards is the one that Conductor shows."""

from __future__ import annotations

from typing import Any

import pytest
from house import House, simple
from workflow_run import fork, loop, switch, task

from conductor.coordinator.limits import MAX_SUB_WORKFLOW_DEPTH
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.lookup import find_workflow, remove_workflow
from conductor.coordinator.workflows import workflow_actions


def sub(name: str, ref: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": name}, **more}


def rerun(house: House, workflow: str, **asked: Any) -> None:
    house.store.call(lambda tx: house.core.executions.rerun(tx, find_workflow(tx, workflow), **asked))


class Family:
    """A fork of two sub-workflows: one that fails in `f`, and one that has done `a` and is cancelled in `b`."""

    def __init__(self, house: House, *, looped: bool = False, beside: list[Any] | None = None) -> None:
        self.house = house
        for name in ("f", "a", "b"):
            house.task_def(name, retryCount=0)
        house.workflow_def("F", simple("f"))
        house.workflow_def("C", simple("a"), simple("b"))
        forked = fork("fork", [sub("F", "subF")], [sub("C", "subC")], *([beside] if beside else []))
        house.workflow_def("P", *([loop("l", "$.l['iteration'] < 1", *forked)] if looped else forked))
        self.round = "__1" if looped else ""
        self.parent = house.start("P")
        self.failed, self.cancelled = self.child("subF"), self.child("subC")
        self.do("a")
        self.before = self.tasks(self.parent)

    def task(self, workflow: str, ref: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.house.workflow(workflow)["tasks"]
        return [one for one in found if one["referenceTaskName"] == ref][-1]

    def tasks(self, workflow: str) -> list[tuple[str, str, str, int]]:
        found = self.house.workflow(workflow)["tasks"]
        return [(one["referenceTaskName"], one["status"], one["taskId"], one["retryCount"]) for one in found]

    def child(self, ref: str) -> str:
        return str(self.task(self.parent, ref + self.round)["subWorkflowId"])

    def do(self, name: str, status: str = "COMPLETED") -> None:
        self.house.report(self.house.poll_one(name), status)

    def fail(self) -> Family:
        self.do("f", "FAILED")
        assert [self.status(one) for one in (self.parent, self.failed, self.cancelled)] == [
            "FAILED",
            "FAILED",
            "TERMINATED",
        ]
        return self

    def status(self, workflow: str) -> str:
        return str(self.house.workflow(workflow)["status"])

    def check_all_go_on(self) -> None:
        """Every task of the parent is the one it was before, and the children are the ones they were."""
        assert [self.status(one) for one in (self.parent, self.failed, self.cancelled)] == ["RUNNING"] * 3
        assert self.tasks(self.parent) == self.before
        assert (self.child("subF"), self.child("subC")) == (self.failed, self.cancelled)
        found = self.house.workflow(self.parent)["tasks"]
        assert all("reasonForIncompletion" not in one for one in found)

    def check_done_once(self) -> None:
        """What is left is done, and what was done before is not done again."""
        assert self.house.poll("a") == []
        self.do("f")
        self.do("b")
        assert [self.status(one) for one in (self.failed, self.cancelled, self.parent)] == ["COMPLETED"] * 3


def retried_in_child(family: Family) -> None:
    family.house.act(family.failed, workflow_actions.retry, resume=False)


def retried_in_parent(family: Family) -> None:
    family.house.act(family.parent, workflow_actions.retry, resume=True)


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("recover", [retried_in_child, retried_in_parent])
def test_f01_a_retry_resumes_the_failed_child_and_the_cancelled_one_in_place(
    house: House, recover: Any, looped: bool
) -> None:
    family = Family(house, looped=looped).fail()
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
    assert house.workflow(family.cancelled)["lastRetriedTime"] > 0
    family.check_done_once()


def test_a_retry_without_the_flag_starts_new_children(house: House) -> None:
    family = Family(house).fail()
    house.act(family.parent, workflow_actions.retry, resume=False)
    found = house.workflow(family.parent)["tasks"]
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
    house: House, through_parent: bool, looped: bool
) -> None:
    family = Family(house, looped=looped).fail()
    failed = family.task(family.failed, "f")["taskId"]
    rerun(house, family.parent if through_parent else family.failed, task_id=failed)
    family.check_all_go_on()
    assert family.tasks(family.failed) == [("f", "SCHEDULED", failed, 0)]
    family.check_done_once()


def test_a_rerun_of_the_cancelled_child_resumes_the_failed_one(house: House) -> None:
    family = Family(house).fail()
    cancelled = family.task(family.cancelled, "b")["taskId"]
    rerun(house, family.cancelled, task_id=cancelled)
    family.check_all_go_on()
    assert [one[:2] for one in family.tasks(family.cancelled)] == [("a", "COMPLETED"), ("b", "SCHEDULED")]
    assert [one[:2] for one in family.tasks(family.failed)] == [("f", "FAILED"), ("f", "SCHEDULED")]
    family.check_done_once()


@pytest.mark.parametrize("how", ["retry", "rerun"])
def test_a_cancelled_task_of_the_parent_is_put_back_in_place(house: House, how: str) -> None:
    family = Family(house, beside=[simple("sib")])
    held = house.poll_one("sib")
    family.do("f", "FAILED")
    for cycle in (1, 2, 3):
        if how == "retry":
            house.act(family.failed, workflow_actions.retry, resume=False)
        else:
            rerun(house, family.failed, task_id=family.task(family.failed, "f")["taskId"])
        sibling = [one for one in family.tasks(family.parent) if one[0] == "sib"]
        assert sibling == [("sib", "SCHEDULED", held["taskId"], cycle)]
        if cycle < 3:
            family.do("f", "FAILED")
    late = house.report(held)
    assert late.verdict == "CANCELLED", "the lease of the first run has ended, and does not come back"
    family.do("sib")
    family.check_done_once()


def test_who_held_a_task_before_its_rerun_does_not_hold_it_now(house: House) -> None:
    workflow = house.start_one("work", task_def={"retryCount": 0})
    first = house.poll_one(worker="w1")
    house.report(first, "FAILED")
    rerun(house, workflow, task_id=first["taskId"])
    without_lease = {key: first[key] for key in ("taskId", "workflowInstanceId", "workerId")}
    assert house.send({**without_lease, "status": "COMPLETED"}).verdict == "CANCELLED"
    assert house.report(first).status == 409
    second = house.poll_one(worker="w1")
    assert (second["taskId"], second["pollCount"]) == (first["taskId"], 1)
    assert second["leaseId"] != first["leaseId"]
    assert house.report(second).verdict == "COMMITTED"
    assert house.workflow(workflow)["status"] == "COMPLETED"


def test_rerun_with_another_input_and_correlation_id(house: House) -> None:
    given = simple("work", inputParameters={"x": "${workflow.input.x}"})
    house.workflow_def("flow", given)
    workflow = house.start("flow", input={"x": 1}, correlation_id="old")
    house.report(house.poll_one())
    task_id = house.workflow(workflow)["tasks"][0]["taskId"]
    rerun(house, workflow, task_id=task_id, workflow_input={"x": 2}, correlation_id="new")
    found = house.poll_one()
    assert (found["inputData"], found["correlationId"]) == ({"x": 2}, "new")
    house.report(found)
    rerun(house, workflow, task_id=task_id, task_input={"x": 3})
    assert house.workflow(workflow)["correlationId"] == "new"
    assert house.poll_one()["inputData"] == {"x": 3}


def test_what_follows_a_rerun_task_stands_behind_it(house: House) -> None:
    house.workflow_def("flow", *[simple(name) for name in "abcd"])
    workflow = house.start("flow")
    for name in "abcd":
        house.report(house.poll_one(name))
    for _ in range(2):
        target = house.workflow(workflow)["tasks"][1]["taskId"]
        rerun(house, workflow, task_id=target)
        for name in "bcd":
            house.report(house.poll_one(name))
    tasks = house.workflow(workflow)["tasks"]
    assert [(one["referenceTaskName"], one["seq"]) for one in tasks] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_a_rerun_through_the_parent_changes_the_parents_input(house: House) -> None:
    family = Family(house).fail()
    failed = family.task(family.failed, "f")["taskId"]
    rerun(house, family.parent, task_id=failed, task_input={"t": 1}, workflow_input={"p": 1}, correlation_id="c")
    parent = house.workflow(family.parent)
    assert (parent["input"], parent["correlationId"]) == ({"p": 1}, "c")
    assert house.workflow(family.failed)["input"] == {}
    assert house.poll_one("f")["inputData"] == {"t": 1}


def test_a_rerun_of_a_strangers_task_is_refused(house: House) -> None:
    family, other = Family(house).fail(), house.start_one("other")
    with pytest.raises(ApiError, match="is not part of") as refused:
        rerun(house, family.parent, task_id=house.poll_one("other")["taskId"])
    assert refused.value.status == 400
    with pytest.raises(ApiError, match="not in terminal state") as refused:
        rerun(house, other, task_id=family.task(family.failed, "f")["taskId"])
    assert refused.value.status == 409


def test_a_retry_of_the_leaf_brings_every_ancestor_and_every_cancelled_branch_back(house: House) -> None:
    house.task_def("leaf", retryCount=0)
    house.workflow_def("side", simple("done"), simple("beside"))
    house.workflow_def("w0", simple("leaf"))
    for depth in range(1, 4):
        below = [sub(f"w{depth - 1}", "down")]
        house.workflow_def(f"w{depth}", *fork("fork", below, [sub("side", "side")], [simple("sib")]))
    chain = [house.start("w3")]
    for _ in range(3):
        tasks = house.workflow(chain[-1])["tasks"]
        chain.append(next(one["subWorkflowId"] for one in tasks if one["referenceTaskName"] == "down"))
    for found in house.poll("done", count=3):
        house.report(found)
    before = [house.workflow(one)["tasks"] for one in chain[:-1]]
    house.report(house.poll_one("leaf"), "FAILED")
    assert {house.workflow(one)["status"] for one in chain} == {"FAILED"}
    house.act(chain[-1], workflow_actions.retry, resume=False)
    for workflow, tasks in zip(chain, before, strict=False):
        now = house.workflow(workflow)
        assert now["status"] == "RUNNING"
        assert [(one["taskId"], one["status"], one.get("subWorkflowId")) for one in now["tasks"]] == [
            (one["taskId"], one["status"], one.get("subWorkflowId")) for one in tasks
        ]
    assert house.poll("done") == [], "nothing that was done is done again"
    for name in ("leaf", "beside", "sib"):
        for found in house.poll(name, count=9):
            house.report(found)
    assert {house.workflow(one)["status"] for one in chain} == {"COMPLETED"}


def test_the_deepest_family_there_is_can_be_recovered(house: House) -> None:
    house.task_def("work", retryCount=0)
    house.workflow_def("d0", simple("work"))
    for depth in range(1, MAX_SUB_WORKFLOW_DEPTH):
        house.workflow_def(f"d{depth}", sub(f"d{depth - 1}", "down"))
    top = house.start(f"d{MAX_SUB_WORKFLOW_DEPTH - 1}")
    house.report(house.poll_one(), "FAILED")
    house.settle()
    assert house.workflow(top)["status"] == "FAILED"
    house.act(top, workflow_actions.retry, resume=True)
    house.settle()
    house.report(house.poll_one(), "FAILED")
    house.settle()
    leaf = house.store.call(lambda tx: tx.select("SELECT max(pk) FROM workflow", ()))[0][0]
    house.act(house.store.call(lambda tx: tx.ids.workflow(leaf)), workflow_actions.retry, resume=False)
    house.settle()
    house.report(house.poll_one())
    house.settle()
    assert house.workflow(top)["status"] == "COMPLETED"


def test_a_child_that_has_nothing_to_go_on_from_begins_again(house: House) -> None:
    ended = task("t", "TERMINATE", inputParameters={"terminationStatus": "FAILED", "workflowOutput": {"n": 1}})
    wanted = switch("s", "${workflow.variables.seen}", {"yes": [simple("work")]}, [ended])
    house.workflow_def("child", task("v", "SET_VARIABLE", inputParameters={"n": 1}), wanted)
    house.workflow_def("top", sub("child", "s"))
    top = house.start("top")
    child = house.workflow(top)["tasks"][0]["subWorkflowId"]
    assert house.workflow(top)["status"] == "FAILED"
    house.act(top, workflow_actions.retry, resume=True)
    found = house.workflow(top)
    assert (found["status"], found["tasks"][0]["subWorkflowId"]) == ("FAILED", child)


def test_a_removed_child_is_started_anew(house: House) -> None:
    family = Family(house).fail()
    house.store.call(lambda tx: remove_workflow(tx, find_workflow(tx, family.failed).pk))
    house.act(family.parent, workflow_actions.retry, resume=True)
    assert family.child("subF") != family.failed
    assert family.child("subC") == family.cancelled
    family.do("f")
    family.do("b")
    assert family.status(family.parent) == "COMPLETED"


def test_f11_a_wait_is_waited_for_again_under_its_id(house: House) -> None:
    house.workflow_def("flow", task("w", "WAIT", inputParameters={"duration": "30 seconds"}))
    workflow = house.start("flow")
    waiting = house.workflow(workflow)["tasks"][0]
    assert waiting["callbackAfterSeconds"] == 30
    house.act(workflow, workflow_actions.terminate)
    house.clock.advance(100)
    rerun(house, workflow, task_id=waiting["taskId"])
    (again,) = house.workflow(workflow)["tasks"]
    assert (again["taskId"], again["callbackAfterSeconds"], again["pollCount"]) == (waiting["taskId"], 30, 0)
    house.advance(29)
    assert house.workflow(workflow)["status"] == "RUNNING"
    house.advance(1)
    assert house.workflow(workflow)["status"] == "COMPLETED"


def test_a_task_that_was_refused_for_its_input_can_be_rerun_with_a_better_one(house: House) -> None:
    schema = {"name": "s", "version": 1, "type": "JSON", "data": {"type": "object", "required": ["x"]}}
    workflow = house.start_one("work", task_def={"inputSchema": schema, "enforceSchema": True})
    (refused,) = house.workflow(workflow)["tasks"]
    assert refused["status"] == "FAILED_WITH_TERMINAL_ERROR"
    rerun(house, workflow, task_id=refused["taskId"])
    assert house.workflow(workflow)["status"] == "FAILED"
    rerun(house, workflow, task_id=refused["taskId"], task_input={"x": 1})
    house.report(house.poll_one())
    assert house.workflow(workflow)["status"] == "COMPLETED"


def test_restart_on_the_latest_definition_shows_its_version(house: House) -> None:
    house.workflow_def("flow", simple("work"), version=1)
    workflow = house.start("flow")
    house.report(house.poll_one())
    house.workflow_def("flow", simple("other"), version=2)
    house.act(workflow, workflow_actions.restart, latest=True)
    found = house.workflow(workflow)
    assert (found["workflowVersion"], [one["taskType"] for one in found["tasks"]]) == (2, ["other"])
