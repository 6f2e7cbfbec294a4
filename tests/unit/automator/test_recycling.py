"""Worker processes that are replaced: nothing is lost, nothing is run twice, and their successors work first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker import Worker
from conductor.common.machine import read_memory_bytes
from conductor.testing import ConductorStub
from tests.unit.automator import portable_workers, recycled_workers
from tests.unit.automator.worker_fixture import wait_until

PATIENCE_S = 60.0


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECYCLED_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def runs(log: Path) -> list[tuple[int, int]]:
    """Every run so far: the number of the task, and the process."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(number), int(pid)) for number, pid in map(str.split, lines)]


def handler_of(stub: ConductorStub, *workers: Worker, **options: Any) -> TaskHandler:
    return TaskHandler(list(workers), Configuration(stub.url), start_method="forkserver", **options)


def worker_of(function: Callable[..., Any], name: str = "job", **options: Any) -> Worker:
    return Worker(name, function, idle_poll_timeout=100, **options)


def output_of(stub: ConductorStub, task_id: str) -> dict[str, Any]:
    stub.wait_for(lambda: stub.results_for(task_id), timeout=PATIENCE_S)
    output: dict[str, Any] = stub.results_for(task_id)[0]["outputData"]
    return output


def gate(stub: ConductorStub) -> str:
    stub.hold("workflow")
    return f"{stub.url}/workflow/gate"


def statuses(stub: ConductorStub, ids: list[str]) -> set[str]:
    return {stub.task(task_id).status for task_id in ids}


class TestMaxTasksPerProcess:
    def test_recycling_loses_nothing_and_runs_nothing_twice(self, conductor_stub: ConductorStub, log: Path) -> None:
        worker = worker_of(recycled_workers.count, thread_count=4)
        ids: list[str] = []
        with handler_of(conductor_stub, worker, max_tasks_per_process=20) as handler:
            handler.start_processes()
            while len({pid for _, pid in runs(log)}) < 3:  # two successors at least
                ids += [conductor_stub.add_task("job", {"number": len(ids) + n}) for n in range(20)]
                conductor_stub.wait_results(len(ids), timeout=PATIENCE_S)
                assert len(ids) < 20_000
            status = handler.get_worker_process_status()["job"]
        assert sorted(number for number, _ in runs(log)) == list(range(len(ids)))
        assert statuses(conductor_stub, ids) == {"COMPLETED"}
        assert status["restart_count"] == 0
        assert handler.is_healthy() is False

    def test_running_tasks_are_finished_by_the_old_process(self, conductor_stub: ConductorStub, log: Path) -> None:
        url = gate(conductor_stub)
        held = [conductor_stub.add_task("job", {"number": n, "url": url}) for n in range(2)]
        worker = worker_of(recycled_workers.count_and_ask, thread_count=2)
        with handler_of(conductor_stub, worker, max_tasks_per_process=2, shutdown_grace_seconds=0.1) as handler:
            handler.start_processes()
            conductor_stub.wait_for(lambda: conductor_stub.held("workflow") == 2, timeout=PATIENCE_S)
            (old,) = {pid for _, pid in runs(log)}
            new = output_of(conductor_stub, conductor_stub.add_task("job", {"number": 2}))["pid"]
            wait_until(lambda: handler.processes[0].pid != old)
            assert psutil.pid_exists(old)
            conductor_stub.release()
            assert [output_of(conductor_stub, task_id)["pid"] for task_id in held] == [old, old]
            wait_until(lambda: not psutil.pid_exists(old))
            assert new == runs(log)[-1][1] != old
        assert sorted(number for number, _ in runs(log)) == [0, 1, 2]
        assert [len(conductor_stub.results_for(task_id)) for task_id in held] == [1, 1]

    def test_a_stop_reaches_the_one_that_retires(self, conductor_stub: ConductorStub, log: Path) -> None:
        url = gate(conductor_stub)
        held = conductor_stub.add_task("job", {"number": 0, "url": url})
        worker = worker_of(recycled_workers.count_and_ask)
        handler = handler_of(conductor_stub, worker, max_tasks_per_process=1, shutdown_grace_seconds=0.1)
        with handler:
            handler.start_processes()
            conductor_stub.wait_for(lambda: conductor_stub.held("workflow") == 1, timeout=PATIENCE_S)
            ((_, old),) = runs(log)
            wait_until(lambda: handler.processes[0].pid != old)
        assert not psutil.pid_exists(old)
        conductor_stub.release()
        (result,) = conductor_stub.results_for(held)
        assert (result["status"], result["reasonForIncompletion"]) == ("IN_PROGRESS", "worker shutting down")

    def test_a_paused_worker_stays_paused(self, conductor_stub: ConductorStub, log: Path) -> None:
        url = gate(conductor_stub)
        conductor_stub.add_task("job", {"number": 0, "url": url})
        worker = worker_of(recycled_workers.count_and_ask)
        with handler_of(conductor_stub, worker, max_tasks_per_process=1) as handler:
            handler.start_processes()
            conductor_stub.wait_for(lambda: conductor_stub.held("workflow") == 1, timeout=PATIENCE_S)
            handler.pause("job")
            ((_, old),) = runs(log)
            wait_until(lambda: handler.processes[0].pid != old)
            conductor_stub.release()
            assert handler.get_worker_process_status()["job"]["paused"] is True
            waiting = conductor_stub.add_task("job", {"number": 1})
            handler.resume("job")
            assert output_of(conductor_stub, waiting)["pid"] == handler.processes[0].pid


class TestMemory:
    def test_a_process_that_has_grown_is_replaced(self, conductor_stub: ConductorStub) -> None:
        limit_mb = read_memory_bytes() // (1 << 20) + 400  # a worker process is not larger than the test process
        worker = worker_of(recycled_workers.keep)
        with handler_of(conductor_stub, worker, max_memory_mb=limit_mb) as handler:
            handler.start_processes()
            old = output_of(conductor_stub, conductor_stub.add_task("job", {"megabytes": limit_mb}))["pid"]
            wait_until(lambda: handler.processes[0].pid != old)
            wait_until(lambda: not psutil.pid_exists(old))
            assert output_of(conductor_stub, conductor_stub.add_task("job", {"megabytes": 1}))["pid"] != old

    def test_a_task_that_exceeds_the_memory_limit_fails_alone(self, conductor_stub: ConductorStub) -> None:
        worker = worker_of(recycled_workers.keep)
        with handler_of(conductor_stub, worker, memory_limit_mb=600, nice=5) as handler:
            handler.start_processes()
            too_much = conductor_stub.add_task("job", {"megabytes": 900})
            conductor_stub.wait_for(lambda: conductor_stub.results_for(too_much), timeout=PATIENCE_S)
            (result,) = conductor_stub.results_for(too_much)
            assert "MemoryError" in result["reasonForIncompletion"]
            pid = output_of(conductor_stub, conductor_stub.add_task("job", {"megabytes": 1}))["pid"]
            assert pid == handler.processes[0].pid
            assert psutil.Process(pid).nice() == min(19, psutil.Process(os.getpid()).nice() + 5)


class TestStuck:
    @pytest.mark.slow  # a function counts as stuck after some real seconds
    def test_the_process_is_ended_and_the_neighbours_finish(self, conductor_stub: ConductorStub, log: Path) -> None:
        url = gate(conductor_stub)
        limited = {"name": "job", "timeoutSeconds": 1, "timeoutPolicy": "RETRY"}
        stuck = conductor_stub.add_task("job", {"number": -1}, task_definition=limited)
        neighbour = conductor_stub.add_task("job", {"number": 1, "url": url})
        worker = worker_of(recycled_workers.count_and_hang, thread_count=2)
        with handler_of(conductor_stub, worker, kill_stuck=True) as handler:
            handler.start_processes()
            conductor_stub.wait_for(lambda: conductor_stub.results_for(stuck), timeout=PATIENCE_S)
            old = runs(log)[0][1]
            wait_until(lambda: handler.processes[0].pid != old)
            assert psutil.pid_exists(old), "a neighbour is in hand there"
            new = output_of(conductor_stub, conductor_stub.add_task("job", {"number": 2}))["pid"]
            conductor_stub.release()
            assert output_of(conductor_stub, neighbour)["pid"] == old != new
            wait_until(lambda: not psutil.pid_exists(old))
        (result,) = conductor_stub.results_for(stuck)
        assert result["status"] == "FAILED"
        assert result["reasonForIncompletion"].startswith("TimeoutError: the task ran longer than its timeout of 1 s")
        assert sorted(number for number, _ in runs(log)) == [-1, 1, 2]


class TestOneProcessForSeveral:
    def test_workers_that_name_the_same_process_share_it(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        about = portable_workers.about_process
        workers = [
            worker_of(about, "a", process_name="small"),
            worker_of(about, "b", process_name="small", domain="eu"),
            worker_of(about, "b", process_name="small", domain="us"),
            worker_of(about, "c"),
        ]
        metrics = MetricsSettings(directory=str(tmp_path / "metrics"), http_port=0)
        with TaskHandler(workers, Configuration(conductor_stub.url), metrics, start_method="forkserver") as handler:
            handler.start_processes()
            places = [("a", None), ("b", "eu"), ("b", "us"), ("c", None)]
            ids = [conductor_stub.add_task(name, domain=domain) for name, domain in places]
            pids = [output_of(conductor_stub, task_id)["pid"] for task_id in ids]
            assert pids[0] == pids[1] == pids[2] != pids[3]
            assert len(handler.processes) == 2
            status = handler.get_worker_process_status()
            assert {name: about["pid"] for name, about in status.items()} == {
                "a": pids[0],
                "b@eu": pids[0],
                "b@us": pids[0],
                "c": pids[3],
            }
            wait_until(lambda: handler._hub.health.report().ready)

    def test_one_of_several_workers_of_a_process_can_be_paused(self, conductor_stub: ConductorStub) -> None:
        about = portable_workers.about_process
        workers = [worker_of(about, name, process_name="small") for name in ("a", "b")]
        with handler_of(conductor_stub, *workers) as handler:
            handler.start_processes()
            output_of(conductor_stub, conductor_stub.add_task("a"))
            handler.pause("a")
            assert {name: of["paused"] for name, of in handler.get_worker_process_status().items()} == {
                "a": True,
                "b": False,
            }
            output_of(conductor_stub, conductor_stub.add_task("b"))
            handler.resume("a")
            output_of(conductor_stub, conductor_stub.add_task("a"))


async def test_a_handler_without_processes_says_that_it_cannot(
    conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(portable_workers.about_process)
    async with TaskHandlerAsyncIO([worker], Configuration(conductor_stub.url), kill_stuck=True, max_memory_mb=100):
        pass
    assert (
        "Options without effect: max_memory_mb, kill_stuck. They apply only to the worker processes of TaskHandler"
        in caplog.text
    )
