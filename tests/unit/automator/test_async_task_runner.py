"""AsyncTaskRunner: one worker as a coroutine, against a real socket. The clock is the test's where waits matter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.event.task_runner_events import (
    PollCompleted,
    PollFailure,
    PollStarted,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskExecutionStarted,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    WorkerStarted,
)
from conductor.client.http.async_rest import AuthorizationException
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub, Delay, FakeClock, Status
from tests.unit.automator.worker_fixture import Events, Gate


async def double(value: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"doubled": value * 2}


async def fail(message: str) -> None:
    raise ValueError(message)


@asynccontextmanager
async def running(runner: AsyncTaskRunner) -> AsyncIterator[None]:
    """`run()` beside the test, and its good end."""
    work = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await asyncio.wait_for(work, 60)


def runner_of(stub: ConductorStub, worker: Worker, *listeners: object, **options: Any) -> AsyncTaskRunner:
    return AsyncTaskRunner(worker, Configuration(stub.url), event_listeners=listeners, **options)


async def test_async_worker_end_to_end(conductor_stub: ConductorStub) -> None:
    """Poll, execute, report: one of each."""
    task_id = conductor_stub.add_task("double", {"value": 21})
    assert await runner_of(conductor_stub, Worker("double", double, worker_id="me")).run_once() == 1
    assert [request.route for request in conductor_stub.requests] == ["poll", "update"]
    (result,) = conductor_stub.results_for(task_id)
    assert result["status"] == "COMPLETED"
    assert result["outputData"] == {"doubled": 42}
    assert result["workerId"] == "me"
    assert conductor_stub.task(task_id).status == "COMPLETED"


async def test_async_worker_with_none_return(conductor_stub: ConductorStub) -> None:
    async def nothing() -> None:
        return None

    conductor_stub.add_task("job")
    await runner_of(conductor_stub, Worker("job", nothing)).run_once()
    (result,) = conductor_stub.results
    assert (result["status"], result["outputData"]) == ("COMPLETED", {"result": None})


async def test_concurrency_limit_respected(conductor_stub: ConductorStub) -> None:
    """Never more than thread_count at once, and all of them in the end."""
    gate = Gate()
    for _ in range(10):
        conductor_stub.add_task("job")
    async with running(runner_of(conductor_stub, gate.worker("async def", thread_count=3, idle_poll_timeout=0))):
        for done in range(3, 10):
            await gate.until_entered(done)
            gate.let_go(1)
        gate.let_go()
        await conductor_stub.until_results(10)
    assert gate.most_inside == 3


async def test_multiple_concurrent_tasks(conductor_stub: ConductorStub) -> None:
    """All are inside before the first may leave."""
    gate = Gate()
    for _ in range(5):
        conductor_stub.add_task("job")
    work = asyncio.create_task(runner_of(conductor_stub, gate.worker("async def", thread_count=5)).run_once())
    await gate.until_entered(5)
    assert not conductor_stub.results
    gate.let_go()
    assert await work == 5
    assert len(conductor_stub.results) == 5


async def test_capacity_check_prevents_over_polling(conductor_stub: ConductorStub) -> None:
    gate = Gate()
    for _ in range(4):
        conductor_stub.add_task("job")
    async with running(runner_of(conductor_stub, gate.worker("async def", thread_count=2, idle_poll_timeout=0))):
        await gate.until_entered(2)
        gate.let_go(1)
        await gate.until_entered(3)
        polls = [int(poll.query["count"]) for poll in conductor_stub.polls()]
        gate.let_go()
    assert polls == [2, 1], "nothing was asked for while both slots were taken"


async def test_worker_exception_handling(conductor_stub: ConductorStub) -> None:
    """A failing task is reported as such, and the worker goes on."""
    events = Events()
    task_id = conductor_stub.add_task("job", {"message": "no such customer"})
    runner = runner_of(conductor_stub, Worker("job", fail), events)
    await runner.run_once()
    (result,) = conductor_stub.results_for(task_id)
    assert result["status"] == "FAILED"
    assert result["reasonForIncompletion"] == "ValueError: no such customer"
    assert "raise ValueError(message)" in result["logs"][0]["log"]
    assert isinstance(events.of(TaskExecutionFailure)[0].cause, ValueError)
    assert not events.of(TaskExecutionCompleted)
    conductor_stub.add_task("job", {"message": "again"})
    assert await runner.run_once() == 1


async def test_token_refresh_error_handling() -> None:
    """No token to be had: polls are refused, nothing breaks, and work begins when the server recovers."""
    clock, events = FakeClock(), Events()
    with ConductorStub(auth=("key", "secret"), clock=clock) as stub:
        stub.script("token", Status(500))
        stub.add_task("double", {"value": 1})
        settings = AuthenticationSettings("key", "secret")
        configuration = Configuration(stub.url, authentication_settings=settings)
        worker = Worker("double", double, idle_poll_timeout=0)
        runner = AsyncTaskRunner(worker, configuration, event_listeners=[events], clock=clock)
        async with running(runner):
            (failure,) = await events.until(PollFailure)
            assert isinstance(failure.cause, AuthorizationException)
            for failures in range(1, 5):  # the wait for the next token may outlast that for the next poll
                if await advance_past_refusal(clock, events, failures):
                    break
            await stub.until_results(1)
    assert stub.results[0]["outputData"] == {"doubled": 2}
    assert len(stub.tokens) == 1


async def advance_past_refusal(clock: FakeClock, events: Events, failures: int) -> bool:
    """Let the worker poll once more; True if it was served."""
    await clock.advance_to_next()
    await events.until_any((PollFailure, PollCompleted), failures + 1)
    return bool(events.of(PollCompleted))


async def test_auth_failure_backoff() -> None:
    """Refused polls wait 2, 4, 8 … seconds, a little less by chance."""
    clock, events = FakeClock(), Events()
    with ConductorStub(clock=clock) as stub:
        stub.script("poll", Status(401), repeat=True)
        worker = Worker("double", double)
        async with running(runner_of(stub, worker, events, clock=clock)):
            for _ in range(4):
                await clock.advance_to_next()
            await events.until(PollFailure, 5)
    for wait, longest in zip(clock.sleeps, [2, 4, 8, 16, 32], strict=False):
        assert 0.8 * longest <= wait <= longest


async def test_paused_worker_stops_polling(conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_DOUBLE_PAUSED", "true")
    events = Events()
    conductor_stub.add_task("double", {"value": 1})
    runner = runner_of(conductor_stub, Worker("double", double), events)
    assert await runner.run_once() == 0
    async with running(runner):
        await events.until(WorkerStarted)
    assert not conductor_stub.requests
    assert not events.of(PollStarted)


async def test_adaptive_backoff_on_empty_polls() -> None:
    clock = FakeClock()
    with ConductorStub(clock=clock) as stub:
        worker = Worker("double", double, poll_interval_millis=10, poll_timeout=0, idle_poll_timeout=0)
        async with running(runner_of(stub, worker, clock=clock)):
            for _ in range(6):
                await clock.advance_to_next()
            await clock.until_sleeping()
    assert clock.sleeps[:6] == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.010, 0.010])


async def test_task_result_serialization(conductor_stub: ConductorStub) -> None:
    """Python values arrive as JSON values."""

    class Colour(Enum):
        RED = "red"

    @dataclass
    class Line:
        sku: str
        prices: list[float]

    async def order() -> dict[str, Any]:
        return {
            "lines": [Line("a", [1.5, 2.0]), Line("b", [])],
            "by_name": {"x": Line("x", [0.1])},
            "when": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
            "colour": Colour.RED,
            "tags": {"only"},
            "nothing": None,
            "text": "Grüße ✓",
        }

    conductor_stub.add_task("order")
    await runner_of(conductor_stub, Worker("order", order)).run_once()
    assert conductor_stub.results[0]["outputData"] == {
        "lines": [{"sku": "a", "prices": [1.5, 2.0]}, {"sku": "b", "prices": []}],
        "by_name": {"x": {"sku": "x", "prices": [0.1]}},
        "when": "2024-01-02T03:04:05Z",
        "colour": "red",
        "tags": ["only"],
        "nothing": None,
        "text": "Grüße ✓",
    }


async def test_all_event_types_published() -> None:
    """The seven of the guide, each at its moment."""
    clock, events = FakeClock(), Events()
    with ConductorStub(clock=clock) as stub:
        stub.script("poll", Status(500))
        stub.script("update", *[Status(500)] * 4)
        runner = runner_of(stub, Worker("job", fail, update_retry_delay_seconds=0), events, journal_enabled=False)
        await runner.run_once()  # a failed poll
        stub.add_task("job", {"message": "x"})
        await runner.run_once()  # a failing task whose result cannot be delivered
        stub.add_task("double", {"value": 1})
        await runner_of(stub, Worker("double", double), events).run_once()
    guide = [
        PollStarted,
        PollFailure,
        PollStarted,
        PollCompleted,
        TaskExecutionStarted,
        TaskExecutionFailure,
        TaskUpdateFailure,
        PollStarted,
        PollCompleted,
        TaskExecutionStarted,
        TaskExecutionCompleted,
    ]
    assert [type(event) for event in events.all if type(event) in guide] == guide


async def test_custom_event_listener_integration(conductor_stub: ConductorStub) -> None:
    class SlaMonitor(TaskRunnerEventsListener):
        def __init__(self) -> None:
            self.late: list[str] = []

        def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
            if event.duration_ms > 1000:
                self.late.append(event.task_id)

    clock, monitor = FakeClock(), SlaMonitor()

    async def work(seconds: float) -> None:
        clock.advance(seconds)

    quick = conductor_stub.add_task("work", {"seconds": 0.5})
    slow = conductor_stub.add_task("work", {"seconds": 1.5})
    runner = runner_of(conductor_stub, Worker("work", work), monitor, clock=clock)
    await runner.run_once()
    await runner.run_once()
    assert monitor.late == [slow]
    assert quick not in monitor.late


async def test_multiple_event_listeners(conductor_stub: ConductorStub) -> None:
    """Each gets every event, in the same order."""
    listeners = [Events(), Events(), Events()]
    conductor_stub.add_task("double", {"value": 1})
    await runner_of(conductor_stub, Worker("double", double), *listeners).run_once()
    assert listeners[0].all
    assert listeners[0].all == listeners[1].all == listeners[2].all


async def test_event_listener_exception_isolation(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken listener is logged and never felt, by the worker or by the other listeners."""

    class Broken(TaskRunnerEventsListener):
        def on_poll_started(self, event: PollStarted) -> None:
            raise RuntimeError("broken at the start")

        def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
            raise RuntimeError("broken at the end")

    events = Events()
    conductor_stub.add_task("double", {"value": 1})
    assert await runner_of(conductor_stub, Worker("double", double), Broken(), events).run_once() == 1
    assert len(conductor_stub.results) == 1
    assert events.of(TaskExecutionCompleted)
    assert "Event listener failed: broken at the start" in caplog.messages
    assert "Event listener failed: broken at the end" in caplog.messages


async def test_event_data_accuracy() -> None:
    clock, events = FakeClock(), Events()

    async def work() -> dict[str, str]:
        clock.advance(0.25)
        return {"some": "output"}

    with ConductorStub(clock=clock) as stub:
        task_id = stub.add_task("work", workflow_instance_id="w-1")
        stub.script("poll", Delay(0.75))
        run = asyncio.create_task(
            runner_of(stub, Worker("work", work, worker_id="me", thread_count=4), events, clock=clock).run_once()
        )
        await clock.advance_to_next()
        await run
    started, completed = events.of(PollStarted)[0], events.of(PollCompleted)[0]
    assert (started.task_type, started.worker_id, started.poll_count) == ("work", "me", 4)
    assert completed.tasks_received == 1
    assert completed.duration_ms == pytest.approx(750)
    begun, done = events.of(TaskExecutionStarted)[0], events.of(TaskExecutionCompleted)[0]
    who = ("work", task_id, "me", "w-1")
    assert (begun.task_type, begun.task_id, begun.worker_id, begun.workflow_instance_id) == who
    assert (done.task_type, done.task_id, done.worker_id, done.workflow_instance_id) == who
    assert done.duration_ms == pytest.approx(250)
    assert done.output_size_bytes == len(b'{"some":"output"}')
    reported = events.of(TaskUpdateCompleted)[0]
    assert (reported.task_id, reported.attempts) == (task_id, 1)
    assert all(event.timestamp.tzinfo is not None for event in events.all)


async def test_metrics_collector_receives_events(conductor_stub: ConductorStub) -> None:
    collector = MetricsCollector()
    conductor_stub.add_task("double", {"value": 1})
    conductor_stub.add_task("double", {"value": "no number"})
    worker = Worker("double", double, thread_count=2)
    await runner_of(conductor_stub, worker, collector).run_once()
    text = collector.render().decode()
    collector.close()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    counted = {(sample.name, sample.labels.get("exception")): sample.value for sample in samples}
    assert counted["task_poll_total", None] == 1
    assert counted["task_execute_error_total", "InputError"] == 1
    assert counted["task_result_size_bytes_count", None] == 1
