"""TaskRunner: one worker in the current thread, for `def` functions first of all."""

from __future__ import annotations

import functools
import logging
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conductor.client.automator.task_runner import TaskRunner
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    PollFailure,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    WorkerStarted,
    WorkerStopped,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import ConfigurationError
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.protocol.wire import Verdict
from conductor.testing import ConductorStub, FakeClock, Malformed, Reset, Status
from tests.unit.automator import portable_workers
from tests.unit.automator.worker_fixture import Events, Gate, lines


def greet(name: str) -> dict[str, str]:
    return {"greeting": f"Hello {name}"}


def runner_of(stub: ConductorStub, worker: WorkerInterface, *listeners: object, **options: Any) -> TaskRunner:
    return TaskRunner(worker, Configuration(stub.url), event_listeners=listeners, **options)


def run_one(stub: ConductorStub, function: Any, input_data: dict[str, Any] | None = None, **options: Any) -> Any:
    """Run one task with `run_once`. Return its report."""
    task_id = stub.add_task("job", input_data)
    assert runner_of(stub, Worker("job", function, **options)).run_once() == 1
    (result,) = stub.results_for(task_id)
    return result


@contextmanager
def running(runner: TaskRunner, events: Events) -> Iterator[None]:
    """`run()` in a thread of its own."""
    thread = threading.Thread(target=runner.run)
    thread.start()
    events.wait(WorkerStarted)
    try:
        yield
    finally:
        runner.stop()
        thread.join(60)
        assert not thread.is_alive()


class TestConstruction:
    def test_a_runner_takes_worker_and_configuration_by_position(self) -> None:
        worker, configuration = Worker("job", greet), Configuration("http://127.0.0.1:1/api")
        runner = TaskRunner(worker, configuration)
        assert (runner.worker, runner.configuration) == (worker, configuration)

    def test_without_a_configuration_the_environment_decides_the_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", "http://conductor.test:8080/api")
        assert TaskRunner(Worker("job", greet)).configuration.host == "http://conductor.test:8080/api"

    def test_a_runner_can_be_pickled_before_it_runs(self) -> None:
        runner = TaskRunner(Worker("job", portable_workers.ask_server, thread_count=3), Configuration())
        travelled = pickle.loads(pickle.dumps(runner))
        assert travelled.worker.thread_count == 3

    def test_a_runner_opens_nothing(self, conductor_stub: ConductorStub) -> None:
        before = threading.active_count()
        runner_of(conductor_stub, Worker("job", greet))
        assert threading.active_count() == before
        assert not conductor_stub.requests

    def test_a_bad_option_is_one_clear_line(self, conductor_stub: ConductorStub) -> None:
        with pytest.raises(ConfigurationError, match="thread_count") as raised:
            runner_of(conductor_stub, Worker("job", greet, thread_count=0)).run_once()
        assert "\n" not in str(raised.value)
        assert not conductor_stub.requests

    def test_a_worker_with_nothing_to_run_says_what_to_do(self, conductor_stub: ConductorStub) -> None:
        with pytest.raises(ValueError, match="worker 'job' has nothing to run"):
            runner_of(conductor_stub, Worker("job")).run_once()

    def test_the_task_client_of_a_runner_uses_the_same_server(self, conductor_stub: ConductorStub) -> None:
        task_id = conductor_stub.add_task("job")
        client = runner_of(conductor_stub, Worker("job", greet)).task_client
        assert client.get_task(task_id).task_id == task_id
        client.close()


class TestOneTask:
    def test_one_task_is_polled_executed_and_reported(self, conductor_stub: ConductorStub) -> None:
        task_id = conductor_stub.add_task("job", {"name": "Ada"})
        assert runner_of(conductor_stub, Worker("job", greet, worker_id="me")).run_once() == 1
        assert [request.route for request in conductor_stub.requests] == ["poll", "update"]
        assert conductor_stub.task(task_id).output_data == {"greeting": "Hello Ada"}
        (result,) = conductor_stub.results
        assert (result["status"], result["workerId"]) == ("COMPLETED", "me")
        assert result["workflowInstanceId"] == conductor_stub.task(task_id).workflow_instance_id

    def test_run_once_without_a_task_returns(self, conductor_stub: ConductorStub) -> None:
        assert runner_of(conductor_stub, Worker("job", greet, poll_timeout=0)).run_once() == 0
        assert len(conductor_stub.polls()) == 1

    def test_a_batch_in_one_go(self, conductor_stub: ConductorStub) -> None:
        for n in range(5):
            conductor_stub.add_task("job", {"name": str(n)})
        assert runner_of(conductor_stub, Worker("job", greet, thread_count=5)).run_once() == 5
        greetings = {result["outputData"]["greeting"] for result in conductor_stub.results}
        assert greetings == {f"Hello {n}" for n in range(5)}

    @pytest.mark.parametrize(
        ("returned", "status", "output"),
        [
            ({"a": 1}, "COMPLETED", {"a": 1}),
            (None, "COMPLETED", {"result": None}),
            ([1, 2], "COMPLETED", {"result": [1, 2]}),
            (TaskResult(status=TaskResultStatus.COMPLETED, output_data={"b": 2}), "COMPLETED", {"b": 2}),
            (TaskResult(status=TaskResultStatus.FAILED, output_data={"c": 3}), "FAILED", {"c": 3}),
            (TaskInProgress(30, {"done": "50%"}), "IN_PROGRESS", {"done": "50%"}),
        ],
    )
    def test_every_kind_of_return_value_is_reported(
        self, conductor_stub: ConductorStub, returned: Any, status: str, output: Any
    ) -> None:
        result = run_one(conductor_stub, lambda: returned)
        assert (result["status"], result["outputData"]) == (status, output)

    def test_a_task_in_progress_comes_back(self, conductor_stub: ConductorStub) -> None:
        """The callback is sent, and at the second delivery the poll count is two."""

        def in_rounds() -> Any:
            if get_task_context().poll_count == 1:
                return TaskInProgress(callback_after_seconds=45)
            return {"rounds": get_task_context().poll_count}

        conductor_stub.add_task("job")
        runner = runner_of(conductor_stub, Worker("job", in_rounds))
        runner.run_once()
        assert conductor_stub.results[0]["callbackAfterSeconds"] == 45
        assert conductor_stub.requeue_postponed()
        runner.run_once()
        assert conductor_stub.results[1]["outputData"] == {"rounds": 2}

    def test_the_same_result_object_serves_many_tasks(self, conductor_stub: ConductorStub) -> None:
        """A constant that a module returns again and again belongs to no task."""
        done = TaskResult(status=TaskResultStatus.COMPLETED, output_data={"ok": True})
        ids = [conductor_stub.add_task("job") for _ in range(3)]
        runner_of(conductor_stub, Worker("job", lambda: done, thread_count=3)).run_once()
        assert {result["taskId"] for result in conductor_stub.results} == set(ids)
        assert not done.task_id

    def test_the_task_itself_can_be_asked_for(self, conductor_stub: ConductorStub) -> None:
        def about(task: Task) -> dict[str, Any]:
            return {"id": task.task_id, "input": task.input_data, "polls": task.poll_count}

        result = run_one(conductor_stub, about, {"x": 1})
        assert result["outputData"] == {"id": result["taskId"], "input": {"x": 1}, "polls": 1}

    def test_an_async_function_is_served_as_well(self, conductor_stub: ConductorStub) -> None:
        async def greet_async(name: str) -> dict[str, str]:
            return greet(name)

        assert run_one(conductor_stub, greet_async, {"name": "Ada"})["outputData"] == {"greeting": "Hello Ada"}

    def test_partials_methods_and_callable_objects(self, conductor_stub: ConductorStub) -> None:
        class Greeter:
            def __call__(self, name: str) -> dict[str, str]:
                return greet(name)

            def method(self, name: str) -> dict[str, str]:
                return greet(name)

        for function in (Greeter(), Greeter().method, functools.partial(greet, name="Ada")):
            output = run_one(conductor_stub, function, {"name": "Ada"})["outputData"]
            assert output == {"greeting": "Hello Ada"}


class TestThreads:
    def test_the_function_runs_in_a_thread_named_after_it(self, conductor_stub: ConductorStub) -> None:
        result = run_one(conductor_stub, lambda: threading.current_thread().name)
        assert result["outputData"]["result"].startswith("worker-job")

    @pytest.mark.parametrize("thread_count", [1, 4])
    def test_there_are_as_many_threads_as_slots_and_no_more(
        self, conductor_stub: ConductorStub, thread_count: int
    ) -> None:
        names: set[str] = set()
        gate, events = Gate(), Events()

        def work() -> None:
            names.add(threading.current_thread().name)
            gate.enter()

        for _ in range(12):
            conductor_stub.add_task("job")
        worker = Worker("job", work, thread_count=thread_count, idle_poll_timeout=0)
        with running(runner_of(conductor_stub, worker, events), events):
            gate.wait_entered(thread_count)
            gate.let_go()
            conductor_stub.wait_results(12)
        assert len(names) <= thread_count
        assert gate.most_inside == thread_count

    def test_an_end_leaves_no_threads(self, conductor_stub: ConductorStub) -> None:
        """P34: a program that runs workers again and again does not fill up with their threads."""
        run_one(conductor_stub, lambda: None)  # what the libraries start once, they may keep
        before = {thread.name for thread in threading.enumerate()}
        for _ in range(3):
            run_one(conductor_stub, lambda: None)
        for thread in threading.enumerate():
            if thread.name.startswith("worker-job"):
                thread.join(60)
        ours = {thread.name for thread in threading.enumerate()} - before
        assert not {name for name in ours if name.startswith(("worker-", "conductor-leases"))}

    def test_the_context_is_the_tasks_own(self, conductor_stub: ConductorStub) -> None:
        gate = Gate()

        def who() -> str:
            before = get_task_context().task_id
            gate.enter()
            assert get_task_context().task_id == before
            return before

        for _ in range(4):
            conductor_stub.add_task("job")

        def let_four_go() -> None:
            gate.wait_entered(4)
            gate.let_go()

        opener = threading.Thread(target=let_four_go)
        opener.start()
        runner_of(conductor_stub, Worker("job", who, thread_count=4)).run_once()
        opener.join()
        assert all(result["outputData"]["result"] == result["taskId"] for result in conductor_stub.results)


class TestFailures:
    @pytest.mark.parametrize(
        ("error", "status", "reason"),
        [
            (ValueError("bad"), "FAILED", "ValueError: bad"),
            (ValueError(), "FAILED", "ValueError"),
            (NonRetryableException("no such order"), "FAILED_WITH_TERMINAL_ERROR", "no such order"),
            (NonRetryableException(), "FAILED_WITH_TERMINAL_ERROR", "NonRetryableException"),
            (KeyError("k"), "FAILED", "KeyError: 'k'"),
            (SystemExit(3), "FAILED", "SystemExit: 3"),
            (KeyboardInterrupt(), "FAILED", "KeyboardInterrupt"),
        ],
    )
    def test_failures_become_reports(
        self, conductor_stub: ConductorStub, error: BaseException, status: str, reason: str
    ) -> None:
        """P02 and P13: what a function raises fails its task, and only that."""
        events = Events()

        def work() -> None:
            raise error

        conductor_stub.add_task("job")
        assert runner_of(conductor_stub, Worker("job", work), events).run_once() == 1
        (result,) = conductor_stub.results
        assert (result["status"], result["reasonForIncompletion"]) == (status, reason)
        assert events.of(TaskExecutionFailure)[0].cause is error
        assert not events.of(TaskExecutionCompleted)

    def test_a_terminal_failure_has_its_line(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        def work() -> None:
            raise NonRetryableException("no such order")

        run_one(conductor_stub, work)
        said = lines(caplog, logging.ERROR)
        assert any(line.startswith("Task failed with terminal error (no retry): no such order") for line in said)

    def test_the_worker_goes_on(self, conductor_stub: ConductorStub) -> None:
        events = Events()

        def work(good: bool) -> None:
            if not good:
                raise RuntimeError("bad")

        worker = Worker("job", work, idle_poll_timeout=0)
        with running(runner_of(conductor_stub, worker, events), events):
            for good in (False, True, False, True):
                conductor_stub.add_task("job", {"good": good})
            conductor_stub.wait_results(4)
        statuses = [result["status"] for result in conductor_stub.results]
        assert statuses == ["FAILED", "COMPLETED", "FAILED", "COMPLETED"]

    @pytest.mark.parametrize("behaviour", [Status(401), Status(404), Status(500), Reset(), Malformed()])
    def test_a_failed_poll_is_an_event_and_no_exception(self, conductor_stub: ConductorStub, behaviour: Any) -> None:
        events = Events()
        conductor_stub.script("poll", behaviour)
        assert runner_of(conductor_stub, Worker("job", greet), events).run_once() == 0
        assert len(events.of(PollFailure)) == 1

    @pytest.mark.parametrize("status", [404, 500])
    def test_a_failed_update_is_an_event_and_no_exception(self, conductor_stub: ConductorStub, status: int) -> None:
        events = Events()
        conductor_stub.script("update", Status(status), repeat=True)
        conductor_stub.add_task("job", {"name": "Ada"})
        worker = Worker("job", greet, update_retry_delay_seconds=0)
        assert runner_of(conductor_stub, worker, events, journal_enabled=False).run_once() == 1
        if status == 404:
            assert events.of(TaskUpdateCompleted)[0].verdict is Verdict.REJECTED
        else:
            assert events.of(TaskUpdateFailure)[0].retry_count == 4


class TestRouting:
    @pytest.mark.parametrize("spelling", ["CONDUCTOR_WORKER_JOB_DOMAIN", "CONDUCTOR_WORKER_ALL_DOMAIN"])
    def test_the_environment_moves_a_worker_to_a_domain(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch, spelling: str
    ) -> None:
        monkeypatch.setenv(spelling, "vip")
        conductor_stub.add_task("job", {"name": "nobody"})
        ours = conductor_stub.add_task("job", {"name": "Ada"}, domain="vip")
        runner_of(conductor_stub, Worker("job", greet)).run_once()
        assert [result["taskId"] for result in conductor_stub.results] == [ours]

    def test_a_class_names_its_own_domain_interval_and_identity(self, conductor_stub: ConductorStub) -> None:
        class Greeter(WorkerInterface):
            thread_count = 7

            def execute(self, task: Task) -> dict[str, str]:
                return greet(task.input_data["name"])

            def get_domain(self) -> str:
                return "vip"

            def get_identity(self) -> str:
                return "greeter-1"

        conductor_stub.add_task("job", {"name": "Ada"}, domain="vip")
        runner_of(conductor_stub, Greeter("job")).run_once()
        query = conductor_stub.polls()[0].query
        assert (query["domain"], query["workerid"], query["count"]) == ("vip", "greeter-1", "7")
        assert conductor_stub.results[0]["workerId"] == "greeter-1"


class TestStarting:
    def test_a_runner_says_how_it_is_configured(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        events = Events()
        worker = Worker("job", greet, thread_count=5, domain="production", poll_interval_millis=1000)
        with running(runner_of(conductor_stub, worker, events), events):
            pass
        (line,) = [line for line in lines(caplog, logging.INFO) if line.startswith("Conductor Worker[")]
        assert "name=job" in line
        assert "status=active, poll_interval=1000ms, domain=production, thread_count=5" in line
        assert line.endswith("poll_timeout=100ms, lease_extend=false]")

    def test_a_runner_registers_its_definition_first(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        definition = TaskDef(name="ignored", retry_count=7)
        worker = Worker("job", greet, register_task_def=True, task_def=definition, idle_poll_timeout=0)
        with running(runner_of(conductor_stub, worker, events), events):
            conductor_stub.wait_for(conductor_stub.polls)
        assert conductor_stub.task_defs["job"]["retryCount"] == 7
        routes = [request.route for request in conductor_stub.requests]
        assert routes.index("taskdefs") < routes.index("poll")

    def test_a_registration_that_fails_stops_no_worker(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        conductor_stub.script("taskdefs", Status(500), repeat=True)
        conductor_stub.add_task("job", {"name": "Ada"})
        worker = Worker("job", greet, register_task_def=True)
        with running(runner_of(conductor_stub, worker, events), events):
            conductor_stub.wait_results(1)
        assert [result["status"] for result in conductor_stub.results] == ["COMPLETED"]


class TestStopping:
    def test_a_runner_is_stopped_from_another_thread(self, conductor_stub: ConductorStub) -> None:
        events, gate = Events(), Gate()
        conductor_stub.add_task("job")
        runner = runner_of(conductor_stub, gate.worker("def", idle_poll_timeout=0), events)
        with running(runner, events):
            gate.wait_entered(1)
            runner.stop()
            gate.let_go()
        assert len(conductor_stub.results) == 1, "what was in hand is finished"
        assert events.names[-1] == "WorkerStopped"

    def test_stopping_twice_or_after_the_end_is_no_error(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        runner = runner_of(conductor_stub, Worker("job", greet, idle_poll_timeout=0), events)
        runner.stop()
        with running(runner, events):
            runner.stop()
            runner.stop()
        runner.stop()
        assert len(events.of(WorkerStopped)) == 1

    def test_a_stopped_runner_can_run_again(self, conductor_stub: ConductorStub) -> None:
        runner = runner_of(conductor_stub, Worker("job", greet, idle_poll_timeout=0), events := Events())
        for run in (1, 2):
            conductor_stub.add_task("job", {"name": "Ada"})
            with running(runner, events):
                conductor_stub.wait_results(run)
        assert [result["status"] for result in conductor_stub.results] == ["COMPLETED"] * 2


class TestTheInterval:
    def test_the_poll_interval_is_waited_between_empty_polls(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            worker = Worker("job", greet, poll_interval_millis=3000, poll_timeout=0, idle_poll_timeout=0)
            with running(runner_of(stub, worker, events, clock=clock), events):
                for _ in range(14):
                    clock.wait_sleeping()
                    seen = len(clock.sleeps)
                    clock.advance(3.0)
                    stub.wait_for(lambda seen=seen: len(stub.polls()) > seen)  # type: ignore[misc]
        assert clock.sleeps[11:14] == pytest.approx([2.048, 3.0, 3.0])
