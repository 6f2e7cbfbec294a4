"""The pytest fixtures for tests of workflows."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow, WorkflowError, loop, switch, wait, workflow
from conductor.client.workflow.task.simple_task import SimpleTask
from tests.unit.workflow.conftest import workers as workers
from tests.unit.workflow.order_workers import charge, label, notify, quote


def reminder() -> ConductorWorkflow:
    with workflow("reminder") as made:
        notify(to=made.input("to"), text="first")
        wait(days := 7 * 86400)
        notify(to=made.input("to"), text=f"after {days} s", task_ref_name="again")
        approval = wait(task_ref_name="approval")
        made.returns(by=approval.output("by"))
    return made


def test_a_week_passes_in_no_time(run_workflow: Any) -> None:
    run = run_workflow(reminder(), {"to": "Ada"})
    assert run.waiting == ["wait"]
    run.skip(days=6, hours=23)
    assert run.waiting == ["wait"]
    run.skip(hours=2).until_waiting("approval")
    assert run.task("again").input_data["to"] == "Ada"
    assert run.complete("approval", {"by": "Grace"}).output == {"by": "Grace"}
    assert run.status == "COMPLETED"


def test_mocks_stand_in_for_workers_by_step_or_task_type(run_workflow: Any) -> None:
    with workflow("w") as w:
        pay = charge("A", quote("x").total)
        with switch(pay.status) as case:
            with case("paid"):
                notify(to="shop", task_ref_name="sold")
            with case.otherwise():
                notify(to="boss", task_ref_name="lost")
        w.returns(receipt=pay.receipt)
    refused = {"status": "refused", "receipt": "none", "quotes": []}
    run = run_workflow(w, mocks={"charge": refused, "lost": lambda given: {"told": given["to"]}})
    assert run.output == {"receipt": "none"}
    assert run.task("lost").output_data == {"told": "boss"}
    assert run.task("charge").input_data["amount"] == 10.0  # from the real quote
    with pytest.raises(AssertionError, match="the workflow has not reached 'sold'"):
        run.task("sold")


def test_a_mock_may_fail(run_workflow: Any) -> None:
    with workflow("w") as w:
        label("x")
    run = run_workflow(w, mocks={"label": NonRetryableException("no paper")})
    assert run.status == "FAILED"
    with pytest.raises(AssertionError, match="workflow 'w' is FAILED: step 'label' .*no paper"):
        run.output  # noqa: B018


def test_a_retry_waits_for_its_delay(run_workflow: Any) -> None:
    tries: list[int] = []

    def flaky() -> dict[str, int]:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("try again")
        return {"tries": len(tries)}

    definition = TaskDef(retry_count=1, retry_delay_seconds=3600)
    w = ConductorWorkflow(None, "w") >> SimpleTask("flaky", "f")
    run = run_workflow(w, workers=[Worker("flaky", flaky, task_def=definition)])
    assert run.waiting == ["f"]
    assert run.skip(hours=1).output == {"tries": 2}


def test_a_list_of_mocks_is_one_for_each_attempt(run_workflow: Any) -> None:
    with workflow("w") as w, loop(times=3):
        label("x")
    run = run_workflow(w, mocks={"label": [{"n": 1}, {"n": 2}, {"n": 3}]})
    assert [task.output_data["n"] for task in run.execution.tasks if task.task_def_name == "label"] == [1, 2, 3]


def test_sub_workflows_wait_too(run_workflow: Any) -> None:
    with workflow("child") as child:
        child.returns(ok=wait(task_ref_name="sign").output("ok"))
    with workflow("w") as w:
        w.returns(ok=child().ok)
    run = run_workflow(w)
    assert run.waiting == ["sign"]
    assert run.complete("sign", {"ok": True}).output == {"ok": True}


def test_a_test_can_let_a_task_fail(run_workflow: Any) -> None:
    with workflow("w") as w:
        wait(task_ref_name="sign")
    assert run_workflow(w).fail("sign").status == "FAILED"


def test_the_clients_are_those_of_the_same_coordinator(conductor_clients: Any, run_workflow: Any) -> None:
    with workflow("w") as w:
        notify(to="Ada")
    run = run_workflow(w, workers=[notify], correlation_id="c")
    found = conductor_clients.get_workflow_client().get_workflow(run.workflow_id)
    assert (found.status, found.correlation_id) == ("COMPLETED", "c")
    conductor_clients.get_metadata_client().register_task_def(TaskDef(name="x"))


def test_a_task_without_a_worker_is_named_at_once(run_workflow: Any) -> None:
    w = ConductorWorkflow(None, "w") >> SimpleTask("unknown", "u")
    with pytest.raises(WorkflowError, match="no worker in this process serves 'unknown'"):
        run_workflow(w)
    assert run_workflow(w, mocks={"u": {"x": 1}}).output == {"x": 1}


def test_a_mock_for_nothing_is_a_mistake(run_workflow: Any) -> None:
    w = ConductorWorkflow(None, "w") >> SimpleTask("a", "a")
    with pytest.raises(ValueError, match="mocks for .'b'., which are neither reference names nor task types"):
        run_workflow(w, workers=[Worker("a", dict)], mocks={"b": {}})


def test_asking_for_what_is_not_waited_for_says_where_it_stands(run_workflow: Any) -> None:
    run = run_workflow(reminder(), {"to": "Ada"})
    with pytest.raises(AssertionError, match="does not wait in 'approval': .*it waits in 'wait'"):
        run.until_waiting("approval")
    with pytest.raises(AssertionError, match="does not wait in 'approval'"):
        run.complete("approval")
