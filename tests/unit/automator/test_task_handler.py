"""TaskHandler: one process per worker, watched and started again."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.client.automator import worker_process
from conductor.client.automator.child import ChildSpec
from conductor.client.automator.supervisor import Supervisor
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.worker_process import HEALTHY_S, WorkerProcess
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.registry import DuplicateWorkerError
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import ConfigurationError
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub
from tests.unit.automator import portable_workers
from tests.unit.automator.worker_fixture import lines
from tests.unit.automator.worker_forms import EventFile

ROOT = Path(__file__).parents[3]
#: Processes on a busy machine take their time.
PATIENCE_S = 60.0


def worker_of(name: str = "job", function: Any = portable_workers.about_process, **options: Any) -> Worker:
    return Worker(name, function, idle_poll_timeout=0, **options)


def handler_of(stub: ConductorStub, *workers: Any, **options: Any) -> TaskHandler:
    return TaskHandler(list(workers), Configuration(stub.url), **({"start_method": "forkserver"} | options))


def output_of(stub: ConductorStub, name: str = "job") -> dict[str, Any]:
    """Return the output of a task of `about_process`."""
    task_id = stub.add_task(name)
    stub.wait_for(lambda: stub.results_for(task_id), timeout=PATIENCE_S)
    output: dict[str, Any] = stub.results_for(task_id)[0]["outputData"]
    return output


class TestConstruction:
    def test_a_handler_keeps_what_it_was_given(self) -> None:
        worker, configuration = worker_of(), Configuration()
        handler = TaskHandler([worker], configuration)
        assert (handler.workers, handler.configuration, handler.processes) == ([worker], configuration, [])

    @pytest.mark.parametrize("asyncio", [True, False])
    def test_a_handler_accepts_the_older_flag(self, asyncio: bool) -> None:
        assert TaskHandler([worker_of()], asyncio=asyncio).workers

    def test_a_handler_needs_no_argument(self) -> None:
        assert TaskHandler().workers == []

    def test_a_handler_finds_decorated_workers(self) -> None:
        worker_task("decorated")(portable_workers.about_process)
        for handler in (TaskHandler(), TaskHandler(scan_for_annotated_workers=True)):
            assert [worker.get_task_definition_name() for worker in handler.workers] == ["decorated"]

    def test_a_handler_takes_decorated_functions_as_workers(self) -> None:
        worker_task("decorated")(portable_workers.about_process)
        worker_task("other")(portable_workers.about_process_async)
        (worker,) = TaskHandler(workers=[portable_workers.about_process]).workers
        assert worker.get_task_definition_name() == "decorated"

    def test_a_bad_option_is_an_error_of_this_line(self) -> None:
        with pytest.raises(ConfigurationError, match="'job', thread_count: 0"):
            TaskHandler([worker_of(thread_count=0)])

    def test_two_workers_for_one_type_are_refused_when_the_registry_is_strict(self) -> None:
        two = [worker_of(), worker_of(function=portable_workers.about_process_async)]
        assert TaskHandler(two).workers == [two[1]]
        with pytest.raises(DuplicateWorkerError, match="'job'"):
            TaskHandler(two, strict_registry=True)

    def test_a_handler_is_its_own_context(self) -> None:
        with TaskHandler([worker_of()]) as handler:
            assert isinstance(handler, TaskHandler)

    def test_before_the_start_a_handler_has_no_processes(self) -> None:
        handler = TaskHandler([worker_of()])
        assert not handler.is_healthy()
        assert handler.get_worker_process_status() == {}
        handler.stop_processes()

    def test_a_handler_changes_no_start_method(self) -> None:
        """P28: the way children start is this handler's own affair."""
        before = multiprocessing.get_start_method(allow_none=True)
        TaskHandler([worker_of()], start_method="spawn")
        assert multiprocessing.get_start_method(allow_none=True) == before


class TestProcesses:
    def test_worker_processes_share_what_the_fork_server_has_loaded(self, conductor_stub: ConductorStub) -> None:
        """Ours, beside what the program itself asked for."""
        program = f"""
import multiprocessing
from conductor import Configuration, TaskHandler, Worker
from tests.unit.automator.portable_workers import shared_modules
if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["colorsys"])
    workers, configuration = [Worker("job", shared_modules)], Configuration({conductor_stub.url!r})
    with TaskHandler(workers, configuration, start_method="forkserver") as handler:
        handler.start_processes()
        handler.join_processes()
"""
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            output = output_of(conductor_stub)
            process.terminate()
            log = process.communicate(timeout=PATIENCE_S)[1]
        assert log.count("Created TaskRunner for sync worker: job") == 1, "the parent shows no logs, so the child does"
        assert output["frozen"] > 1000
        assert output["wanted"]

    def test_each_worker_has_its_own_process(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        workers = [worker_of("a"), worker_of("b", portable_workers.about_process_async)]
        with handler_of(conductor_stub, *workers) as handler:
            handler.start_processes()
            outputs = [output_of(conductor_stub, name) for name in ("a", "b")]
            assert handler.task_runner_processes == handler.processes  # conductor-python's name for them
            pids = [process.pid for process in handler.processes]
            status = handler.get_worker_process_status()
            assert handler.is_healthy()
        assert [output["pid"] for output in outputs] == pids
        assert len({os.getpid(), *pids}) == 3
        assert all(output["sigint_ignored"] for output in outputs), "Ctrl-C is the parent's affair"
        assert status["a"] == {"alive": True, "pid": pids[0], "exitcode": None, "restart_count": 0, "paused": False}
        said = lines(caplog, logging.INFO)
        assert "Created TaskRunner for sync worker: a" in said
        assert "Created AsyncTaskRunner for async worker: b" in said

    def test_worker_ids_tell_processes_apart(self, conductor_stub: ConductorStub) -> None:
        """P32: processes do not share one worker id."""
        with handler_of(conductor_stub, worker_of("a"), worker_of("b")) as handler:
            handler.start_processes()
            for name in ("a", "b"):
                output_of(conductor_stub, name)
        ids = {name: {poll.query["workerid"] for poll in conductor_stub.polls(name)} for name in ("a", "b")}
        assert len(ids["a"]) == len(ids["b"]) == 1
        assert ids["a"] != ids["b"]

    def test_worker_processes_see_the_environment_of_now(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A fork server knows only the environment of the moment when it was started."""
        for value in ("first", "second"):
            monkeypatch.setenv("MY_VARIABLE", value)
            with handler_of(conductor_stub, worker_of()) as handler:
                handler.start_processes()
                assert output_of(conductor_stub)["variable"] == value

    def test_a_second_start_is_refused_and_a_later_one_is_not(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, worker_of())
        for _ in range(2):
            handler.start_processes()
            with pytest.raises(RuntimeError, match="already"):
                handler.start_processes()
            output_of(conductor_stub)
            handler.stop_processes()
            assert not handler.is_healthy()

    def test_a_stop_leaves_none_of_them(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, worker_of("a"), worker_of("b"))
        handler.start_processes()
        pids = [output_of(conductor_stub, name)["pid"] for name in ("a", "b")]
        handler.stop_processes()
        assert not any(psutil.pid_exists(pid) and psutil.Process(pid).is_running() for pid in pids)
        assert [process.exitcode for process in handler.processes] == [0, 0]

    def test_events_of_processes_reach_copies_of_the_listeners(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        listener = EventFile(tmp_path / "events")
        with handler_of(conductor_stub, worker_of(), event_listeners=[listener]) as handler:
            handler.start_processes()
            output_of(conductor_stub)
        names = [event["event"] for event in listener.read()]
        assert names == ["TaskExecutionStarted", "TaskExecutionCompleted", "TaskUpdateCompleted"]

    def test_a_listener_that_cannot_travel_is_named(self, conductor_stub: ConductorStub) -> None:
        handler = handler_of(conductor_stub, worker_of(), event_listeners=[portable_workers.Heavy()])
        with pytest.raises(TypeError, match=r"event listener .*Heavy.* cannot be sent to the worker processes"):
            handler.start_processes()

    @pytest.mark.parametrize("level", ["DEBUG", "WARNING"])
    def test_log_at_the_level_of_the_configuration(self, conductor_stub: ConductorStub, level: str) -> None:
        """P25: the parent's logging is the user's; a child without any gets the Configuration's."""
        configuration = Configuration(conductor_stub.url, log_level=level)
        with TaskHandler([worker_of()], configuration, start_method="forkserver") as handler:
            handler.start_processes()
            assert output_of(conductor_stub)["log_level"] == getattr(logging, level)

    def test_a_worker_with_nothing_to_run_stops_the_start(self, conductor_stub: ConductorStub) -> None:
        """An error here, and not a child that dies again and again."""
        with (
            pytest.raises(ValueError, match="worker 'empty' has nothing to run"),
            handler_of(conductor_stub, Worker("empty")) as handler,
        ):
            handler.start_processes()


class TestPause:
    def test_a_worker_is_paused_by_name_across_processes(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub, worker_of("a", poll_timeout=0), worker_of("b", poll_timeout=0)) as handler:
            handler.start_processes()
            output_of(conductor_stub, "a")
            handler.pause("a")
            assert handler.get_worker_process_status()["a"]["paused"]
            quiet = self._until_quiet(conductor_stub)
            task_id = conductor_stub.add_task("a")
            output_of(conductor_stub, "b")  # the other one goes on
            assert len(conductor_stub.polls("a")) == quiet
            handler.resume("a")
            conductor_stub.wait_for(lambda: conductor_stub.results_for(task_id), timeout=PATIENCE_S)
            assert not handler.get_worker_process_status()["a"]["paused"]

    def _until_quiet(self, stub: ConductorStub) -> int:
        """Wait until ten polls of the other worker have gone by without one of this."""
        while True:
            seen, others = len(stub.polls("a")), len(stub.polls("b"))
            stub.wait_for(lambda others=others: len(stub.polls("b")) >= others + 10, timeout=PATIENCE_S)  # type: ignore[misc]
            if len(stub.polls("a")) == seen:
                return seen

    def test_pausing_an_unknown_worker_is_an_error(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub, worker_of()) as handler:
            handler.start_processes()
            with pytest.raises(KeyError, match="'jbo'; there are: job"):
                handler.pause("jbo")


class TestRestarts:
    """P16: a crash of a worker, also of the only one, is an accident and not the end."""

    def _kill_and_wait(self, stub: ConductorStub, pid: int) -> None:
        """Until its successor polls: a Conductor server may give a task to the last poll of the dead."""
        polls = len(stub.polls())
        os.kill(pid, signal.SIGKILL)
        ids = {poll.query["workerid"] for poll in stub.polls()[:polls]}
        stub.wait_for(lambda: any(poll.query["workerid"] not in ids for poll in stub.polls()), timeout=PATIENCE_S)

    def test_a_killed_worker_is_started_again_and_counted(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub, worker_of()) as handler:
            handler.start_processes()
            first = output_of(conductor_stub)["pid"]
            self._kill_and_wait(conductor_stub, first)
            second = output_of(conductor_stub)["pid"]
            status = handler.get_worker_process_status()["job"]
        assert second != first
        assert (status["alive"], status["pid"], status["restart_count"]) == (True, second, 1)

    @pytest.mark.parametrize(
        ("rule", "lives"),
        [
            ({"restart_on_failure": False}, 1),
            ({"monitor_processes": False}, 1),
            ({"restart_max_attempts": 2, "restart_backoff_seconds": 0.01}, 3),
        ],
        ids=["never", "not watched", "twice"],
    )
    def test_a_process_that_is_not_restarted_ends_the_wait_for_it(
        self, conductor_stub: ConductorStub, rule: dict[str, Any], lives: int
    ) -> None:
        for _ in range(lives):
            conductor_stub.add_task("job")
        with handler_of(conductor_stub, worker_of(function=portable_workers.die), **rule) as handler:
            handler.start_processes()
            handler.join_processes()
            status = handler.get_worker_process_status()["job"]
            assert not handler.is_healthy()
        assert (status["alive"], status["exitcode"], status["restart_count"]) == (False, 3, lives - 1)
        assert len({poll.query["workerid"] for poll in conductor_stub.polls()}) == lives

    @pytest.mark.parametrize(
        ("rule", "complaint"),
        [
            ({"restart_backoff_seconds": 0}, "restart_backoff_seconds is 0 "),
            ({"restart_backoff_seconds": 9, "restart_backoff_max_seconds": 3}, "restart_backoff_max_seconds 3"),
            ({"restart_max_attempts": -1}, "restart_max_attempts is -1"),
        ],
    )
    def test_a_rule_that_makes_no_sense_is_refused(self, rule: dict[str, Any], complaint: str) -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            TaskHandler([worker_of()], **rule)

    def test_without_workers_join_returns_at_once(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub) as handler:
            handler.start_processes()
            handler.join_processes()
            assert handler.processes == []

    def test_a_worker_paused_by_its_options_and_resumed_stays_so(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub, worker_of(paused=True)) as handler:
            handler.start_processes()
            assert handler.get_worker_process_status()["job"]["paused"]
            handler.resume("job")
            pid = output_of(conductor_stub)["pid"]
            self._kill_and_wait(conductor_stub, pid)
            assert output_of(conductor_stub)["pid"] != pid
            assert not handler.get_worker_process_status()["job"]["paused"]

    def test_a_paused_worker_is_paused_after_its_restart_too(self, conductor_stub: ConductorStub) -> None:
        with handler_of(conductor_stub, worker_of("a"), worker_of("b", poll_timeout=0)) as handler:
            handler.start_processes()
            pid = output_of(conductor_stub, "a")["pid"]
            handler.pause("a")
            os.kill(pid, signal.SIGKILL)
            conductor_stub.wait_for(lambda: handler.get_worker_process_status()["a"]["pid"] != pid, timeout=PATIENCE_S)
            polls = len(conductor_stub.polls("a"))
            task_id = conductor_stub.add_task("a")
            output_of(conductor_stub, "b")
            assert len(conductor_stub.polls("a")) <= polls + 1
            handler.resume("a")
            conductor_stub.wait_for(lambda: conductor_stub.results_for(task_id), timeout=PATIENCE_S)

    def test_restart_waits_grow_and_decay_after_a_healthy_life(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [1000.0]
        monkeypatch.setattr(worker_process.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
        child = self._child()
        waits = [self._die(child, now, after_s=1.0) for _ in range(9)]
        for wait, longest in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30, 30], strict=True):
            assert 0.8 * longest <= wait <= longest
        assert self._die(child, now, after_s=HEALTHY_S + 1) <= 0.5
        assert child.restarts == 10

    def test_a_failed_restart_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        child = self._child()
        tries: list[str] = []

        def start() -> None:
            tries.append("start")
            if len(tries) < 3:
                raise [OSError(12, "Cannot allocate memory"), EOFError()][len(tries) - 1]
            child.restart_at = None

        monkeypatch.setattr(child, "start", start)
        watch = Supervisor([child])
        for _ in range(3):
            child.restart_at = 0.0
            watch._start_again(child)
        assert len(tries) == 3
        assert child.restart_at is None

    def _child(self) -> WorkerProcess:
        spec = ChildSpec("job", (worker_of(),), Configuration())
        return WorkerProcess(spec, multiprocessing.get_context("spawn"))

    def _die(self, child: WorkerProcess, now: list[float], *, after_s: float) -> float:
        """Simulate a process that lives for `after_s`. Return the wait before its restart."""

        class Dead:
            pid, exitcode = 42, 1

            def join(self) -> None: ...

        child.process = Dead()  # type: ignore[assignment]
        child._started_at = now[0]
        now[0] += after_s
        child.on_ended()
        assert child.restart_at is not None
        return child.restart_at - now[0]
