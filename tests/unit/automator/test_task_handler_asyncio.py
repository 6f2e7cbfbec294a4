"""TaskHandlerAsyncIO: all workers on one event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.automator import task_handler_asyncio, worker_group
from conductor.client.automator.journal import read_contents
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.context.task_context import get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskExecutionStarted,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    TaskUpdateRetried,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.registry import DuplicateWorkerError
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import ConfigurationError
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub, FakeClock, Status
from tests.unit.automator.worker_fixture import KINDS, Events, Gate, lines, of_kind, turn_loop


def nothing(task: Task) -> None:
    return None


def handler_of(stub: ConductorStub, *workers: Any, **options: Any) -> TaskHandlerAsyncIO:
    return TaskHandlerAsyncIO(workers=list(workers), configuration=Configuration(stub.url), **options)


def prompt(name: str = "job", function: Any = nothing, **options: Any) -> Worker:
    """A worker that never parks a poll, so that it stops at once on a Conductor server."""
    return Worker(name, function, idle_poll_timeout=0, poll_timeout=0, **options)


class TestConstruction:
    def test_a_new_handler_keeps_what_it_was_given(self) -> None:
        worker, configuration = prompt(), Configuration()
        handler = TaskHandlerAsyncIO([worker], configuration)
        assert handler.workers == [worker]
        assert handler.configuration is configuration
        assert handler.http_client is None
        assert handler.task_runners == []

    def test_without_workers_a_handler_runs_the_decorated_ones(self) -> None:
        worker_task("decorated")(nothing)
        assert [w.get_task_definition_name() for w in TaskHandlerAsyncIO().workers] == ["decorated"]

    def test_a_handler_can_be_made_without_any_worker(self) -> None:
        assert TaskHandlerAsyncIO().workers == []

    def test_two_workers_for_one_type_are_refused_when_the_registry_is_strict(self) -> None:
        with pytest.raises(DuplicateWorkerError, match="'job'"):
            TaskHandlerAsyncIO([Worker("job", nothing), Worker("job", lambda: 1)], strict_registry=True)

    def test_a_new_handler_does_nothing_yet(self, conductor_stub: ConductorStub) -> None:
        before = threading.active_count()
        handler = handler_of(conductor_stub, prompt())
        assert not handler.is_healthy()
        assert threading.active_count() == before
        assert not conductor_stub.requests


class TestStarting:
    async def test_async_with_starts_and_stops(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        async with handler_of(conductor_stub, prompt()) as handler:
            assert handler.is_healthy()
            assert [runner.name for runner in handler.task_runners] == ["job"]
            await conductor_stub.until_results(1)
        assert not handler.is_healthy()

    async def test_start_and_stop_by_hand(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, prompt())
        await handler.start()
        await conductor_stub.until(conductor_stub.polls)
        await handler.stop()
        assert not handler.is_healthy()

    async def test_a_second_start_is_refused(self, conductor_stub: ConductorStub) -> None:
        async with handler_of(conductor_stub, prompt()) as handler:
            with pytest.raises(RuntimeError, match="already"):
                await handler.start()

    async def test_a_handler_can_be_started_again(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, prompt())
        for run in (1, 2):
            conductor_stub.add_task("job")
            async with handler:
                await conductor_stub.until_results(run)
        assert [result["status"] for result in conductor_stub.results] == ["COMPLETED"] * 2

    async def test_a_bad_option_stops_the_start(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, prompt(), prompt("bad", thread_count=-1))
        with pytest.raises(ConfigurationError, match="'bad', thread_count"):
            await handler.start()
        assert not conductor_stub.requests

    async def test_a_worker_with_nothing_to_run_stops_the_start(self, conductor_stub: ConductorStub) -> None:
        with pytest.raises(ValueError, match="worker 'empty' has nothing to run"):
            await handler_of(conductor_stub, prompt(), Worker("empty")).start()

    async def test_starting_without_workers_says_so(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with handler_of(conductor_stub, scan_for_annotated_workers=False):
            pass
        assert any("no workers" in line for line in lines(caplog))

    async def test_wait_waits_for_the_end(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, prompt())
        await handler.start()
        waiting = asyncio.create_task(handler.wait())
        await conductor_stub.until(conductor_stub.polls)
        assert not waiting.done()
        await handler.stop()
        await asyncio.wait_for(waiting, 60)

    async def test_paused_it_takes_nothing_from_a_coordinator_at_once(self) -> None:
        """The poll that waits for work is taken back, and the server gives it nothing."""
        with ConductorStub(leases=True) as stub:
            async with handler_of(stub, Worker("job", nothing, idle_poll_timeout=5000)) as handler:
                await stub.until(lambda: stub.parked_polls and stub.polls()[-1].query["timeout"] == "5000")
                handler.pause("job")
                await stub.until(lambda: stub.polls()[-1].query["count"] == "0" and not stub.parked_polls)
                task_id, polls = stub.add_task("job"), len(stub.polls())
                await turn_loop()
                assert stub.task(task_id).status == "SCHEDULED"
                assert len(stub.polls()) == polls
                handler.resume("job")
                await stub.until_results(1)

    async def test_a_handler_installs_no_signal_handler(self, conductor_stub: ConductorStub) -> None:
        import signal

        kept = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        before = [signal.getsignal(number) for number in kept]
        async with handler_of(conductor_stub, prompt()):
            assert [signal.getsignal(number) for number in kept] == before
        assert [signal.getsignal(number) for number in kept] == before


class TestWorkersTogether:
    async def test_sync_and_async_side_by_side(self, conductor_stub: ConductorStub) -> None:
        async def on_loop() -> dict[str, int]:
            return {"thread": threading.get_ident(), "pid": os.getpid()}

        def in_thread() -> dict[str, int]:
            return {"thread": threading.get_ident(), "pid": os.getpid()}

        ids = {name: conductor_stub.add_task(name) for name in ("a", "b")}
        async with handler_of(conductor_stub, prompt("a", on_loop), prompt("b", in_thread)):
            await conductor_stub.until_results(2)
        outputs = {name: conductor_stub.results_for(task_id)[0]["outputData"] for name, task_id in ids.items()}
        assert outputs["a"] == {"thread": threading.get_ident(), "pid": os.getpid()}
        assert outputs["b"]["thread"] != threading.get_ident()
        assert outputs["b"]["pid"] == os.getpid(), "one process for all"

    async def test_a_hundred_workers_run_together(self, conductor_stub: ConductorStub) -> None:
        async def own_type() -> str:
            return get_task_context().task_def_name

        workers = [prompt(f"job{n}", own_type) for n in range(100)]
        for n in range(100):
            conductor_stub.add_task(f"job{n}")
        async with handler_of(conductor_stub, *workers):
            await conductor_stub.until_results(100, timeout=60)
        assert {result["outputData"]["result"] for result in conductor_stub.results} == {f"job{n}" for n in range(100)}

    async def test_a_full_worker_does_not_hold_up_another(self, conductor_stub: ConductorStub) -> None:
        gate = Gate()
        conductor_stub.add_task("full")
        async with handler_of(conductor_stub, gate.worker("def", "full", idle_poll_timeout=0), prompt("free")):
            await gate.until_entered(1)
            free = conductor_stub.add_task("free")
            await conductor_stub.until_results(1)
            assert [result["taskId"] for result in conductor_stub.results] == [free]
            gate.let_go()

    async def test_a_failing_worker_does_not_hold_up_another(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.script(lambda r: r.task_type == "bad", Status(500), repeat=True)
        async with handler_of(conductor_stub, prompt("bad"), prompt("good")):
            await conductor_stub.until(lambda: conductor_stub.polls("bad"))
            good = conductor_stub.add_task("good")
            await conductor_stub.until_results(1)
        assert [result["taskId"] for result in conductor_stub.results] == [good]

    async def test_a_bug_of_ours_is_loud_and_the_worker_starts_again(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        from conductor.client.automator.poller import Poller

        clock = FakeClock()
        broken = iter([RuntimeError("a bug")])
        poll = Poller.poll

        async def poll_with_a_bug(self: Any, free: int) -> Any:
            for error in broken:
                raise error
            return await poll(self, free)

        monkeypatch.setattr(Poller, "poll", poll_with_a_bug)
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job")
            async with handler_of(stub, of_kind("def", nothing, idle_poll_timeout=0), clock=clock):
                await clock.advance_to_next()
                await stub.until_results(1)
        assert any("Worker 'job' failed" in line for line in lines(caplog, logging.CRITICAL))

    async def test_events_of_all_workers_reach_all_listeners(self, conductor_stub: ConductorStub) -> None:
        first, second = Events(), Events()
        for name in ("a", "b"):
            conductor_stub.add_task(name)
        async with handler_of(conductor_stub, prompt("a"), prompt("b"), event_listeners=[first, second]):
            await first.until(TaskExecutionCompleted, 2)
            await conductor_stub.until_results(2)
        assert {event.task_type for event in first.of(TaskExecutionStarted)} == {"a", "b"}
        assert first.all == second.all

    async def test_the_handlers_own_client_can_be_used_while_it_runs_c11(self, conductor_stub: ConductorStub) -> None:
        """`http_client` is the client that all workers share, and None again after the end."""
        task_id = conductor_stub.add_task("other")
        async with handler_of(conductor_stub, prompt("a"), prompt("b")) as handler:
            assert handler.http_client is not None
            task = await handler.http_client.call_for(dict[str, Any], "GET", f"/tasks/{task_id}")
            assert task["taskId"] == task_id
        assert handler.http_client is None

    async def test_a_users_http_client_is_shared_and_stays_open(self, conductor_stub: ConductorStub) -> None:
        for name in ("a", "b"):
            conductor_stub.add_task(name)
        async with httpx.AsyncClient(headers={"X-Mine": "yes"}) as client:
            async with handler_of(conductor_stub, prompt("a"), prompt("b"), http_client=client) as handler:
                assert handler.http_client is client
                await conductor_stub.until_results(2)
            assert not client.is_closed
        assert all(request.headers.get("x-mine") == "yes" for request in conductor_stub.requests)


class TestMetrics:
    async def test_metrics_are_served_while_the_handler_runs(
        self, conductor_stub: ConductorStub, unused_tcp_port: int
    ) -> None:
        conductor_stub.add_task("job")
        settings = MetricsSettings(http_port=unused_tcp_port, host="127.0.0.1")
        async with handler_of(conductor_stub, prompt(), metrics_settings=settings):
            await conductor_stub.until_results(1)
            async with httpx.AsyncClient() as client:
                text = (await client.get(f"http://127.0.0.1:{unused_tcp_port}/metrics")).text
        assert 'task_poll_total{taskType="job"}' in text


class TestStopping:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_stopping_finishes_running_tasks(self, conductor_stub: ConductorStub, kind: str) -> None:
        """P03: nothing in flight is lost."""
        gate = Gate()
        for _ in range(20):
            conductor_stub.add_task("job")
        worker = gate.worker(kind, thread_count=20, idle_poll_timeout=0)
        handler = handler_of(conductor_stub, worker)
        await handler.start()
        await gate.until_entered(20)
        stopping = asyncio.create_task(handler.stop())
        await turn_loop()
        polls = len(conductor_stub.polls())
        gate.let_go()
        await stopping
        assert len(conductor_stub.results) == 20
        assert {result["status"] for result in conductor_stub.results} == {"COMPLETED"}
        assert len(conductor_stub.polls()) == polls

    @pytest.mark.parametrize("kind", KINDS)
    async def test_stopping_hands_back_what_does_not_end_in_time(
        self, conductor_stub: ConductorStub, kind: str
    ) -> None:
        gate, events = Gate(), Events()
        ids = [conductor_stub.add_task("job") for _ in range(3)]
        worker = gate.worker(kind, thread_count=3, idle_poll_timeout=0)
        handler = handler_of(conductor_stub, worker, event_listeners=[events], shutdown_grace_seconds=0)
        await handler.start()
        await gate.until_entered(3)
        await handler.stop()
        gate.let_go()
        for task_id in ids:
            (result,) = conductor_stub.results_for(task_id)
            assert result["status"] == "IN_PROGRESS"
            assert result["callbackAfterSeconds"] == 1
            assert result["reasonForIncompletion"] == "worker shutting down"
        assert events.of(WorkerStopped)[0].handed_back == 3
        assert not events.of(TaskExecutionCompleted)

    async def test_a_cancelled_coroutine_may_clean_up_before_it_is_handed_back(
        self, conductor_stub: ConductorStub
    ) -> None:
        order: list[str] = []
        started = asyncio.Event()

        async def work() -> None:
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                order.append("cleaned")
                get_task_context().add_log("stopped half way")

        task_id = conductor_stub.add_task("job")
        handler = handler_of(conductor_stub, prompt("job", work), shutdown_grace_seconds=0)
        await handler.start()
        await started.wait()
        await handler.stop()
        assert order == ["cleaned"]
        assert conductor_stub.logs(task_id) == ["stopped half way"]

    async def test_a_report_that_waits_for_the_server_is_no_unfinished_task(self) -> None:
        """The function has returned: the result stays in the journal and the task is not handed back."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            stub.add_task("job")
            options: dict[str, Any] = {"event_listeners": [events], "clock": clock, "shutdown_grace_seconds": 0}
            async with handler_of(stub, prompt(), **options):
                await events.until(TaskUpdateRetried)
        assert events.of(WorkerStopped)[0].handed_back == 0
        assert events.of(TaskUpdateFailure)[0].journaled
        assert {request.json["status"] for request in stub.requests_of("update")} == {"COMPLETED"}

    async def test_a_report_in_flight_stays_in_the_journal_when_the_time_of_a_stop_is_over(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server may not have the report: the next process sends it again."""
        monkeypatch.setattr(worker_group, "REQUEUE_S", 0.1)
        conductor_stub.hold("update")
        task_id = conductor_stub.add_task("job")
        async with handler_of(conductor_stub, prompt(), shutdown_grace_seconds=0):
            await conductor_stub.until(lambda: conductor_stub.held("update") == 1)
        directory = Path(os.environ["CONDUCTOR_WORKER_JOURNAL_DIR"])
        files = [read_contents(path.read_bytes()) for path in directory.glob("*.journal")]
        assert [report.task_id for file in files for report in file.reports.values()] == [task_id]
        conductor_stub.release()

    async def test_stopping_is_bounded(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(task_handler_asyncio, "STOP_LIMIT_S", 0.05)
        gate = Gate()
        conductor_stub.add_task("job")
        handler = handler_of(conductor_stub, gate.worker("def", idle_poll_timeout=0))
        await handler.start()
        await gate.until_entered(1)
        await handler.stop()
        gate.let_go()
        assert "Shutdown timeout" in lines(caplog)
        assert not handler.is_healthy()

    async def test_stopping_twice_is_no_error(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, prompt())
        await handler.stop()
        async with handler:
            await handler.stop()
            await handler.stop()

    async def test_stopping_tells_the_whole_story(self, conductor_stub: ConductorStub) -> None:
        events, gate = Events(), Gate()
        conductor_stub.add_task("job")
        worker = gate.worker("async def", idle_poll_timeout=0, worker_id="me")
        handler = handler_of(conductor_stub, worker, event_listeners=[events])
        await handler.start()
        await gate.until_entered(1)
        stopping = asyncio.create_task(handler.stop())
        await events.until(WorkerStopping)
        gate.let_go()
        await stopping
        told: list[Any] = events.of(WorkerStarted, WorkerStopping, WorkerStopped)
        started, stopping_event, stopped = told
        assert (started.task_type, started.worker_id, started.thread_count) == ("job", "me", 1)
        assert stopping_event.tasks_in_hand == 1
        assert stopped.handed_back == 0
        assert events.names[-1] == "WorkerStopped"

    async def test_stopping_leaves_no_task_and_no_thread(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        async with handler_of(conductor_stub, prompt()):  # what the libraries start once, they keep
            await conductor_stub.until_results(1)
        tasks = asyncio.all_tasks()
        conductor_stub.add_task("job")
        async with handler_of(conductor_stub, prompt()):
            await conductor_stub.until_results(2)
        for thread in threading.enumerate():
            if thread.name.startswith(("worker-", "conductor-leases")):
                thread.join(60)
        assert asyncio.all_tasks() == tasks
        assert not [t for t in threading.enumerate() if t.name.startswith(("worker-", "conductor-leases"))]

    @pytest.mark.parametrize("everything", [False, True], ids=["the program", "every task"])
    @pytest.mark.parametrize("turns", range(12))
    async def test_cancelled_at_any_moment_of_the_start_it_ends(
        self, conductor_stub: ConductorStub, turns: int, everything: bool
    ) -> None:
        """Ctrl-C: asyncio cancels the program's main task first, and in the end whatever is left."""
        before = asyncio.all_tasks()

        async def program() -> None:
            async with handler_of(conductor_stub, prompt("a"), prompt("b")) as handler:
                await handler.wait()

        running = asyncio.create_task(program())
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in (asyncio.all_tasks() - before) if everything else {running}:
            task.cancel()
        await asyncio.wait({running})
        await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
        assert running.cancelled()

    async def test_a_cancelled_wait_leaves_the_workers_to_the_with_block(self, conductor_stub: ConductorStub) -> None:
        """`asyncio.timeout` around `wait()`, or Ctrl-C: the block ends, and drains."""
        conductor_stub.add_task("job")
        async with handler_of(conductor_stub, prompt()) as handler:
            await conductor_stub.until_results(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await handler.wait()
            assert handler.is_healthy()
        assert not handler.is_healthy()

    @pytest.mark.parametrize("kind", KINDS)
    async def test_broken_off_leaves_no_coroutine_behind(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """When even the drain has no time: the tasks are handed back, and they do not go on."""
        monkeypatch.setattr(task_handler_asyncio, "STOP_LIMIT_S", task_handler_asyncio.REQUEUE_S)
        gate, before = Gate(), asyncio.all_tasks()
        conductor_stub.add_task("job")
        handler = handler_of(conductor_stub, gate.worker(kind, idle_poll_timeout=0), shutdown_grace_seconds=600)
        await handler.start()
        await gate.until_entered(1)
        await handler.stop()
        await turn_loop()
        assert asyncio.all_tasks() == before
        assert [result["status"] for result in conductor_stub.results] == ["IN_PROGRESS"]
        gate.let_go()

    async def test_a_def_past_its_timeout_is_not_waited_for_nor_called_handed_back(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        gate, events, clock = Gate(), Events(), FakeClock()
        definition = TaskDef(name="job", timeout_seconds=60, timeout_policy="RETRY")
        conductor_stub.add_task("job", task_definition=definition)
        worker = gate.worker("def", idle_poll_timeout=0, poll_timeout=0)
        handler = handler_of(conductor_stub, worker, clock=clock, event_listeners=[events], shutdown_grace_seconds=0)
        await handler.start()
        await gate.until_entered(1)
        clock.advance(61)
        await events.until(TaskUpdateCompleted)
        await handler.stop()  # the function is still at the gate
        assert gate.passed == 0
        gate.let_go()
        (stopped,) = events.of(WorkerStopped)
        assert stopped.handed_back == 0
        gc.collect()
        said = [record.getMessage() for record in caplog.records]
        unwanted = ("handed back", "never retrieved", "Shutdown timeout")
        assert not [line for line in said if any(words in line for words in unwanted)]
        assert [result["status"] for result in conductor_stub.results] == ["FAILED"]

    async def test_a_parked_poll_is_not_waited_for_but_what_it_brings_is_handed_back(
        self, conductor_stub: ConductorStub
    ) -> None:
        handler = handler_of(conductor_stub, Worker("job", nothing, idle_poll_timeout=5000))
        await handler.start()
        await conductor_stub.until(lambda: conductor_stub.parked_polls == 1 and _is_long(conductor_stub))
        await handler.stop()
        assert conductor_stub.parked_polls == 1, "it has not been waited out"
        task_id = conductor_stub.add_task("job")
        await conductor_stub.until(lambda: conductor_stub.results_for(task_id))
        (result,) = conductor_stub.results_for(task_id)
        assert (result["status"], result["reasonForIncompletion"]) == ("IN_PROGRESS", "worker shutting down")

    def test_a_program_that_ends_waits_for_what_the_poll_brings(self, conductor_stub: ConductorStub) -> None:
        """The end of an event loop cancels everything on it. A task that is not handed back would wait for an hour."""

        async def program() -> None:
            handler = handler_of(conductor_stub, Worker("job", nothing, idle_poll_timeout=5000))
            await handler.start()
            await conductor_stub.until(lambda: conductor_stub.parked_polls == 1 and _is_long(conductor_stub))
            await handler.stop()
            asyncio.get_running_loop().call_later(0.05, conductor_stub.add_task, "job")

        asyncio.run(program())
        (result,) = conductor_stub.results
        assert (result["status"], result["reasonForIncompletion"]) == ("IN_PROGRESS", "worker shutting down")


def _is_long(stub: ConductorStub) -> bool:
    return stub.polls()[-1].query["timeout"] == "5000"
