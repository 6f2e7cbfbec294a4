"""A missing required input becomes None, and the log, the task and the error say so."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.worker.worker import Worker


def add(amount: int, tax: int = 1) -> int:
    return amount + tax


async def add_async(amount: int, tax: int = 1) -> int:
    return amount + tax


def upper(name: str) -> str:
    return name.upper()


def shown(amount: int) -> str:
    return f"{amount}"


def positional(amount: int, /) -> int:
    return amount + 1


def anything(amount, other=1):  # type: ignore[no-untyped-def]
    return amount + other


def picky(amount: int) -> None:
    raise ValueError("the amount is odd")


def execute(function: Any, given: dict[str, Any], **options: Any) -> TaskResult:
    return Worker("charge", function, **options).execute(Task(task_id="t", task_def_name="charge", input_data=given))


@pytest.fixture(autouse=True)
def _functions_that_were_never_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from conductor.client.worker import signature

    monkeypatch.setattr(signature, "_cache", {})
    caplog.set_level(logging.WARNING)


@pytest.mark.parametrize("function", [add, add_async, positional, anything], ids=lambda f: f.__name__)
def test_the_failure_of_a_function_that_was_given_none_says_so(function: Any) -> None:
    reason = execute(function, {"tax": 3} if "tax" in function.__annotations__ else {}).reason_for_incompletion or ""
    assert reason.startswith("TypeError: unsupported operand")
    assert "'amount'" in reason
    assert "strict_schema=True" in reason
    assert "default" in reason


def test_an_attribute_of_none_is_explained_too() -> None:
    reason = execute(upper, {"name": None}).reason_for_incompletion or ""
    assert reason.startswith("AttributeError: 'NoneType'")
    assert "'name'" in reason


def test_an_error_of_another_kind_is_left_as_it_is() -> None:
    assert execute(picky, {}).reason_for_incompletion == "ValueError: the amount is odd"


def test_a_type_error_of_a_function_that_was_given_everything_is_left_as_it_is() -> None:
    reason = execute(anything, {"amount": "a"}).reason_for_incompletion or ""
    assert reason.startswith("TypeError")
    assert "strict_schema" not in reason


def test_a_missing_input_is_warned_of_once_for_each_parameter(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker("charge", shown)
    for _ in range(3):
        result = worker.execute(Task(task_id="t", task_def_name="charge", input_data={}))
        assert result.output_data == {"result": "None"}, "None stays what it becomes"
    (warning,) = caplog.messages
    assert "worker='charge'" in warning
    assert "'amount'" in warning
    assert "default" in warning
    assert "strict_schema=True" in warning


@pytest.mark.parametrize("given", [{"amount": 5}, {"amount": "5"}])
def test_a_given_input_is_not_warned_about(given: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    execute(add, given)
    assert caplog.messages == []


def test_null_for_a_parameter_without_annotation_is_given(caplog: pytest.LogCaptureFixture) -> None:
    execute(anything, {"amount": None})
    assert caplog.messages == []


def test_the_note_lists_the_names_that_were_given_u4_31() -> None:
    reason = execute(add, {"amuont": 3}).reason_for_incompletion or ""
    assert "'amount' was not given and became None; the input has 'amuont'. Correct the name" in reason


def test_the_log_names_what_was_given_u4_31(caplog: pytest.LogCaptureFixture) -> None:
    execute(shown, {"amuont": 3})
    (warning,) = caplog.messages
    assert "worker='charge'; 'amount' was not given and became None; the input has 'amuont'. Correct" in warning


def test_an_expression_without_a_value_is_named_u4_31() -> None:
    step = WorkflowTask(name="charge", input_parameters={"name": "${workflow.secrets.NAME}"})
    task = Task(task_id="t", task_def_name="charge", input_data={"name": None}, workflow_task=step)
    reason = Worker("charge", upper).execute(task).reason_for_incompletion or ""
    assert "'name' became None, because ${workflow.secrets.NAME} has no value. Set the secret, or give" in reason
    assert "was not given" not in reason


def test_a_reference_without_a_value_is_named() -> None:
    step = WorkflowTask(name="charge", input_parameters={"name": "${find.output.name}"})
    task = Task(task_id="t", task_def_name="charge", input_data={"name": None}, workflow_task=step)
    reason = Worker("charge", upper).execute(task).reason_for_incompletion or ""
    assert "'name' became None, because ${find.output.name} has no value. Correct the expression, or" in reason


def test_null_in_the_input_is_not_called_absent_u4_31() -> None:
    reason = execute(upper, {"name": None}).reason_for_incompletion or ""
    assert "'name' is null in the input and became None. Pass a value, or give the parameter a default" in reason
