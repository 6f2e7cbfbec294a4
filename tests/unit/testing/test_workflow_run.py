"""The pytest fixtures for tests of workflows."""

from __future__ import annotations

from typing import Any

import pytest

from conductor import durable
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_task import worker_task
from conductor.client.workflow import (
    ConductorWorkflow,
    WorkflowError,
    add,
    collect,
    each,
    loop,
    step,
    sub_workflow,
    switch,
    wait,
    workflow,
)
from conductor.client.workflow.task.dynamic_fork_task import DynamicForkTask
from conductor.client.workflow.task.dynamic_task import DynamicTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.testing.workflow_run import WorkflowBench
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


def test_a_mock_for_nothing_in_a_workflow_with_dynamic_tasks_gives_a_warning(coordinator: Any, fake_clock: Any) -> None:
    bench = WorkflowBench(coordinator.url, fake_clock)
    lines = {"lines": [{"address": "a"}, {"address": "b"}]}
    assert bench(packing(), lines, mocks={"lable": {}, "_label_1": {"result": 1}}).output == {"all": ["to a", 1]}
    with pytest.warns(UserWarning, match=r"mocks for \['lable'\] replaced no task"):
        bench.close()


def test_asking_for_what_is_not_waited_for_says_where_it_stands(run_workflow: Any) -> None:
    run = run_workflow(reminder(), {"to": "Ada"})
    with pytest.raises(AssertionError, match="does not wait in 'approval': .*it waits in 'wait'"):
        run.until_waiting("approval")
    with pytest.raises(AssertionError, match="does not wait in 'approval'"):
        run.complete("approval")


# -- tasks that the definition does not name, and retries as on a server


def packing() -> ConductorWorkflow:
    with workflow("packing", inputs={"lines": list}) as made:
        fork = add(DynamicForkTask("fork"))
        fork.input_parameter("forkTaskName", "label")
        fork.input_parameter("forkTaskInputs", made.input("lines"))
        packed = add(JoinTask("packed"))
        made.returns(all=packed.output("*.result"))
    return made


def test_dynamic_forks_run_with_workers_and_with_mocks_u1_3(run_workflow: Any) -> None:
    lines = {"lines": [{"address": "a"}, {"address": "b"}]}
    assert packing().run(lines) == {"all": ["to a", "to b"]}
    assert run_workflow(packing(), lines).output == {"all": ["to a", "to b"]}
    mocks = {"label": lambda given: {"result": given["address"] * 2}}
    assert run_workflow(packing(), lines, mocks=mocks).output == {"all": ["aa", "bb"]}


def test_steps_inside_each_are_mocked_by_their_names(run_workflow: Any) -> None:
    with workflow("w", inputs={"to": list[str]}) as w:
        with each(w.input("to")) as to:
            sent = label(to, task_ref_name="sent")
        w.returns(all=collect(sent))
    given = {"to": ["a", "b"]}
    assert run_workflow(w, given, mocks={"sent": "mocked"}).output == {"all": ["mocked", "mocked"]}
    assert run_workflow(w, given, mocks={"sent_1": "mocked"}).output == {"all": ["to a", "mocked"]}


def test_dynamic_tasks_and_registered_sub_workflows_run_and_are_mocked_u1_3(run_workflow: Any) -> None:
    with workflow("delivery", inputs={"address": str}) as delivery:
        delivery.returns(label=label(address=delivery.input("address")))
    with workflow("w") as w:
        chosen = add(DynamicTask("label", "chosen"))
        chosen.input_parameter("address", "x")
        sent = sub_workflow("delivery", address="y")
        w.returns(chosen=chosen.output("result"), sent=sent.output("label"))
    expected = {"chosen": "to x", "sent": "to y"}
    assert w.run(workflows=[delivery]) == expected
    assert run_workflow(w, workflows=[delivery]).output == expected
    assert run_workflow(w, mocks={"delivery": {"label": "mocked"}}).output == {"chosen": "to x", "sent": "mocked"}


def test_workflows_that_a_durable_step_calls_run_and_are_mocked(run_workflow: Any) -> None:
    with workflow("delivery", inputs={"address": str}) as delivery:
        delivery.returns(label=label(address=delivery.input("address")))

    @worker_task("order_delivery")
    async def order_delivery(address: str) -> str:
        sent: str = (await durable.call("delivery", {"address": address}))["label"]
        return sent

    with workflow("w") as w:
        w.returns(sent=step(order_delivery, "order")(address="x"))
    assert w.run(workflows=[delivery]) == {"sent": "to x"}
    assert run_workflow(w, workflows=[delivery]).output == {"sent": "to x"}
    assert run_workflow(w, workflows=[delivery], mocks={"label": "mocked"}).output == {"sent": "mocked"}
    with pytest.raises(ValueError, match=r"If the workflow starts another workflow by name, pass workflows=\[...\]"):
        run_workflow(w, mocks={"label": "mocked"})


def test_a_missing_worker_of_another_workflow_does_not_prevent_a_run(run_workflow: Any) -> None:
    other = ConductorWorkflow(None, "other") >> SimpleTask("unknown", "u")
    with workflow("w") as w:
        w.returns(label=label("x"))
    assert w.run(workflows=[other]) == {"label": "to x"}
    assert run_workflow(w, workflows=[other]).output == {"label": "to x"}


def test_a_time_out_names_the_queue_that_has_no_worker_u1_3() -> None:
    with workflow("w") as w:
        add(DynamicTask("nobody_does_this", "chosen"))
    with pytest.raises(TimeoutError, match="waits in 'chosen'; no worker serves the queue 'nobody_does_this'"):
        w.run(timeout_s=0.5)


def test_a_mock_keeps_the_retries_of_its_worker_u1_4(run_workflow: Any) -> None:
    worker = Worker("flaky", lambda: {"n": 0}, task_def=TaskDef(retry_count=3, retry_delay_seconds=5))
    w = ConductorWorkflow(None, "w") >> SimpleTask("flaky", "f")
    run = run_workflow(w, workers=[worker], mocks={"flaky": [ConnectionError("x"), {"n": 7}]})
    assert run.waiting == ["f"]
    assert run.skip(seconds=5).output == {"n": 7}


def test_the_mock_of_a_worker_with_retries_gives_no_warning(
    run_workflow: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @worker_task("bill", retries=2, retry_delay_s=5)
    def bill() -> str:
        return "paid"

    with workflow("w") as w:
        w.returns(bill=bill())
    run = run_workflow(w, mocks={"bill": [ConnectionError("x"), "mocked"]})
    assert run.skip(seconds=5).output == {"bill": "mocked"}
    assert "task_def is not registered" not in caplog.text


def test_a_step_is_retried_as_on_a_server_u2_20(run_workflow: Any) -> None:
    with workflow("w") as w:
        label("x")
    run = run_workflow(w, mocks={"label": [ConnectionError("1"), ConnectionError("2"), {"result": "done"}]})
    assert run.status == "RUNNING"
    assert run.skip_retries().output == {"result": "done"}
    failed = run_workflow(w, mocks={"label": ConnectionError("always")}).skip_retries()
    assert (failed.status, len(failed.execution.tasks)) == ("FAILED", 4)


def test_optional_steps_retries_of_one_step_and_failure_workflows_u3_6(run_workflow: Any) -> None:
    with workflow("clean_up", inputs={"to": str, "reason": str}) as clean_up:
        notify(to=clean_up.input("to"), text=clean_up.input("reason"))
    with workflow("w", inputs={"to": str}, on_failure=clean_up, timeout_s=3600) as w:
        step(notify, "thank", optional=True, retries=0)(to=w.input("to"))
        step(label, "print", retries=1)("x")
    run = run_workflow(w, {"to": "Ada"}, mocks={"thank": ConnectionError("x"), "print": ConnectionError("no paper")})
    assert run.task("thank").status == "COMPLETED_WITH_ERRORS"
    assert run.waiting == ["print"]
    assert run.skip_retries().status == "FAILED"
    cleaned = run.failure_workflow
    assert cleaned.status == "COMPLETED"
    assert "no paper" in cleaned.task("notify").input_data["text"]
    definition = w.to_workflow_def().to_dict()
    assert (definition["timeoutSeconds"], definition["timeoutPolicy"]) == (3600, "TIME_OUT_WF")
    assert [task.get("retryCount") for task in definition["tasks"]] == [0, 1]


def test_start_by_name_takes_both_spellings_of_the_correlation_id_u2_19(conductor_clients: Any) -> None:
    with workflow("w") as w:
        wait(task_ref_name="forever")
    conductor_clients.get_metadata_client().update_workflow_def(w.to_workflow_def(), overwrite=True)
    workflows = conductor_clients.get_workflow_client()
    for spelling in ({"correlation_id": "c-1"}, {"correlationId": "c-1"}):
        started = workflows.start_workflow_by_name("w", {}, **spelling)
        assert workflows.get_workflow(started).correlation_id == "c-1"
