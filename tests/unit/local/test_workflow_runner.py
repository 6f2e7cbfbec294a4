"""`workflow.run()`: on a coordinator in memory, by the workers of this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow, WorkflowError, fork, loop, step, switch, wait, workflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.local import WorkflowFailed
from tests.unit.workflow.order_workers import charge, fails, label, notify, quote


@dataclass
class Result:
    receipt: str
    label: str | None


def order() -> ConductorWorkflow:
    with workflow("shipping", inputs={"address": str}) as shipping:
        shipping.returns(label=label(address=shipping.input("address")))
    with workflow("order", inputs={"id": str, "sku": str, "address": str}, returns=Result) as made:
        price = quote(sku=made.input("sku"), count=2)
        pay = step(charge)(order_id=made.input("id"), amount=price.total)
        with fork() as branch:
            with branch():
                notify(to="shop", text=f"paid {pay.receipt}")
            with branch(), loop(times=2):
                notify(to=made.input("address"))
        with switch(pay.status) as case:
            with case("paid"):
                parcel = shipping(address=made.input("address"))
            with case.otherwise():
                notify(to="boss")
        wait(0)
        made.returns(receipt=pay.receipt, label=parcel.label)
    return made


def test_workflow_run_gives_the_output_as_its_type() -> None:
    assert order().run({"id": "A", "sku": "x", "address": "here"}) == Result("R-A", "to here")


async def test_workflow_run_runs_where_an_event_loop_runs_already() -> None:
    """As in a notebook."""
    await asyncio.sleep(0)
    with workflow("w") as w:
        w.returns(to=notify(to=w.input("to")).to)
    assert w.run({"to": "Ada"}) == {"to": "Ada"}


def test_workflow_run_takes_workers_of_its_own() -> None:
    w = ConductorWorkflow(None, "w") >> SimpleTask("double", "d").input_parameter("n", "${workflow.input.n}")

    def double(n: int) -> dict[str, int]:
        return {"n": n * 2}

    assert w.run({"n": 4}, workers=[Worker("double", double)]) == {"n": 8}


def test_a_failure_says_which_step_failed_and_why() -> None:
    with workflow("w") as w:
        fails()
    worker = Worker("fails", fails, task_def=None)
    with pytest.raises(WorkflowFailed, match="workflow 'w' is FAILED: step 'fails' FAILED: RuntimeError: no paper"):
        w.run(workers=[worker])


def test_a_failure_in_a_sub_workflow_names_its_innermost_reason_u3_09() -> None:
    with workflow("inner") as inner:
        fails()
    with workflow("middle") as middle:
        inner()
    with workflow("outer") as outer:
        middle()
    with pytest.raises(WorkflowFailed) as raised:
        outer.run(workers=[Worker("fails", fails, task_def=None)])
    assert str(raised.value) == (
        "workflow 'outer' is FAILED: step 'middle' FAILED in sub-workflow 'inner': RuntimeError: no paper"
    )


def test_a_task_that_waits_forever_is_named_when_the_time_is_over() -> None:
    with workflow("w") as w:
        wait(task_ref_name="approval")
    with pytest.raises(TimeoutError, match="workflow 'w' is RUNNING; it waits in 'approval'"):
        w.run(timeout_s=0.2)


def test_a_missing_worker_is_named_before_anything_runs() -> None:
    w = ConductorWorkflow(None, "w") >> SimpleTask("unknown", "u")
    with pytest.raises(WorkflowError, match="no worker in this process serves 'unknown'"):
        w.run()


def test_a_workflow_that_is_wrong_does_not_run() -> None:
    w = ConductorWorkflow(None, "w") >> charge(task_ref_name="pay", order_id="A")
    with pytest.raises(WorkflowError, match="needs 'amount'"):
        w.run()


PROGRAM = """
import os, sys
sys.path.insert(0, {tests!r})
import psutil
from tests.unit.workflow import order_workers as shop
from conductor.client.workflow import workflow
with workflow("w") as w:
    w.returns(to=shop.notify(to="Ada").to)
assert w.run() == {{"to": "Ada"}}
me = psutil.Process()
assert not me.children(recursive=True), me.children()
assert not [c for c in me.net_connections() if c.status == "LISTEN"], me.net_connections()
"""


def test_workflow_run_leaves_no_process_port_or_file_behind(tmp_path: Path) -> None:
    env: dict[str, Any] = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    code = PROGRAM.format(tests=str(Path(__file__).parents[3]))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1], r"the input of a workflow is an object with a name for each value, got a list: \[1\]"),
        (
            {"id": "A", "sku": {"b": [1, object()]}},
            r"input.sku.b\[1\]: an object of type object cannot be sent as JSON",
        ),
    ],
)
def test_an_input_that_is_not_a_json_object_names_the_place_u4_45(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        order().run(given)
