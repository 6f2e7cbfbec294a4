"""Traps that others fell into, each tried on a whole worker; many have more tests elsewhere."""

from __future__ import annotations

import ast
import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conductor.client import automator
from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    PollFailure,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskUpdateCompleted,
    TaskUpdateFailure,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.worker import Worker
from conductor.testing import CloseAfter, ConductorStub, Reset, Status
from tests.unit.automator.worker_fixture import KINDS, Events, lines, of_kind

#: The lines that belong to the worker's core.
CORE = (1, 2, 3, 4, 5, 6, 8, 9, *range(12, 22), *range(24, 29), *range(32, 37))


@dataclass
class Address:
    street: str
    number: int


async def report_of(stub: ConductorStub, worker: Worker, input_data: Any = None, **options: Any) -> dict[str, Any]:
    """Run one task through a worker. Return its report."""
    task_id = stub.add_task("job", input_data)
    assert await AsyncTaskRunner(worker, Configuration(stub.url), **options).run_once() == 1
    (report,) = stub.results_for(task_id)
    return report


def test_every_trap_of_the_core_has_a_test_that_names_it() -> None:
    tests = Path(__file__).parents[2]
    text = "\n".join(path.read_text() for path in tests.rglob("test_*.py") if path.name != Path(__file__).name)
    text += Path(__file__).read_text()
    named = {int(number) for number in re.findall(r"\b[Pp](\d\d)\b|_p(\d\d)_", text) for number in number if number}
    assert set(CORE) <= named, f"nobody tests {sorted(set(CORE) - named)}"


@pytest.mark.parametrize("behaviour", [Status(503), Status(401), Reset()], ids=["503", "401", "reset"])
async def test_p01_an_async_worker_sees_the_errors_of_its_own_client(
    conductor_stub: ConductorStub, behaviour: Any
) -> None:
    events = Events()
    conductor_stub.script("poll", behaviour)
    conductor_stub.script("update", *[Status(503)] * 2)
    options: dict[str, Any] = {"event_listeners": [events]}
    worker = of_kind("async def", lambda task: {}, update_retry_delay_seconds=0)
    assert await AsyncTaskRunner(worker, Configuration(conductor_stub.url), **options).run_once() == 0
    await report_of(conductor_stub, worker, **options)
    assert len(events.of(PollFailure)) == 1
    assert events.of(TaskUpdateCompleted)[0].attempts == 3
    assert not events.of(TaskUpdateFailure)


@pytest.mark.parametrize("kind", KINDS)
async def test_p02_a_function_that_raised_is_never_published_as_completed(
    conductor_stub: ConductorStub, kind: str
) -> None:
    events = Events()
    await report_of(conductor_stub, of_kind(kind, lambda task: 1 / 0), event_listeners=[events])
    assert isinstance(events.of(TaskExecutionFailure)[0].cause, ZeroDivisionError)
    assert not events.of(TaskExecutionCompleted)


async def test_p05_an_async_function_gets_its_task(conductor_stub: ConductorStub) -> None:
    async def work(task: Task) -> dict[str, Any]:
        return {"id": task.task_id, "x": task.input_data["x"]}

    report = await report_of(conductor_stub, Worker("job", work), {"x": 5})
    assert report["outputData"] == {"id": report["taskId"], "x": 5}


@pytest.mark.parametrize("kind", KINDS)
async def test_p06_annotations_that_are_text_are_read(conductor_stub: ConductorStub, kind: str) -> None:
    """This file has `from __future__ import annotations`."""

    def work(address: Address, count: int = 1, note: str | None = None) -> dict[str, Any]:
        assert isinstance(address, Address)
        return {"street": address.street, "total": address.number * count, "note": note}

    async def work_async(address: Address, count: int = 1, note: str | None = None) -> dict[str, Any]:
        return work(address, count, note)

    assert work.__annotations__["address"] == "Address"
    worker = Worker("job", work if kind == "def" else work_async)
    report = await report_of(conductor_stub, worker, {"address": {"street": "Main", "number": "7"}, "count": 3})
    assert report["outputData"] == {"street": "Main", "total": 21, "note": None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": {"b": [0, object()]}}, "output.a.b[1]"),
        ({"rate": float("nan")}, "output.rate"),
        ({"rate": float("-inf")}, "output.rate"),
        (object(), "output.result"),
    ],
    ids=["object", "NaN", "infinity", "bare object"],
)
async def test_p09_output_that_cannot_be_sent_fails_the_task_for_good(
    conductor_stub: ConductorStub, kind: str, value: Any, path: str
) -> None:
    report = await report_of(conductor_stub, of_kind(kind, lambda task: value))
    assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert report["reasonForIncompletion"].startswith(path)


class TestP12:
    """Output, logs and callbacks that a task sets through its context are reported."""

    @pytest.mark.parametrize("kind", KINDS)
    async def test_p12_set_output_is_not_lost(self, conductor_stub: ConductorStub, kind: str) -> None:
        def work(task: Any) -> dict[str, int]:
            get_task_context().set_output({"from": "context", "kept": 1})
            return {"from": 2}

        report = await report_of(conductor_stub, of_kind(kind, work))
        assert report["outputData"] == {"from": 2, "kept": 1}

    @pytest.mark.parametrize("kind", KINDS)
    async def test_p12_set_callback_after_and_a_return_do_not_complete_the_task(
        self, conductor_stub: ConductorStub, kind: str
    ) -> None:
        def work(task: Any) -> dict[str, str]:
            get_task_context().set_callback_after(20)
            return {"state": "waiting"}

        report = await report_of(conductor_stub, of_kind(kind, work))
        assert (report["status"], report["callbackAfterSeconds"]) == ("IN_PROGRESS", 20)
        assert report["outputData"] == {"state": "waiting"}

    @pytest.mark.parametrize("kind", KINDS)
    async def test_p12_a_result_of_its_own_takes_them_along(self, conductor_stub: ConductorStub, kind: str) -> None:
        def work(task: Any) -> TaskResult:
            get_task_context().set_output({"a": 1})
            get_task_context().add_log("said")
            return TaskResult(status="COMPLETED", output_data={"b": 2})  # type: ignore[arg-type]

        report = await report_of(conductor_stub, of_kind(kind, work))
        assert report["outputData"] == {"a": 1, "b": 2}
        assert [entry["log"] for entry in report["logs"]] == ["said"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
async def test_p13_nothing_a_task_raises_is_swallowed_or_ends_the_worker(
    conductor_stub: ConductorStub, kind: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    events = Events()

    def work(task: Any) -> None:
        raise error

    report = await report_of(conductor_stub, of_kind(kind, work), event_listeners=[events])
    name = type(error).__name__
    assert report["status"] == "FAILED"
    assert report["reasonForIncompletion"].startswith(name)
    assert name in report["logs"][0]["log"]
    assert events.of(TaskExecutionFailure)[0].cause is error
    assert any(name in line for line in lines(caplog))


@pytest.mark.parametrize("kind", KINDS)
async def test_p14_logs_of_a_failed_task_arrive(conductor_stub: ConductorStub, kind: str) -> None:
    def work(task: Any) -> None:
        get_task_context().add_log("half way")
        raise ValueError("bad")

    report = await report_of(conductor_stub, of_kind(kind, work))
    trace, said = report["logs"]
    assert "ValueError: bad" in trace["log"]
    assert said["log"] == "half way"
    assert abs(said["createdTime"] - trace["createdTime"]) < 60_000, "both in milliseconds"


async def test_p15_a_task_in_progress_from_a_returned_coroutine_is_one(conductor_stub: ConductorStub) -> None:
    async def later() -> TaskInProgress:
        return TaskInProgress(9)

    report = await report_of(conductor_stub, Worker("job", lambda: later()))
    assert (report["status"], report["callbackAfterSeconds"]) == ("IN_PROGRESS", 9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "No such file or directory: 'a.txt'"),
        (ValueError(), "ValueError"),
        (KeyError("key"), "KeyError: 'key'"),
        (OSError("disk"), "OSError: disk"),
        (RuntimeError("a", "b"), "RuntimeError: ('a', 'b')"),
    ],
    ids=repr,
)
async def test_p24_the_reason_says_what_happened(
    conductor_stub: ConductorStub, kind: str, error: Exception, reason: str
) -> None:
    def work(task: Any) -> None:
        raise error

    report = await report_of(conductor_stub, of_kind(kind, work))
    assert reason in report["reasonForIncompletion"]
    assert report["reasonForIncompletion"].startswith(type(error).__name__)


def test_p32_no_duration_is_measured_with_the_wall_clock() -> None:
    """`time.time` may jump: it stamps what people read, through the Clock, and nothing else."""
    for path in Path(next(iter(automator.__path__))).glob("*.py"):
        calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not {"time.time", "datetime.now", "datetime.utcnow"} & set(calls), path.name


async def test_p35_connections_that_the_server_closes_cost_no_attempt(conductor_stub: ConductorStub) -> None:
    """Ten tasks over connections that are all closed after their first answer."""
    events = Events()
    conductor_stub.script("poll", CloseAfter(), repeat=True)
    conductor_stub.script("update", CloseAfter(), repeat=True)
    runner = AsyncTaskRunner(
        of_kind("async def", lambda task: {}), Configuration(conductor_stub.url), event_listeners=[events]
    )
    work = asyncio.create_task(runner.run())
    for _ in range(10):
        conductor_stub.add_task("job")
    await events.until(TaskUpdateCompleted, 10)
    runner.stop()
    conductor_stub.stop()
    await work
    assert {event.attempts for event in events.of(TaskUpdateCompleted)} == {1}
    assert len(conductor_stub.results) == 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_p34_memory_does_not_grow_with_the_work_done(conductor_stub: ConductorStub, kind: str) -> None:
    """A process that has done thousands of tasks, failures among them, is as small as one that has done hundreds."""
    from conductor.client.automator.task_handler import TaskHandler
    from tests.unit.automator import portable_workers

    function = portable_workers.own_memory if kind == "def" else portable_workers.own_memory_async
    worker = Worker("job", function, thread_count=20, idle_poll_timeout=0)
    with TaskHandler([worker], Configuration(conductor_stub.url), start_method="forkserver") as handler:
        handler.start_processes()
        warm = max(memory_of(conductor_stub, 3000))
        later = max(memory_of(conductor_stub, 15_000))
    assert later - warm < 3_000_000, f"grew by {later - warm} bytes in 15,000 tasks"


def memory_of(stub: ConductorStub, tasks: int) -> list[int]:
    """Let that many tasks be done; what the last hundred saw of the process's memory."""
    before = len(stub.results)
    for number in range(tasks):
        stub.add_task("job", {"number": number})
    stub.wait_results(before + tasks, timeout=300)
    outputs = [result["outputData"] for result in stub.results[-100:]]
    return [output["bytes"] for output in outputs if "bytes" in output]
