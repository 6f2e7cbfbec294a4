"""Blocks that are programs: each runs as a script until it has done a task, and is then stopped as it expects."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models import TaskDef, WorkflowDef, WorkflowTask
from conductor.client.orkes_clients import OrkesClients
from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub
from tests.compat.catalogue import path_of
from tests.compat.printed_ports import alone_on
from tests.compat.user_program import Program

INTERRUPTED = -signal.SIGINT

#: For blocks that run workers without defining one.
WORKER = """
@worker_task(task_definition_name='simple_task')
def my_worker(task):
    return {'result': 'done'}
"""
RUN = "handler.start_processes(); handler.join_processes()"


def done(server: ConductorStub, task_type: str, input_data: dict[str, Any] | None = None) -> Any:
    """The output of one task, done by whatever program runs."""
    task_id = server.add_task(task_type, input_data or {})
    server.wait_for(lambda: server.results_for(task_id), 60)
    (report,) = server.results_for(task_id)
    assert report["status"] == "COMPLETED", report
    return report["outputData"]


@pytest.mark.usefixtures("packages")
def test_s001_062_without_main_guard_drains_at_sigterm(start: Any, server: ConductorStub) -> None:
    program = start("s001_062", bare=True)
    assert done(server, "order_task", {"n": 3}) == {"order_task": 3}
    assert done(server, "charge_task") == {"charge_task": 0}
    assert program.terminate() == 0
    assert program.calm


@pytest.mark.usefixtures("packages")
def test_s001_062_drains_at_ctrl_c(start: Any, server: ConductorStub) -> None:
    program = start("s001_062", bare=True)
    assert done(server, "order_task") == {"order_task": 0}
    assert program.interrupt() == INTERRUPTED
    assert "KeyboardInterrupt" in program.output


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("block", ["s001_641", "s001_652"])
def test_what_was_discovered_runs_once(block: str, start: Any, server: ConductorStub) -> None:
    program = start(block, after=RUN)
    assert done(server, "order_task") == {"order_task": 0}
    assert done(server, "mail_task") == {"mail_task": 0}
    assert len({poll.query["workerid"] for poll in server.polls("mail_task")}) == 1
    assert program.terminate() == 0
    assert program.calm


def test_s001_1161_listens_in_the_worker_process(start: Any, server: ConductorStub) -> None:
    program = start("s001_1161", before=WORKER, after=RUN)
    assert done(server, "simple_task") == {"result": "done"}
    assert program.terminate() == 0
    assert "completed in " in program.output
    assert "Output size: 17 bytes" in program.output
    assert program.calm


def test_s003_118_takes_the_asyncio_flag(start: Any, server: ConductorStub) -> None:
    program = start("s003_118", before=WORKER)
    assert done(server, "simple_task") == {"result": "done"}
    assert program.terminate() == 0
    assert program.calm


def test_s003_134_without_main_guard_and_with(start: Any, server: ConductorStub, web: str) -> None:
    program = start("s003_134")
    assert done(server, "api_call", {"url": web}) == {"hello": "world"}
    assert done(server, "process_data", {"data": {"a": 1}}) == {"result": 1}
    assert program.terminate() == 0
    assert program.calm


def test_s003_200_ends_at_ctrl_c(start: Any, server: ConductorStub, web: str) -> None:
    """Ctrl-C comes out of the join, and nothing in the program stops the workers: they end with it."""
    program = start("s003_200")
    assert done(server, "fetch_data", {"url": web}) == {"data": {"hello": "world"}}
    assert program.interrupt() == INTERRUPTED


def test_s003_228(start: Any, server: ConductorStub, web: str) -> None:
    program = start("s003_228")
    assert done(server, "fetch_data", {"url": web}) == {"data": {"hello": "world"}}
    assert program.terminate() == 0
    assert program.calm


def test_s004_229_starts_and_stops_and_can_start_again(start: Any, server: ConductorStub) -> None:
    program = start("s004_229", after=RUN)
    assert done(server, "first_task") == {"by": "ImageProcessingWorker"}
    assert done(server, "second_task") == {"by": "APICallWorker"}
    assert program.terminate() == 0
    assert program.calm


def test_s004_250_in_a_coroutine(tmp_path: Path, server: ConductorStub) -> None:
    """The block awaits outside of a function, as it would in the body of one."""
    script = tmp_path / "awaiting.py"
    script.write_text(
        "from preamble import *\nimport ast, pathlib\n"
        f"text = pathlib.Path({str(path_of('s004_250'))!r}).read_text()\n"
        "asyncio.run(eval(compile(text, 's004_250', 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))\n"
    )
    with Program([script], tmp_path, {}) as program:
        assert done(server, "first_task") == {"by": "ImageProcessingWorker"}
        assert done(server, "second_task") == {"by": "APICallWorker"}
        assert program.terminate() == 0
        assert program.calm


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="from Python 3.14 on, a Process of the standard library needs a main guard"
)
def test_s004_391_runs_both_handlers_in_one_program(start: Any, server: ConductorStub) -> None:
    """No main guard; the process that starts the workers' processes returns at once."""
    program = start("s004_391")
    assert done(server, "resize_images") == {"by": "ImageProcessingWorker"}
    assert done(server, "run_model") == {"by": "MLInferenceWorker"}
    assert done(server, "fetch_data") == {"by": "APICallWorker"}
    assert done(server, "query_db") == {"by": "DatabaseWorker"}
    assert done(server, "send_email") == {"by": "EmailWorker"}
    assert program.interrupt() == INTERRUPTED


@pytest.mark.parametrize("stop", [Program.terminate, Program.interrupt])
def test_s004_945_stops_workers_in_a_handler_of_its_own(stop: Any, start: Any, server: ConductorStub) -> None:
    before = WORKER + "handler = TaskHandler(configuration=config)\n"
    sleep = "if __name__ == '__main__':\n    handler.start_processes()\n    while True: signal.pause()"
    program = start("s004_945", before=before, after=sleep)
    assert done(server, "simple_task") == {"result": "done"}
    assert stop(program) == 0
    assert program.calm


def test_s004_1114_in_the_debug_mode_of_asyncio(start: Any, server: ConductorStub) -> None:
    before = WORKER + (
        "async def main():\n"
        "    monitor_event_loop()\n"
        "    async with TaskHandlerAsyncIO(configuration=config) as handler:\n"
        "        await handler.wait()\n"
    )
    program = start("s004_1114", before=before)
    assert done(server, "simple_task") == {"result": "done"}
    assert program.terminate() == 0
    assert program.calm


def what_came_out_of(task_type: str) -> Any:
    """Run a workflow whose second step, done here, gets the result of the first."""
    first = WorkflowTask(name=task_type, task_reference_name="first")
    second = WorkflowTask(name="look", task_reference_name="look", input_parameters={"it": "${first.output.result}"})
    clients = OrkesClients(Configuration())
    metadata, tasks = clients.get_metadata_client(), clients.get_task_client()
    metadata.register_task_defs([TaskDef(name=task_type), TaskDef(name="look")])
    metadata.update_workflow_def(WorkflowDef(name="two_steps", tasks=[first, second]))
    clients.get_workflow_client().start_workflow_by_name("two_steps")
    for _ in range(6):
        if found := tasks.batch_poll_tasks("look", timeout_in_millisecond=5000):
            tasks.close()
            return found[0].input_data["it"]
    raise TimeoutError("the first step did not end")


@pytest.mark.xdist_group("port8080")
class TestOnPort8080:
    """Blocks that print `http://localhost:8080/api`."""

    def test_s004_1286_is_stopped_by_ctrl_c_in_its_sleep(self, start: Any, server_8080: ConductorStub) -> None:
        program = start("s004_1286", before=WORKER)
        assert done(server_8080, "simple_task") == {"result": "done"}
        assert program.interrupt() == 0
        assert program.calm

    def test_s004_1305(self, start: Any, server_8080: ConductorStub) -> None:
        program = start("s004_1305", before=WORKER)
        assert done(server_8080, "simple_task") == {"result": "done"}
        assert program.terminate() == 0

    def test_s004_1305_says_that_it_shuts_down_after_ctrl_c(self, start: Any, server_8080: ConductorStub) -> None:
        """What the block prints, and no traceback."""
        program = start("s004_1305", before=WORKER)
        assert done(server_8080, "simple_task") == {"result": "done"}
        assert program.interrupt() == 0
        assert "Shutting down..." in program.output
        assert program.calm

    @pytest.mark.parametrize("stop", [Program.terminate, Program.interrupt])
    def test_s004_1563_exactly_as_printed(self, stop: Any, start: Any, server_8080: ConductorStub) -> None:
        program = start("s004_1563", bare=True)
        assert done(server_8080, "simple_task") == {"result": "done"}
        assert stop(program) == 0
        assert program.calm

    @pytest.mark.parametrize(("stop", "code"), [(Program.terminate, 0), (Program.interrupt, INTERRUPTED)])
    def test_s004_1588_exactly_as_printed(self, stop: Any, code: int, start: Any, server_8080: ConductorStub) -> None:
        program = start("s004_1588", bare=True)
        assert done(server_8080, "simple_task") == {"result": "done"}
        assert stop(program) == code

    def test_s004_1563_with_a_coordinator_there(self, start: Any) -> None:
        """What `conductor-worker serve` starts is where the printed programs look for it."""
        with alone_on(8080):
            try:
                coordinator = Coordinator(port=8080).start()
            except OSError as error:
                pytest.skip(f"port 8080, which the block prints, is taken by another program: {error}")
            try:
                program = start("s004_1563", bare=True)
                assert what_came_out_of("simple_task") == "done"
                assert program.terminate() == 0
                assert program.calm
            finally:
                coordinator.stop()
