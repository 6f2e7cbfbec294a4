"""References have no value while a workflow is built: no operation computes with them, and their fields are checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from conductor.client.workflow import ConductorWorkflow, WorkflowError, workflow
from tests.unit.workflow.order_workers import label, notify, quote


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Order:
    id: str
    lines: list[Line]


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "times": lambda value: value * 2,
    "times from the left": lambda value: 2 * value,
    "plus": lambda value: value + 1,
    "plus from the left": lambda value: 1 + value,
    "minus": lambda value: value - 1,
    "divided": lambda value: value / 2,
    "halved": lambda value: value // 2,
    "modulo": lambda value: value % 2,
    "power": lambda value: value**2,
    "negative": lambda value: -value,
    "absolute": abs,
    "rounded": round,
    "floor": math.floor,
    "int": int,
    "float": float,
    "range": range,
    "greater": lambda value: value > 3,
    "less or equal": lambda value: value <= 3,
    "equal": lambda value: value == 3,
    "equal to a text": lambda value: value == "paid",
    "not equal": lambda value: value != 3,
    "not equal to a text": lambda value: value != "paid",
    "one of several texts": lambda value: value in ("paid", "refused"),
    "length": len,
    "iteration": list,
    "membership": lambda value: "a" in value,
    "if": bool,
    "index": lambda value: value[0],
    "slice": lambda value: value[1:],
    "number format": lambda value: f"{value:.2f}",
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_no_operation_computes_with_a_reference_u1_1(operation: Callable[[Any], Any]) -> None:
    with workflow("w", inputs={"n": int}) as w:
        for value in (w.input("n"), quote("x").total, label("x"), notify("a")["to"]):
            with pytest.raises(TypeError, match="has no value while the workflow is built.*(each|in a worker)"):
                operation(value)


SENTENCES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "times": (lambda value: value * 2, r"`\$\{workflow.input.n\} \* 2`.*compute it in a worker"),
    "times from the left": (lambda value: 2 * value, r"`2 \* \$\{workflow.input.n\}`.*compute it in a worker"),
    "length": (len, r"`len\(\$\{workflow.input.n\}\)`.*compute it in a worker"),
    "greater": (lambda value: value > 3, r"`\$\{workflow.input.n\} > 3`.*switch\(\.\.\.\), or compare in a worker"),
    "not equal": (lambda value: value != "paid", r"`\$\{workflow.input.n\} != 'paid'`.*switch\(\.\.\.\), or compare"),
    "int": (int, r"`int\(\$\{workflow.input.n\}\)`.*compute it in a worker"),
    "if": (bool, r"`if`, .* cannot use \$\{workflow.input.n\}.*switch\(\.\.\.\)"),
    "for": (list, r"`for` cannot iterate over \$\{workflow.input.n\}.*each\(\.\.\.\) or loop\(items=\.\.\.\)"),
}


@pytest.mark.parametrize(("operation", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_error_names_the_operation_and_the_way_out_u4_66(operation: Callable[[Any], Any], sentence: str) -> None:
    with workflow("w", inputs={"n": int}) as w:
        with pytest.raises(TypeError, match=sentence):
            operation(w.input("n"))
        quote("x")


def test_a_reference_equals_the_text_of_its_expression_inside_a_block() -> None:
    with workflow("w", inputs={"n": int}) as w:
        assert w.input("n") == "${workflow.input.n}"
        assert w.input("n") != "${workflow.input.m}"
        assert w.input("n") == w.input("n")
        quote("x")


def test_two_numbers_are_not_joined_as_text_u1_1() -> None:
    with workflow("w", inputs={"n": int, "text": str}) as w:
        with pytest.raises(TypeError, match=r"`\$\{workflow.input.n\} \+ \$\{workflow.input.n\}`"):
            w.input("n") + w.input("n")
        assert w.input("text") + w.input("text") == "${workflow.input.text}${workflow.input.text}"
        quote("x")


def test_methods_of_text_are_errors_u1_1() -> None:
    with workflow("w", inputs={"text": str}) as w:
        with pytest.raises(TypeError, match=r"`\$\{workflow.input.text\}.upper\(\)`.*compute it in a worker"):
            w.input("text").upper()
        quote("x")


def test_the_error_names_the_step_u4_69() -> None:
    with workflow("w"), pytest.raises(TypeError, match=r"`quote \+ 1` here: 'quote' has no value"):
        quote("x") + 1  # type: ignore[operator]
    with workflow("w"), pytest.raises(TypeError, match=r"`quote != 'paid'` here: 'quote' has no value"):
        assert quote("x") != "paid"  # type: ignore[comparison-overlap]


def test_arithmetic_on_a_reference_is_an_error_after_the_block_too_u1_1() -> None:
    with workflow("w") as w:
        pay = quote("x")
    with pytest.raises(TypeError, match=r"\$\{quote.output.total\} has no value while the workflow is built"):
        w.returns(total=pay.total * 2)


def test_a_for_over_an_input_names_the_block_that_repeats_steps_u1_2() -> None:
    def build() -> None:
        with workflow("w", inputs={"order": Order}) as w:
            for line in w.input("order.lines"):
                label(line)

    with pytest.raises(TypeError, match=r"workflow.input.order.lines\} has no value .*each\(...\)"):
        build()


def test_fields_and_elements_of_an_input_are_checked_u1_20() -> None:
    with workflow("w", inputs={"order": Order, "anything": dict}) as w:
        order = w.input("order")
        assert str(order["id"]) == str(order.id) == str(w.input("order.id"))
        assert str(order.lines[0].sku) == "${workflow.input.order.lines[0].sku}"
        # `count` is a method of text, but here it is a declared field.
        assert str(order.lines[0].count) == "${workflow.input.order.lines[0].count}"
        assert str(w.input("anything")["free"]) == "${workflow.input.anything.free}"
        mistakes: list[Callable[[], Any]] = [lambda: order["idd"], lambda: order.idd, lambda: w.input("order.idd")]
        for mistake in mistakes:
            with pytest.raises(WorkflowError, match="has no 'idd'; did you mean 'id'?"):
                mistake()
        with pytest.raises(WorkflowError, match="needs 'sku' as string, but .*count.* is integer"):
            quote(sku=order.lines[0]["count"])
        label("x")


def test_references_and_steps_stand_in_texts() -> None:
    with workflow("w", inputs={"to": str}) as w:
        text = label("x")
        made = [f"to {w.input('to')}", "to " + w.input("to"), w.input("to") + "!", f"{text}!", f"{text!s}"]
        w.returns(made=made)
    assert made == ["to ${workflow.input.to}"] * 2 + ["${workflow.input.to}!", "${label.output.result}!"] + [
        "${label.output.result}"
    ]


def test_references_outside_of_blocks_stay_texts_for_programs_of_conductor_python() -> None:
    reference = ConductorWorkflow(None, "w").input("name")
    assert reference == "${workflow.input.name}"
    assert len(reference) == 22
    assert "input" in reference
    assert reference[2:10] == "workflow"
    assert bool(reference)


def test_a_method_of_text_is_not_an_input() -> None:
    with pytest.raises(WorkflowError, match=r"rejects 'to': it is a method of text.*\[\"count\"\]"), workflow("w") as w:
        notify(to=w.input("order").count)


# -- declared inputs


def test_declared_inputs_become_an_enforced_schema_u1_5() -> None:
    with workflow("w", inputs={"order": Order, "km": int, "note": str | None}) as w:
        label(w.input("order.id"))
    definition = w.to_workflow_def().to_dict()
    assert definition["enforceSchema"] is True
    assert definition["inputSchema"]["name"] == "w_input"
    data = definition["inputSchema"]["data"]
    assert data["required"] == ["order", "km"]
    assert data["properties"]["order"]["properties"]["lines"]["items"]["properties"]["count"] == {"type": "integer"}
    for wrong, message in [
        ({}, '"order" is a required property'),
        ({"order": {"id": "A", "lines": []}, "km": "far"}, 'km: "far" is not of type "integer"'),
        ({"order": {"id": "A", "lines": [{"sku": "x"}]}, "km": 1}, "order.lines.0.*count"),
    ]:
        with pytest.raises(WorkflowError, match=f"workflow 'w' rejects its input: .*{message}"):
            w.run(wrong)
    assert w.run({"order": Order("A", [Line("x", 1)]), "km": 1}) == {"result": "to A"}


def test_one_type_for_all_inputs_is_a_schema_too_u1_5() -> None:
    with workflow("w", inputs=Order) as w:
        label(w.input("id"))
    assert w.to_workflow_def().to_dict()["inputSchema"]["data"]["required"] == ["id", "lines"]
    with pytest.raises(WorkflowError, match="rejects its input"):
        w.run({"id": 5, "lines": []})


def test_inputs_of_sub_workflows_are_checked_when_they_are_called_u1_15() -> None:
    with workflow("delivery", inputs={"km": int, "order": Order}) as delivery:
        label("x")
    order = Order("A", [])
    with workflow("w") as w:
        delivery(km=3, order=order)
    assert w.problems() == []
    for wrong, message in [
        ({"km": "far", "order": order}, "rejects 'km': expected int, got 'far'"),
        ({"km": 3, "order": {"id": "A"}}, "rejects 'order': order.lines: is missing"),
    ]:
        with pytest.raises(WorkflowError, match=message), workflow("w"):
            delivery(**wrong)
    with pytest.raises(WorkflowError, match="declares inputs and outputs by types.*got 'int'"):
        workflow("w", inputs={"n": "int"})
