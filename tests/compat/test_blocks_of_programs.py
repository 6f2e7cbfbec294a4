"""Blocks that are programs: each runs as a script of its own until it has done a task, and is then stopped as it expects."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from program import Program

from conductor.testing import ConductorStub

INTERRUPTED = -signal.SIGINT


def done(server: ConductorStub, task_type: str, input_data: dict[str, Any] | None = None, **fields: Any) -> Any:
    """The output of one task, done by whatever program runs."""
    task_id = server.add_task(task_type, input_data or {}, **fields)
    server.wait_for(lambda: server.results_for(task_id), 20)
    (report,) = server.results_for(task_id)
    assert report["status"] == "COMPLETED", report
    return report["outputData"]


def assert_calm(program: Program) -> None:
    assert "Traceback" not in program.output, program.output


@pytest.mark.usefixtures("packages")
def test_s001_062_ends_with_sigterm(start: Any, server: ConductorStub) -> None:
    """No main guard, and a `with` around a join."""
    program = start("s001_062", bare=True)
    assert done(server, "order_task", {"n": 3}) == {"order_task": 3}
    assert done(server, "charge_task") == {"charge_task": 0}
    assert program.terminate() == 0
    assert_calm(program)


@pytest.mark.usefixtures("packages")
def test_s001_062_drains_at_ctrl_c(start: Any, server: ConductorStub) -> None:
    program = start("s001_062", bare=True)
    assert done(server, "order_task") == {"order_task": 0}
    assert program.interrupt() == INTERRUPTED
    assert "KeyboardInterrupt" in program.output


def test_s003_118(start: Any, server: ConductorStub) -> None:
    program = start("s003_118", before=WORKER)
    assert done(server, "simple_task") == {"result": "done"}
    assert program.terminate() == 0
    assert_calm(program)


WORKER = """
@worker_task(task_definition_name='simple_task')
def my_worker(task):
    return {'result': 'done'}
"""


def test_s003_134(start: Any, server: ConductorStub, web: str) -> None:
    """No main guard, no `with`."""
    program = start("s003_134")
    assert done(server, "api_call", {"url": web}) == {"hello": "world"}
    assert done(server, "process_data", {"data": {"a": 1}}) == {"result": 1}
    assert program.terminate() == 0
    assert_calm(program)


def test_s003_200_ends_at_ctrl_c(start: Any, server: ConductorStub, web: str) -> None:
    """Ctrl-C comes out of the join, and nothing in the program stops the workers: they end with it."""
    program = start("s003_200")
    assert done(server, "fetch_data", {"url": web}) == {"data": {"hello": "world"}}
    assert program.interrupt() == INTERRUPTED


def test_s003_228(start: Any, server: ConductorStub, web: str) -> None:
    program = start("s003_228")
    assert done(server, "fetch_data", {"url": web}) == {"data": {"hello": "world"}}
    assert program.terminate() == 0
    assert_calm(program)
