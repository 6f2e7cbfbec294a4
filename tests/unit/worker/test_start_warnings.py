"""Warnings of a worker at its start about problems that would stay unnoticed."""

from __future__ import annotations

import decimal
import logging
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.signature import read_signature
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub


async def warnings_at_start(stub: ConductorStub, caplog: pytest.LogCaptureFixture, worker: Worker) -> list[str]:
    """Return the warnings of a handler until the worker has polled."""
    caplog.set_level(logging.WARNING)
    name = worker.get_task_definition_name()
    async with TaskHandlerAsyncIO(workers=[worker], configuration=Configuration(stub.url)):
        await stub.until(lambda: bool(stub.polls(name)))
    return [record.getMessage() for record in caplog.records]


def plain(x: int) -> None: ...


def mistyped(x: Undefined, y: int = 0) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unknown_return(x: int) -> Undefined: ...  # type: ignore[name-defined]  # noqa: F821


def prompt(name: str, function: Any, **options: Any) -> Worker:
    return Worker(name, function, idle_poll_timeout=0, poll_timeout=0, **options)


async def test_an_annotation_that_cannot_be_resolved_is_named_with_its_parameter(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    (warning,) = await warnings_at_start(conductor_stub, caplog, prompt("charge", mistyped))
    assert "worker 'charge'" in warning
    assert "mistyped" in warning
    assert "'x'" in warning
    assert "Undefined" in warning


async def test_an_annotation_of_the_result_that_cannot_be_resolved_is_named(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    (warning,) = await warnings_at_start(conductor_stub, caplog, prompt("charge", unknown_return))
    assert "the result of unknown_return" in warning


async def test_a_task_definition_that_is_not_registered_is_warned_of(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    worker = prompt("charge", plain, task_def=TaskDef(retry_count=5))
    (warning,) = await warnings_at_start(conductor_stub, caplog, worker)
    assert "worker 'charge'" in warning
    assert "task_def" in warning
    assert "register_task_def=True" in warning


async def test_a_registered_task_definition_is_not_warned_about(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_CHARGE_REGISTER_TASK_DEF", "on")
    worker = prompt("charge", plain, task_def=TaskDef(retry_count=5))
    warned = await warnings_at_start(conductor_stub, caplog, worker)
    assert not [line for line in warned if "task_def" in line]


async def test_a_worker_without_fault_starts_without_a_warning(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    assert await warnings_at_start(conductor_stub, caplog, prompt("charge", plain)) == []


class Payment(pydantic.BaseModel):
    order: str
    amount: decimal.Decimal = pydantic.Field(gt=0)


def pay(payment: Payment) -> None: ...


def pay_plainly(order: str, amount: Annotated[decimal.Decimal, msgspec.Meta(gt=0)]) -> None: ...


@pytest.mark.parametrize("strict", [False, True])
def test_a_bound_that_json_schema_cannot_express_is_left_out_and_said(
    strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    schema = read_signature(pay).input_schema(strict)
    assert schema is not None
    properties = schema["properties"]["payment"]["properties"]
    assert properties["order"] == {"type": "string"}
    assert properties["amount"]["type"] == ["number", "string"]
    (warning,) = caplog.messages
    assert "pay" in warning
    assert "Decimal with gt" in warning


def test_the_same_without_pydantic(caplog: pytest.LogCaptureFixture) -> None:
    schema = read_signature(pay_plainly).input_schema()
    assert schema is not None
    assert set(schema["properties"]) == {"order", "amount"}
    assert "exclusiveMinimum" not in schema["properties"]["amount"]
    assert "Decimal with gt" in caplog.text


def test_a_bound_that_the_schema_leaves_out_is_checked_all_the_same() -> None:
    from conductor.client.http.models.task import Task
    from conductor.client.worker.signature import InputError

    for function, given in ((pay, {"payment": {"order": "1", "amount": "-1"}}), (pay_plainly, {"amount": "-1"})):
        for strict in (False, True):
            with pytest.raises(InputError):
                read_signature(function).bind(Task(input_data={"order": "1", **given}), strict=strict)
