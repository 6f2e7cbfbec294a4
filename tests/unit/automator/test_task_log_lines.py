"""Every line of the worker's log about a task says which task it is; a failure brings its traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.protocol.wire import Verdict
from conductor.testing import ConductorStub, Judge, Status


async def worked(stub: ConductorStub, function: Callable[..., Any], **options: Any) -> str:
    """Let a worker do one task; the end that every line about it must have."""
    task_id = stub.add_task("job")
    handler_options = {name: options.pop(name) for name in list(options) if name == "journal_enabled"}
    worker = Worker("job", function, update_retry_delay_seconds=0, **options)
    configuration = Configuration(stub.url)
    async with TaskHandlerAsyncIO(workers=[worker], configuration=configuration, **handler_options):
        await stub.until(lambda: stub.requests_of("update"))
    return f"(task_type=job, task_id={task_id}, workflow_id={stub.task(task_id).workflow_instance_id})"


def fail() -> None:
    raise ValueError("boom")


def give_up() -> None:
    raise NonRetryableException("no such order")


def succeed() -> None: ...


def lines_about_tasks(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The first line of every record from where tasks are executed and reported."""
    modules = ("executor", "reporter", "lease", "redelivery", "progress")
    return [record.getMessage().partition("\n")[0] for record in caplog.records if record.module in modules]


@pytest.mark.parametrize("function", [fail, give_up, succeed])
@pytest.mark.parametrize("answer", ["COMMITTED", "CANCELLED", "REJECTED", "none"])
async def test_every_line_about_a_task_says_which(
    function: Callable[..., Any], answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "conductor")
    with ConductorStub(leases=True) as stub:
        if answer == "none":
            stub.script("update", Status(500), repeat=True)
        elif answer != "COMMITTED":
            stub.script("update", Judge(Verdict(answer)))
        label = await worked(stub, function, journal_enabled=answer != "none")
    lines = lines_about_tasks(caplog)
    assert lines
    assert [line for line in lines if not line.endswith(label)] == []


@pytest.mark.parametrize("function", [fail, give_up])
async def test_the_traceback_of_a_failure_is_in_the_workers_log(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture, conductor_stub: ConductorStub
) -> None:
    await worked(conductor_stub, function)
    (text,) = [record.getMessage() for record in caplog.records if record.module == "executor"]
    assert f"in {function.__name__}" in text
    assert "conductor/client" not in text, "lines of the user's own code only"


async def test_the_traceback_can_be_left_out(caplog: pytest.LogCaptureFixture, conductor_stub: ConductorStub) -> None:
    await worked(conductor_stub, fail, log_tracebacks=False)
    (text,) = [record.getMessage() for record in caplog.records if record.module == "executor"]
    assert "ValueError: boom" in text
    assert "Traceback" not in text
