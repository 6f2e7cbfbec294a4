"""The format of log lines: text and JSON, with the ids of their task and workflow."""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductor.client.telemetry.task_logs import TaskLogFilter
from conductor.telemetry.log_format import JsonFormatter, TaskLabel, TextFormatter
from conductor.testing import ConductorStub
from tests.unit.cli.program import CLI, DEADLINE_S, Program, url_in

FAILING = """
import logging
from conductor import worker_task

@worker_task('log_fail', register_task_def=False)
def fail() -> None:
    logging.getLogger('shop').info('about to fail', extra={'order': 7})
    raise ValueError('no such order')
"""


def record(message: str, *args: object, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "shop", "levelname": "INFO", "msg": message, "args": args, **extra})
    TaskLogFilter().filter(made)
    return made


def test_a_line_of_ours_about_a_task_has_its_ids_as_fields() -> None:
    label = TaskLabel.of("pay", "t1", "w1")
    line = json.loads(JsonFormatter().format(record("Task %s failed %s", "t1", label)))
    assert line["message"] == "Task t1 failed (task_type=pay, task_id=t1, workflow_id=w1)"
    assert (line["task_type"], line["task_id"], line["workflow_id"]) == ("pay", "t1", "w1")
    assert (line["logger"], line["level"]) == ("shop", "INFO")


def test_a_line_outside_of_tasks_has_none_and_what_was_passed_is_kept() -> None:
    line = json.loads(JsonFormatter().format(record("hello", order={"id": 7}, odd={1, 2})))
    assert "task_id" not in line
    assert line["order"] == {"id": 7}
    assert line["odd"] == "{1, 2}"  # what JSON does not know is text


def test_an_exception_and_a_line_break_stay_in_one_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        text = JsonFormatter().format(record("it went\nwrong", exc_info=sys.exc_info()))
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "it went\nwrong"
    assert line["exception"].endswith("ValueError: first\nsecond")


def test_text_ends_with_the_ids_once() -> None:
    label = TaskLabel.of("pay", "t1", "w1")
    ours = TextFormatter().format(record("Task %s failed %s", "t1", label))
    assert ours.count("t1") == 2
    users = TextFormatter().format(record("paid", task_id="t1", workflow_id="w1", task_type="pay"))
    assert users.endswith("shop: paid (task_type=pay, task_id=t1, workflow_id=w1)")
    assert TextFormatter().format(record("nothing")).endswith("shop: nothing")


@pytest.mark.parametrize("mode", [[], ["--asyncio"]], ids=["processes", "asyncio"])
def test_a_worker_logs_json_with_ids_and_the_traceback(
    tmp_path: Path, conductor_stub: ConductorStub, mode: list[str]
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    task_id = conductor_stub.add_task("log_fail")
    command = [*CLI, "run", "failing.py", "--url", conductor_stub.url, "--log-format", "json", *mode]
    with Program(command, tmp_path) as program:
        users = json.loads(program.line_with("about to fail"))
        ours = json.loads(program.line_with("no such order"))
        conductor_stub.wait_results(1, timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    ids = {
        "task_id": task_id,
        "task_type": "log_fail",
        "workflow_id": conductor_stub.task(task_id).workflow_instance_id,
    }
    for line in (users, ours):
        assert {name: line.get(name) for name in ids} == ids
    assert users["order"] == 7
    assert "in fail" in ours["message"]


def test_the_coordinator_says_which_workflow_failed_and_why(tmp_path: Path) -> None:
    command = [*CLI, "serve", "--port", "0", "--database", ":memory:", "--log-format", "json", "--log-level", "DEBUG"]
    flow = {
        "name": "ends_badly",
        "tasks": [
            {
                "name": "stop",
                "taskReferenceName": "stop",
                "type": "TERMINATE",
                "inputParameters": {"terminationStatus": "FAILED", "terminationReason": "no stock"},
            }
        ],
    }
    with Program(command, tmp_path) as server:
        url = url_in(server.line_with("Coordinator at http://"))
        body = json.dumps({"name": "ends_badly", "workflowDef": flow}).encode()
        with urlopen(Request(f"{url}/workflow", body, {"Content-Type": "application/json"}), timeout=60) as answer:
            workflow_id = answer.read().decode()
        seen = [
            json.loads(server.line_with(text)) for text in ("ends_badly) ended as FAILED", "POST /api/workflow: 200")
        ]
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    failed, request = seen
    assert failed["level"] == "WARNING"
    assert (failed["workflow_id"], failed["workflow_type"], failed["status"]) == (workflow_id, "ends_badly", "FAILED")
    assert "no stock" in failed["message"]
    assert request["logger"] == "conductor.coordinator.http.app"


@pytest.mark.parametrize("command", [["serve"], ["run", "failing.py"]], ids=["serve", "run"])
@pytest.mark.parametrize(("option", "value"), [("--log-format", "xml"), ("--log-level", "LOUD")])
def test_a_log_setting_that_is_not_allowed_is_one_line(
    tmp_path: Path, command: list[str], option: str, value: str
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    with Program([*CLI, *command, option, value], tmp_path) as program:
        assert program.wait() == 2
    assert option in program.output
    assert value in program.output
    assert program.output.count("\n") == 1
