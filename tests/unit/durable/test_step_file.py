"""Durable steps on a server that has no place for them: a file in the directory of the journal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from conductor import durable
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker
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
