"""Mistakes in how a program starts its workers: one error that says what to do, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub

PATIENCE_S = 60.0
LOAD_TEST = [sys.executable, "-m", "conductor.client.automator.task_handler_asyncio"]
WORKERS = """
from conductor import worker_task

@worker_task("job")
def job(n: int) -> int:
    return n
"""


def ran(command: list[str], cwd: Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **more)  # type: ignore[call-overload, no-any-return]


def double(n: int) -> int:
    return 2 * n


class TestWaitingWithoutAStart:
    def test_waiting_without_a_start_says_what_to_call(self) -> None:
        with (
            TaskHandler([Worker("job", double)]) as handler,
            pytest.raises(RuntimeError, match=r"call start_processes\(\)"),
        ):
            handler.join_processes()

    async def test_waiting_without_a_start_says_so_in_one_process_too(self) -> None:
        handler = TaskHandlerAsyncIO([Worker("job", double)])
        with pytest.raises(RuntimeError, match=r"call start\(\)"):
            await handler.wait()


GUARDED = """
from conductor import Configuration, TaskHandler, Worker, WorkerInterface, worker_task

def top(n: int) -> int:
    return n

if __name__ == "__main__":
    {definition}

    with TaskHandler({workers}, Configuration({url!r}), start_method={method!r}) as handler:
        handler.start_processes()
        handler.join_processes()
"""
DECORATED = """@worker_task("job")
    def job(n: int) -> int:
        return n"""
PLAIN = """async def job(n: int) -> int:
        return n"""
CLASS = """class Job(WorkerInterface):
        def execute(self, task):
            return {}"""
HIDDEN = {"decorated": (DECORATED, "None"), "plain": (PLAIN, "[Worker('job', job)]"), "class": (CLASS, "[Job('job')]")}


class TestAWorkerUnderTheMainGuard:
    @pytest.mark.parametrize("kind", HIDDEN)
    @pytest.mark.parametrize("method", ["forkserver", "spawn"])
    def test_a_worker_under_the_main_guard_is_one_error_at_the_start(
        self, tmp_path: Path, kind: str, method: str
    ) -> None:
        definition, workers = HIDDEN[kind]
        script = tmp_path / "program.py"
        script.write_text(
            GUARDED.format(definition=definition, workers=workers, url="http://127.0.0.1:1", method=method)
        )
        done = ran([sys.executable, str(script)], tmp_path)
        assert done.returncode == 1
        assert "worker 'job' cannot be sent to its process" in done.stderr
        assert 'is defined under `if __name__ == "__main__":`' in done.stderr
        assert done.stderr.count("Traceback") == 1

    def test_a_worker_under_the_main_guard_is_fine_where_only_the_worker_object_is_made_there(
        self, tmp_path: Path, conductor_stub: ConductorStub
    ) -> None:
        conductor_stub.add_task("job", {"n": 7})
        script = tmp_path / "program.py"
        workers = "[Worker('job', top)]"
        script.write_text(
            GUARDED.format(definition="pass", workers=workers, url=conductor_stub.url, method="forkserver")
        )
        with subprocess.Popen([sys.executable, str(script)], cwd=tmp_path) as program:
            [result] = conductor_stub.wait_results(1, timeout=PATIENCE_S)
            program.terminate()
            assert program.wait(PATIENCE_S) == 0
        assert result["outputData"] == {"result": 7}


class TestTheLoadTestWithoutWorkers:
    def test_the_load_test_says_what_to_do(self, tmp_path: Path) -> None:
        (tmp_path / "notes.py").write_text("raise SystemExit('imported unasked')")
        done = ran([*LOAD_TEST, "--duration=3600"], tmp_path)
        assert done.returncode == 2
        assert done.stderr.rstrip().endswith(
            f"there are no workers in the Python files of {tmp_path}: decorate functions with @worker_task"
        )

    def test_the_load_test_runs_the_modules_that_are_named(self, tmp_path: Path, conductor_stub: ConductorStub) -> None:
        (tmp_path / "orders.py").write_text(WORKERS)
        done = ran([*LOAD_TEST, "--duration=0.1", "orders"], tmp_path, env={"CONDUCTOR_SERVER_URL": conductor_stub.url})
        assert done.returncode == 0
        assert "0 tasks completed, 0 failed" in done.stdout
