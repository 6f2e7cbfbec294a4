"""`conductor-worker exec`: a task through the real executor, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

WORKERS = r"""
from conductor import NonRetryableException, get_task_context, worker_task

@worker_task("exec_sum")
def add(left: int, right: int = 1) -> dict:
    get_task_context().add_log("adding\x1b[31m")
    return {"sum": left + right}

@worker_task("exec_fails")
async def fails() -> None:
    raise NonRetryableException("no\x1b[31m use")
"""


@pytest.fixture
def sums(place: Path) -> Path:
    (place / "sums.py").write_text(WORKERS)
    return place


def test_the_result_the_logs_and_the_report_are_shown(cli: Any, sums: Path) -> None:
    ran = cli("exec", "exec_sum", "sums", "--input", '{"left": "2"}')
    assert ran.status == 0, ran.err
    assert ran.out.startswith('COMPLETED\noutput: {\n  "sum": 3\n}\n')
    assert "log: adding\\x1b[31m\n" in ran.out
    assert "taskId" not in ran.out, "an invented id says nothing"
    assert "\x1b" not in ran.out


def test_a_misspelt_input_is_warned_about_u4_31(cli: Any, sums: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert cli("exec", "exec_sum", "sums", "--input", '{"lfet": 2}').status == 1
    assert "'left' was not given and became None; the input has 'lfet'" in caplog.text


def test_exec_writes_json_for_programs(cli: Any, sums: Path) -> None:
    (sums / "input.json").write_text('{"left": 2, "right": 3}')
    ran = cli("exec", "exec_sum", "sums", "--input", "@input.json", "--json")
    report = json.loads(ran.out)
    assert (ran.status, report["status"], report["outputData"]) == (0, "COMPLETED", {"sum": 5})


def test_a_failure_is_status_1(cli: Any, sums: Path) -> None:
    ran = cli("exec", "exec_fails", "sums.py")
    assert ran.status == 1
    assert ran.out.startswith("FAILED_WITH_TERMINAL_ERROR: no\\x1b[31m use\n")
    assert "\x1b" not in ran.out
    assert cli("exec", "exec_sum", "sums", "--input", '{"left": "many"}').status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["exec_other", "sums"], "no worker serves 'exec_other'; available workers: exec_sum, exec_fails"),
        (["exec_sum", "sums", "--input", "{"], """write for example '{"name": "Ada", "count": 2}'"""),
        (["exec_sum", "sums", "--input", "[]"], "must be a JSON object"),
        (["exec_sum", "sums", "--input", "@nothing"], "nothing cannot be read"),
    ],
)
def test_mistakes_are_one_line(cli: Any, sums: Path, arguments: list[str], said: str) -> None:
    ran = cli("exec", *arguments)
    assert ran.status == 2
    assert said in ran.err
