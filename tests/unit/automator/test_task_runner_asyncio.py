"""TaskRunnerAsyncIO: one worker on the program's own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskContext, TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    PollFailure,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskLeaseLost,
    TaskUpdateCompleted,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub, FakeClock, Status
from tests.unit.automator.worker_fixture import KINDS, Events, Gate, lines, of_kind, turn_loop


def echo(task: Task) -> dict[str, Any]:
    return dict(task.input_data)


async def echo_async(task: Task) -> dict[str, Any]:
    await asyncio.sleep(0)
    return dict(task.input_data)


def runner_of(stub: ConductorStub, worker: Any, *listeners: object, **options: Any) -> TaskRunnerAsyncIO:
    return TaskRunnerAsyncIO(worker=worker, configuration=Configuration(stub.url), event_listeners=listeners, **options)


@asynccontextmanager
async def running(runner: AsyncTaskRunner) -> AsyncIterator[asyncio.Task[None]]:
    work = asyncio.create_task(runner.run())
    try:
        yield work
    finally:
        runner.stop()
        await asyncio.wait_for(work, 60)


class TestConstruction:
    def test_a_runner_takes_a_worker_a_class_or_a_decorated_function(self) -> None:
        class Echo(WorkerInterface):
            def execute(self, task: Task) -> dict[str, Any]:
                return echo(task)

        worker_task("decorated")(echo)
        for given, name in ((Worker("a", echo), "a"), (Echo("b"), "b"), (echo, "decorated")):
            assert TaskRunnerAsyncIO(given).worker.get_task_definition_name() == name

    def test_a_runner_refuses_a_function_that_is_no_worker(self) -> None:
        with pytest.raises(TypeError, match="decorated with @worker_task"):
            TaskRunnerAsyncIO(echo)

    async def test_concurrency_is_one_unless_it_is_said(self, conductor_stub: ConductorStub) -> None:
        await runner_of(conductor_stub, Worker("job", echo, poll_timeout=0)).run_once()
        assert conductor_stub.polls()[0].query["count"] == "1"

    async def test_max_concurrent_tasks_is_the_number_of_slots(self, conductor_stub: ConductorStub) -> None:
        worker = Worker("job", echo, poll_timeout=0, thread_count=2)
        await runner_of(conductor_stub, worker, max_concurrent_tasks=5).run_once()
        assert conductor_stub.polls()[0].query["count"] == "5"

    async def test_a_runner_leaves_the_worker_as_it_was(self, conductor_stub: ConductorStub) -> None:
        """Another runner may use the same worker."""
        worker = Worker("job", echo, thread_count=2)
        runner_of(conductor_stub, worker, max_concurrent_tasks=5)
        assert worker.thread_count == 2

    def test_a_runner_opens_nothing_before_it_runs(self, conductor_stub: ConductorStub) -> None:
        before = threading.active_count()
        runner_of(conductor_stub, Worker("job", echo))
        assert threading.active_count() == before


class TestOneTask:
    @pytest.mark.parametrize("function", [echo, echo_async], ids=KINDS)
    async def test_one_task_is_polled_executed_and_reported(self, conductor_stub: ConductorStub, function: Any) -> None:
        task_id = conductor_stub.add_task("job", {"x": 1})
        assert await runner_of(conductor_stub, Worker("job", function)).run_once() == 1
        assert conductor_stub.task(task_id).output_data == {"x": 1}
        assert conductor_stub.task(task_id).status == "COMPLETED"

    async def test_a_coroutine_runs_on_the_loop_and_a_def_in_a_thread(self, conductor_stub: ConductorStub) -> None:
        """P05: no coroutine is ever run anywhere else."""

        def where_def() -> str:
            return threading.current_thread().name

        async def where_async() -> int:
            asyncio.get_running_loop()
            return threading.get_ident()

        conductor_stub.add_task("def")
        conductor_stub.add_task("async")
        await runner_of(conductor_stub, Worker("def", where_def)).run_once()
        await runner_of(conductor_stub, Worker("async", where_async)).run_once()
        in_thread, on_loop = (result["outputData"]["result"] for result in conductor_stub.results)
        assert in_thread.startswith("worker-def")
        assert on_loop == threading.get_ident()

    async def test_a_def_does_not_block_the_loop(self, conductor_stub: ConductorStub) -> None:
        gate = Gate()
        conductor_stub.add_task("job")
        run = asyncio.create_task(runner_of(conductor_stub, gate.worker("def")).run_once())
        await gate.until_entered(1)  # the loop is alive while the function holds its thread
        gate.let_go()
        assert await run == 1

    async def test_a_def_that_returns_a_coroutine_ends_on_the_loop(self, conductor_stub: ConductorStub) -> None:
        """P15: also when what comes out in the end is a TaskInProgress."""

        async def later() -> Any:
            assert threading.get_ident() == loop_thread
            return TaskInProgress(7, {"half": True})

        loop_thread = threading.get_ident()
        conductor_stub.add_task("job")
        await runner_of(conductor_stub, Worker("job", lambda: later())).run_once()
        (result,) = conductor_stub.results
        assert (result["status"], result["callbackAfterSeconds"]) == ("IN_PROGRESS", 7)

    async def test_a_class_with_an_async_execute(self, conductor_stub: ConductorStub) -> None:
        """P05: class-based async workers work."""

        class Echo(WorkerInterface):
            async def execute(self, task: Task) -> dict[str, Any]:
                await asyncio.sleep(0)
                return {"thread": threading.get_ident(), **task.input_data}

        conductor_stub.add_task("job", {"x": 1})
        await runner_of(conductor_stub, Echo("job")).run_once()
        assert conductor_stub.results[0]["outputData"] == {"thread": threading.get_ident(), "x": 1}

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_failure_is_reported(self, conductor_stub: ConductorStub, kind: str) -> None:
        def fail(task: Task) -> None:
            raise LookupError("nothing here")

        events = Events()
        conductor_stub.add_task("job")
        await runner_of(conductor_stub, of_kind(kind, fail), events).run_once()
        (result,) = conductor_stub.results
        assert (result["status"], result["reasonForIncompletion"]) == ("FAILED", "LookupError: nothing here")
        assert events.of(TaskExecutionFailure)
        assert not events.of(TaskExecutionCompleted)


class TestRunOnce:
    async def test_run_once_never_raises(self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
        assert await runner_of(conductor_stub, Worker("job")).run_once() == 0  # a worker with nothing to run
        (line,) = [line for line in lines(caplog) if line.startswith("Error in run_once: ")]
        assert "nothing to run" in line

    @pytest.mark.parametrize("status", [401, 404, 500])
    async def test_a_failed_poll_is_no_task(self, conductor_stub: ConductorStub, status: int) -> None:
        events = Events()
        conductor_stub.script("poll", Status(status))
        assert await runner_of(conductor_stub, Worker("job", echo), events).run_once() == 0
        assert len(events.of(PollFailure)) == 1

    async def test_run_once_returns_when_all_its_tasks_have_their_verdict(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        for _ in range(4):
            conductor_stub.add_task("job")
        worker = Worker("job", echo_async)
        assert await runner_of(conductor_stub, worker, events, max_concurrent_tasks=4).run_once() == 4
        assert len(events.of(TaskUpdateCompleted)) == 4


class TestConcurrency:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("slots", [1, 5])
    async def test_concurrency_is_used_and_never_exceeded(
        self, conductor_stub: ConductorStub, kind: str, slots: int
    ) -> None:
        gate = Gate()
        for _ in range(12):
            conductor_stub.add_task("job")
        worker = gate.worker(kind, idle_poll_timeout=0)
        async with running(runner_of(conductor_stub, worker, max_concurrent_tasks=slots)):
            await gate.until_entered(slots)
            gate.let_go()
            await conductor_stub.until_results(12)
        assert gate.most_inside == slots


class TestTimeouts:
    """A task's own timeout fails it; the end of its lease takes it away."""

    DEFINITION = TaskDef(name="job", timeout_seconds=5, timeout_policy="TIME_OUT_WF", response_timeout_seconds=3600)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_the_tasks_own_timeout_is_a_failure(self, kind: str) -> None:
        clock, events, gate = FakeClock(), Events(), Gate()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", task_definition=self.DEFINITION)
            run = asyncio.create_task(runner_of(stub, gate.worker(kind), events, clock=clock).run_once())
            await gate.until_entered(1)
            await clock.until_sleeping(1)
            clock.advance(5)
            await stub.until_results(1)
            gate.let_go()
            await run
        (result,) = stub.results
        assert result["status"] == "FAILED"
        assert result["reasonForIncompletion"].startswith("TimeoutError: ")
        assert "5 s" in result["reasonForIncompletion"]
        (failure,) = events.of(TaskExecutionFailure)
        assert isinstance(failure.cause, TimeoutError)
        assert failure.duration_ms == pytest.approx(5000)

    async def test_a_coroutine_is_cancelled_by_it_and_may_clean_up(self) -> None:
        clock, cleaned = FakeClock(), asyncio.Event()

        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.set()

        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", task_definition=self.DEFINITION)
            run = asyncio.create_task(runner_of(stub, Worker("job", forever), clock=clock).run_once())
            await clock.until_sleeping(1)
            clock.advance(5)
            await run
        assert cleaned.is_set()
        assert len(stub.results) == 1

    async def test_a_def_that_goes_on_keeps_its_slot(self, caplog: pytest.LogCaptureFixture) -> None:
        clock, gate, events = FakeClock(), Gate(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", task_definition=self.DEFINITION)
            stub.add_task("job")
            runner = runner_of(stub, gate.worker("def", idle_poll_timeout=0), events, clock=clock)
            async with running(runner):
                await gate.until_entered(1)
                await clock.until_sleeping(1)
                clock.advance(5)
                await events.until(TaskUpdateCompleted)
                await turn_loop()
                assert len(stub.polls()) == 1, "its slot is taken until it has really returned"
                async with asyncio.timeout(60):  # the warning follows a second after the stop
                    while not any("its slot stays taken" in line for line in lines(caplog)):
                        await asyncio.sleep(0.05)
                gate.let_go()
                await stub.until_results(2)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_the_end_of_the_lease_takes_the_task_away(self, kind: str) -> None:
        clock, events, gate = FakeClock(), Events(), Gate()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", response_timeout_seconds=10)
            run = asyncio.create_task(runner_of(stub, gate.worker(kind), events, clock=clock).run_once())
            await gate.until_entered(1)
            await clock.until_sleeping(1)
            clock.advance(10)
            await events.until(TaskLeaseLost)
            gate.let_go()
            await run
        assert not stub.requests_of("update"), "nothing is said about a task that is somebody else's"

    async def test_alert_only_is_no_timeout(self) -> None:
        clock, gate = FakeClock(), Gate()
        definition = TaskDef(name="job", timeout_seconds=5, timeout_policy="ALERT_ONLY")
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", task_definition=definition)
            run = asyncio.create_task(runner_of(stub, gate.worker("async def"), clock=clock).run_once())
            await gate.until_entered(1)
            await clock.until_sleeping(1)
            clock.advance(100)
            await turn_loop()
            gate.let_go()
            await run
        assert stub.results[0]["status"] == "COMPLETED"

    async def test_a_def_can_see_that_it_must_stop(self) -> None:
        clock = FakeClock()

        def patient() -> str:
            assert get_task_context().wait_cancelled(60)
            return get_task_context().cancel_reason or ""

        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", task_definition=self.DEFINITION)
            run = asyncio.create_task(runner_of(stub, Worker("job", patient), clock=clock).run_once())
            await clock.until_sleeping(1)
            clock.advance(5)
            await run
        assert stub.results[0]["reasonForIncompletion"].startswith("TimeoutError: ")

    ENDS = ({"response_timeout_seconds": 5}, {"task_definition": DEFINITION})

    @pytest.mark.parametrize("end", ENDS, ids=["lease", "timeout"])
    async def test_a_def_that_returns_after_its_timeout_is_too_late(
        self, monkeypatch: pytest.MonkeyPatch, end: dict[str, Any]
    ) -> None:
        """The function may return before the loop has heard of the end: it is the end that counts."""
        clock, events = FakeClock(), Events()
        cancel = TaskContext.cancel

        def cancel_and_let_the_others_run(self: TaskContext, reason: str) -> None:
            cancel(self, reason)
            if threading.current_thread().name == "conductor-leases":
                events.wait_any((TaskLeaseLost, TaskExecutionFailure, TaskExecutionCompleted))

        def work() -> None:
            get_task_context().wait_cancelled(60)
            get_task_context().raise_if_cancelled()

        monkeypatch.setattr(TaskContext, "cancel", cancel_and_let_the_others_run)
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job", **end)
            run = asyncio.create_task(runner_of(stub, Worker("job", work), events, clock=clock).run_once())
            await clock.until_sleeping(1)
            clock.advance(5)
            await run
        causes = [type(event.cause) for event in events.of(TaskExecutionFailure)]
        assert causes == ([TimeoutError] if "task_definition" in end else [])
        assert not events.of(TaskExecutionCompleted)


class TestHttpClient:
    """A user's `httpx.AsyncClient` is used for all requests, and only the user closes it."""

    async def test_a_shared_client_serves_several_runners(self, conductor_stub: ConductorStub) -> None:
        async with httpx.AsyncClient(headers={"X-Mine": "yes"}) as client:
            for n in range(2):
                conductor_stub.add_task("job", {"n": n})
                runner = runner_of(conductor_stub, Worker("job", echo), http_client=client)
                assert await runner.run_once() == 1
            assert not client.is_closed
        assert all(request.headers["x-mine"] == "yes" for request in conductor_stub.requests)

    async def test_without_an_http_client_the_runner_closes_its_own(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        runner = runner_of(conductor_stub, Worker("job", echo))
        await runner.run_once()
        assert runner.http_client is None
        assert await runner.run_once() == 0, "and the next run has a new one"

    async def test_a_refused_connection_of_theirs_is_a_failed_poll(self) -> None:
        events = Events()
        stub = ConductorStub()
        stub.start()
        stub.stop()
        async with httpx.AsyncClient() as client:
            assert await runner_of(stub, Worker("job", echo), events, http_client=client).run_once() == 0
        assert len(events.of(PollFailure)) == 1


class TestStopping:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_stopping_finishes_running_tasks(self, conductor_stub: ConductorStub, kind: str) -> None:
        gate, events = Gate(), Events()
        conductor_stub.add_task("job")
        conductor_stub.add_task("job")
        runner = runner_of(conductor_stub, gate.worker(kind, idle_poll_timeout=0), events)
        async with running(runner):
            await gate.until_entered(1)
            runner.stop()
            polls = len(conductor_stub.polls())
            gate.let_go()
        assert len(conductor_stub.results) == 1
        assert len(conductor_stub.polls()) == polls
        order = [type(event) for event in events.of(WorkerStarted, WorkerStopping, TaskUpdateCompleted, WorkerStopped)]
        assert order == [WorkerStarted, WorkerStopping, TaskUpdateCompleted, WorkerStopped]

    @pytest.mark.parametrize("kind", KINDS)
    async def test_stopping_carries_what_the_poll_under_way_brings(
        self, conductor_stub: ConductorStub, kind: str
    ) -> None:
        """P03: the server has given these tasks to this worker; no other worker will run them."""
        gate, events = Gate(), Events()
        gate.let_go()
        runner = runner_of(conductor_stub, gate.worker(kind, idle_poll_timeout=0), events, max_concurrent_tasks=4)
        conductor_stub.add_task("job")
        async with running(runner):
            await conductor_stub.until_results(1)  # there is an idle thread now
            conductor_stub.hold("poll")
            await conductor_stub.until(lambda: conductor_stub.held("poll") == 1)
            runner.stop()
            for _ in range(3):
                conductor_stub.add_task("job")
            conductor_stub.release()
        assert len(conductor_stub.results) == 4

    async def test_a_parked_poll_that_rings_at_the_end_brings_its_task_and_no_other(self) -> None:
        """After the order to stop there is no new poll, not even for the rest of what is there."""
        clock, gate = FakeClock(), Gate()
        gate.let_go()
        with ConductorStub(clock=clock) as stub:
            runner = runner_of(stub, gate.worker("async def"), clock=clock, max_concurrent_tasks=5)
            async with running(runner):
                await clock.run_for(2)
                await stub.until(lambda: stub.parked_polls == 1)
                polls = len(stub.polls())
                runner.stop()
                stub.add_task("job")
            assert len(stub.results) == 1
            assert len(stub.polls()) == polls

    async def test_stopping_before_the_start_is_no_error(self, conductor_stub: ConductorStub) -> None:
        runner = runner_of(conductor_stub, Worker("job", echo))
        runner.stop()
        conductor_stub.add_task("job")
        assert await runner.run_once() == 1

    async def test_stopping_leaves_nothing_on_the_loop(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        before = asyncio.all_tasks()
        runner = runner_of(conductor_stub, Worker("job", echo_async, idle_poll_timeout=0))
        async with running(runner):
            await conductor_stub.until_results(1)
        await turn_loop()
        assert asyncio.all_tasks() == before
