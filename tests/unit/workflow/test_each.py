"""`each`: steps for every element of a list; `loop(items=...)`: one element after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from conductor.client.worker import registry
from conductor.client.worker.worker_task import worker_task
from conductor.client.workflow import (
    ConductorWorkflow,
    WorkflowError,
    collect,
    each,
    loop,
    set_variables,
    step,
    switch,
    workflow,
)


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Order:
    id: str
    lines: list[Line]


class Parcel(TypedDict):
    parcel: str
    note: str


@worker_task("pack_line")
def pack(sku: str, count: int, note: str = "") -> Parcel:
    return {"parcel": f"{count} x {sku}", "note": note}


@worker_task("weigh")
def weigh(parcel: str) -> float:
    return float(len(parcel))


@worker_task("ship_all")
def ship(parcels: list[Parcel]) -> str:
    return ", ".join(parcel["parcel"] for parcel in parcels)


@worker_task("echo")
def echo(value: Any, task_ref_name: str = "") -> str | int | list[str]:
    found: str | int | list[str] = value
    return found


KNOWN = [registry.find_worker(function) for function in (pack, weigh, ship, echo)]


@pytest.fixture(autouse=True)
def _workers(workers: None) -> None:
    for worker in KNOWN:
        assert worker is not None
        registry.register(worker)


ORDER = {"order": {"id": "A-1", "lines": [{"sku": "lamp", "count": 2}, {"sku": "desk", "count": 1}]}}
PARCELS = [{"parcel": "2 x lamp", "note": "A-1: lamp"}, {"parcel": "1 x desk", "note": "A-1: desk"}]


def packing() -> ConductorWorkflow:
    with workflow("packing", inputs={"order": Order}) as made:
        order = made.input("order")
        with each(order.lines) as line:
            parcel = pack(sku=line.sku, count=line["count"], note=f"{order.id}: {line.sku}")
        made.returns(shipped=ship(parcels=collect(parcel)), notes=collect(parcel["note"]), all=collect(parcel))
    return made


def test_one_step_runs_once_for_each_element_u3_1(run_workflow: Any) -> None:
    expected = {"shipped": "2 x lamp, 1 x desk", "notes": [one["note"] for one in PARCELS], "all": PARCELS}
    made = packing()
    assert made.problems() == []
    run = run_workflow(made, ORDER)
    assert run.output == expected
    assert run.task("pack_line_1").input_data == {"sku": "desk", "count": 1, "note": "A-1: desk"}
    assert made.run({"order": {"id": "B", "lines": []}}) == {"shipped": "", "notes": [], "all": []}
    mocked = run_workflow(made, ORDER, mocks={"pack_line": lambda given: {"parcel": given["sku"], "note": ""}})
    assert mocked.output["shipped"] == "lamp, desk"


def test_twelve_elements_keep_their_order(run_workflow: Any) -> None:
    with workflow("w", inputs={"numbers": list[int]}) as w:
        with each(w.input("numbers")) as number:
            same = echo(value=number)
        w.returns(same=collect(same))
    assert run_workflow(w, {"numbers": list(range(12))}).output == {"same": list(range(12))}


def test_several_steps_become_a_sub_workflow_for_each_element_u3_1(run_workflow: Any) -> None:
    with workflow("packing", inputs={"order": Order, "heavy": str}) as made:
        order = made.input("order")
        with each(order.lines, "each_line") as line:
            parcel = step(pack, retries=0)(sku=line.sku, count=line["count"], note=order.id)
            weight = weigh(parcel=parcel["parcel"])
            with switch(line.sku) as case, case("desk"):
                echo(value=f"{made.input('heavy')}: {line.sku}", task_ref_name="warned")
        made.returns(weights=collect(weight), notes=collect(parcel["note"]))
    assert made.problems() == []
    run = run_workflow(made, ORDER | {"heavy": "two people"})
    assert run.output == {"weights": [8.0, 8.0], "notes": ["A-1", "A-1"]}
    child = run.task("each_line_1").sub_workflow_id
    warned = run._client.get_workflow(child).task("warned")
    assert warned.input_data == {"value": "two people: desk"}


def test_blocks_of_each_inside_another_and_inside_a_loop(run_workflow: Any) -> None:
    with workflow("w", inputs={"rows": list[list[int]], "base": str}) as w:
        with loop(times=2) as again:
            with each(w.input("rows")) as row:
                with each(row) as cell:
                    value = echo(value=f"{w.input('base')}{cell}")
                inner = collect(value)
                echo(value=inner, task_ref_name="whole_row")
            echo(value=again.iteration, task_ref_name="turn")
        w.returns(turn="${turn.output.result}")
    run = run_workflow(w, {"rows": [[1, 2], [3]], "base": "n"})
    assert run.output == {"turn": 2}
    rows = [task for task in run.execution.tasks if task.task_type == "SUB_WORKFLOW"]
    assert len(rows) == 4
    row_run = run._client.get_workflow(rows[0].sub_workflow_id)
    assert row_run.task("whole_row").output_data == {"result": ["n1", "n2"]}


def test_texts_of_the_data_are_never_read_as_expressions(run_workflow: Any) -> None:
    with workflow("w", inputs={"items": list[str], "key": str}) as w:
        with each(w.input("items")) as item:
            one = echo(value=item)
        with each(w.input("items")) as item:
            two = echo(value=item)
            echo(value=two)
        w.returns(one=collect(one), two=collect(two))
    hostile = ["${workflow.input.key}", "\"'\\ ${x"]
    assert run_workflow(w, {"items": hostile, "key": "secret"}).output == {"one": hostile, "two": hostile}


def test_a_loop_goes_through_a_list_u3_2(run_workflow: Any) -> None:
    with workflow("w", inputs={"order": Order}) as w:
        with loop(items=w.input("order.lines")) as again:
            packed = pack(sku=again.item.sku, count=again.item["count"], note=f"{again.index}")
            set_variables(last=packed["parcel"])
        w.returns(last=w.variable("last"))
    assert w.problems() == []
    run = run_workflow(w, ORDER)
    assert run.output == {"last": "1 x desk"}
    assert run.task("pack_line__2").input_data["note"] == 1


def test_mistakes_in_blocks_over_lists_are_found_when_the_workflow_is_built() -> None:
    def use(message: str, build: Any) -> None:
        with pytest.raises(WorkflowError, match=message), workflow("w", inputs={"order": Order}) as w:
            build(w)

    def wrong_field(w: ConductorWorkflow) -> None:
        with each(w.input("order.lines")) as line:
            pack(sku=line.skuu, count=1)

    def wrong_type(w: ConductorWorkflow) -> None:
        with each(w.input("order.lines")) as line:
            pack(sku="x", count=line.sku)

    def not_a_list(w: ConductorWorkflow) -> None:
        with each(w.input("order.id")):
            echo(value="x")

    def a_python_list(_: ConductorWorkflow) -> None:
        with each([1, 2]):
            echo(value="x")

    def empty(w: ConductorWorkflow) -> None:
        with each(w.input("order.lines")):
            pass

    def used_outside(w: ConductorWorkflow) -> None:
        with each(w.input("order.lines")) as line:
            parcel = pack(sku=line.sku, count=1)
        echo(value=parcel)

    def item_outside(w: ConductorWorkflow) -> None:
        with each(w.input("order.lines")) as line:
            pack(sku=line.sku, count=1)
        echo(value=line.sku)

    use("has no 'skuu'; did you mean 'sku'", wrong_field)
    use("needs 'count' as integer, but .* is string", wrong_type)
    use("the each block 'each' needs a list, but .*order.id.* is string", not_a_list)
    use(r"needs a reference to a list, got \[1, 2\]; for a list that .* use Python's `for`", a_python_list)
    use("the each block 'each' has no steps", empty)
    use(r"'echo' .*'pack_line', which runs once for each element of 'each': use collect\(...\)", used_outside)
    use("'echo' .*element of 'each' outside its block", item_outside)
    use(r"collect\(...\) takes a step inside an each block", lambda w: collect(echo(value="x")))
