"""Durable steps on a server that has no place for them: a file in the directory of the journal."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from conductor import durable
from conductor.client.automator import session
from conductor.client.automator.step_file import StepFile
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.testing import ConductorStub

Program = Callable[[], Awaitable[dict[str, Any]]]


def run(stub: ConductorStub, program: Program, results: int) -> None:
    """Run a worker until the server has this many results."""

    async def main() -> None:
        handler = TaskHandlerAsyncIO(
            [Worker("program", program)],
            Configuration(stub.url),
            scan_for_annotated_workers=False,
            poll_timeout=0,
        )
        await handler.start()
        try:
            await asyncio.to_thread(stub.wait_results, results)
        finally:
            await handler.stop()

    asyncio.run(main())


def files() -> list[Path]:
    return sorted(Path(os.environ["CONDUCTOR_WORKER_JOURNAL_DIR"], "steps").glob("*.steps"))


def test_a_sleep_is_a_callback(conductor_stub: ConductorStub) -> None:
    calls: list[str] = []

    def note(value: str) -> str:
        calls.append(value)
        return value

    async def program() -> dict[str, Any]:
        first = await durable.step(note, "a", name="first")
        await durable.step(note, "b", name="second")
        await durable.sleep(1)
        return {"first": first}

    conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    (result,) = conductor_stub.results
    assert (result["status"], result["callbackAfterSeconds"]) == ("IN_PROGRESS", 1)
    (path,) = files()
    assert path.read_bytes().count(b"\n") == 3


def test_a_cancelled_wait_does_not_wake_the_task(conductor_stub: ConductorStub) -> None:
    async def program() -> dict[str, Any]:
        waiting = asyncio.create_task(durable.sleep(1, name="short"))
        await durable.step(len, "a", name="first")
        waiting.cancel()
        await asyncio.wait([waiting])
        await durable.sleep(100, name="long")
        return {}

    conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    (result,) = conductor_stub.results
    assert result["callbackAfterSeconds"] == 100


def test_wait_for_needs_a_coordinator(conductor_stub: ConductorStub) -> None:
    async def program() -> dict[str, Any]:
        return {"answer": await durable.wait_for("approval")}

    conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    (result,) = conductor_stub.results
    assert result["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert "wait_for('approval') needs the bundled coordinator" in result["reasonForIncompletion"]
    assert files() == []


@pytest.mark.parametrize("before, after", [(b"", b""), (b"", b"00000000 {"), (b"00000000 {\n", b"00")])
def test_a_retry_takes_over_the_steps_of_the_attempt_before(
    conductor_stub: ConductorStub, before: bytes, after: bytes
) -> None:
    calls: list[int] = []

    async def program() -> dict[str, Any]:
        await durable.step(calls.append, 1, name="first")
        if len(files()) == 1 and len(conductor_stub.results) == 0:
            raise RuntimeError("try again")
        await durable.step(calls.append, 2, name="second")
        return {"calls": len(calls)}

    first = conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    (path,) = files()
    path.write_bytes(before + path.read_bytes() + after)  # damaged lines do not hide the others
    conductor_stub.add_task("program", {}, retried_task_id=first)
    run(conductor_stub, program, 2)
    assert [result["status"] for result in conductor_stub.results] == ["FAILED", "COMPLETED"]
    assert conductor_stub.results[-1]["outputData"] == {"calls": 2}
    assert files() == []


def test_a_retry_after_a_terminal_error_continues_after_the_recorded_steps(conductor_stub: ConductorStub) -> None:
    calls: list[int] = []

    async def program() -> dict[str, Any]:
        await durable.step(calls.append, 1, name="first")
        if not conductor_stub.results:
            raise NonRetryableException("a person must look at it")
        return {}

    first = conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    conductor_stub.add_task("program", {}, retried_task_id=first)  # the workflow is retried
    run(conductor_stub, program, 2)
    assert [result["status"] for result in conductor_stub.results] == ["FAILED_WITH_TERMINAL_ERROR", "COMPLETED"]
    assert calls == [1]


def test_a_failure_is_reported_although_the_disk_is_full(
    conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewrite(_self: StepFile, _lines: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def refuse() -> None:
        raise ValueError("refused")

    async def program() -> dict[str, Any]:
        try:
            await durable.step(refuse)
        except ValueError:
            await durable.step(len, "a", name="second")  # records the failure of the first step
            raise
        return {}

    monkeypatch.setattr(StepFile, "_rewrite", rewrite)
    conductor_stub.add_task("program", {})
    run(conductor_stub, program, 1)
    (result,) = conductor_stub.results
    assert (result["status"], result["reasonForIncompletion"]) == ("FAILED", "ValueError: refused")


def test_a_call_of_an_unknown_workflow_fails_as_on_a_coordinator(
    coordinator: Any, conductor_clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> dict[str, Any]:
        try:
            return await durable.call("nothing")
        except durable.CallFailed as error:
            return {"reason": str(error)}

    async def execute() -> str:
        made = (ConductorWorkflow(None, "w") >> SimpleTask("program", "p")).to_workflow_def()
        request = StartWorkflowRequest(name="w", workflow_def=made)
        workflow_id = await asyncio.to_thread(workflows.start_workflow, request)
        configuration = Configuration(coordinator.url)
        async with TaskHandlerAsyncIO(
            [Worker("program", program)], configuration, scan_for_annotated_workers=False, poll_timeout=0
        ):
            while not (found := await asyncio.to_thread(workflows.get_workflow, workflow_id)).is_terminal:
                await asyncio.sleep(0.01)
        return str(found.output["reason"])

    workflows = conductor_clients.get_workflow_client()
    assert asyncio.run(execute()).startswith("workflow nothing could not be started: ")
    monkeypatch.setattr(session, "FEATURE_STEPS", "another feature")  # as on a Conductor server
    assert asyncio.run(execute()).startswith("workflow nothing could not be started: ")
