"""Command lines and addresses that the documents print, tried out."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub, Status
from tests.compat.printed_ports import alone_on
from tests.compat.user_program import Program

ROOT = Path(__file__).parents[2]
LOAD_TEST = ["-W", "error", "-m", "conductor.client.automator.task_handler_asyncio"]


# -- the load test ----------------------------------------------------------------------------------------------------


def test_the_load_test_runs_as_printed_until_it_is_stopped(packages: Path, server: ConductorStub) -> None:
    server.add_task("order_task", {"n": 5})
    with Program([*LOAD_TEST, "--duration=3600", "my_app.workers"], packages, {}) as program:
        server.wait_results(1, 60)
        assert program.terminate() == 0
        assert re.search(r"^1 tasks completed, 0 failed, [\d.]+ ms each, \d+ MB at most$", program.output, re.MULTILINE)


def test_the_load_test_ends_by_itself(packages: Path, server: ConductorStub) -> None:
    with Program([*LOAD_TEST, "--duration=0.1", "my_app.workers"], packages, {}) as program:
        assert program.ended() == 0
        assert "0 tasks completed" in program.output


def test_the_load_test_finds_the_workers_of_the_current_directory_c10(tmp_path: Path, server: ConductorStub) -> None:
    """The line as it is printed, without a module."""
    function = "from conductor.client.worker.worker_task import worker_task\n@worker_task('{0}')\ndef {0}(): ...\n"
    for file in ("shop.py", "my_app/orders.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(function.format(Path(file).stem))
    for file in ("setup.py", "my_app/__main__.py", "my_app/test_orders.py", ".hidden.py"):
        (tmp_path / file).write_text("raise SystemExit('imported unasked')")
    (tmp_path / "my_app/__main__.py").write_text("raise SystemExit('worker_task')")
    (tmp_path / "my_app/test_orders.py").write_text("raise SystemExit('worker_task')")
    server.add_task("shop")
    server.add_task("orders")
    with Program([*LOAD_TEST, "--duration=3600"], tmp_path, {}) as program:
        server.wait_results(2, 60)
        assert program.terminate() == 0
        assert "2 tasks completed, 0 failed" in program.output
    with Program([*LOAD_TEST, "--duration=0.1"], tmp_path, {}) as program:
        assert program.ended() == 0


def test_the_load_test_without_workers_says_what_to_add(tmp_path: Path, server: ConductorStub) -> None:
    with Program([*LOAD_TEST, "--duration=3600"], tmp_path, {}) as program:
        assert program.ended() == 2


def test_the_load_test_is_stopped_by_ctrl_c(server: ConductorStub, packages: Path) -> None:
    with Program([*LOAD_TEST, "--duration", "3600", "my_app.workers"], packages, {}) as program:
        server.wait_for(server.polls, 60)
        assert program.interrupt() in (0, -signal.SIGINT)


# -- metrics and health on port 8000 ----------------------------------------------------------------------------------


@pytest.fixture
def port_8000() -> Iterator[int]:
    with alone_on(8000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", 8000))
            except OSError as error:
                pytest.skip(f"port 8000, which the documents print, is taken by another program: {error}")
        yield 8000


@pytest.mark.xdist_group("port8000")
async def test_metrics_and_health_are_where_curl_looks_for_them(server: ConductorStub, port_8000: int) -> None:
    @worker_task(task_definition_name="sometimes")
    async def sometimes(fail: bool = False) -> dict[str, int]:
        if fail:
            raise ValueError("no")
        return {"n": 1}

    server.script("update", Status(500))
    for fail in (False, False, True):
        server.add_task("sometimes", {"fail": fail})
    settings = MetricsSettings(http_port=port_8000)
    async with TaskHandlerAsyncIO(metrics_settings=settings, update_retry_delay_seconds=0.0):
        await server.until_results(3)
        async with httpx.AsyncClient() as curl:
            scraped = (await curl.get("http://localhost:8000/metrics")).text
            health = await curl.get("http://localhost:8000/health")
    assert health.status_code == 200
    check_names(scraped)
    check_promql(scraped)


#: The series that the documents promise, with their labels.
SERIES = {
    "task_poll_total": {"taskType"},
    "task_poll_time_seconds": {"taskType", "quantile"},
    "task_poll_time_seconds_count": {"taskType"},
    "task_poll_time_seconds_sum": {"taskType"},
    "task_execute_time_seconds": {"taskType", "quantile"},
    "task_execute_time_seconds_count": {"taskType", "status"},
    "task_execute_time_seconds_sum": {"taskType", "status"},
    "task_execute_error_total": {"taskType", "exception"},
    "task_result_size_bytes": {"taskType", "quantile"},
    "task_update_error_total": {"taskType", "exception"},
    "task_update_failed_total": {"taskType"},
    "http_api_client_request": {"method", "uri", "status", "quantile"},
    "http_api_client_request_count": {"method", "uri", "status"},
    "http_api_client_request_sum": {"method", "uri", "status"},
}

PROMQL = """
rate(task_execute_time_seconds_sum[5m]) / rate(task_execute_time_seconds_count[5m])
sum(rate(task_execute_time_seconds_count{status="SUCCESS"}[5m])) / sum(rate(task_execute_time_seconds_count[5m]))
task_execute_time_seconds{quantile="0.95"}
sum(rate(task_execute_error_total[5m])) by (taskType)
"""


def samples(scraped: str) -> list[Any]:
    return [sample for family in text_string_to_metric_families(scraped) for sample in family.samples]


def check_names(scraped: str) -> None:
    found = {sample.name: set(sample.labels) for sample in samples(scraped)}
    assert {name: found.get(name) for name in SERIES} == SERIES
    quantiles = {s.labels["quantile"] for s in samples(scraped) if s.name == "task_execute_time_seconds"}
    assert quantiles == {"0.5", "0.75", "0.9", "0.95", "0.99"}
    assert not any("pid" in sample.labels for sample in samples(scraped))


def check_promql(scraped: str) -> None:
    """Each selector of the printed queries picks at least one series."""
    selectors = re.findall(r"(\b\w+_(?:seconds|total)\w*)(?:{(\w+)=\"([^\"]+)\"})?", PROMQL)
    assert len(selectors) == 6
    for name, label, value in selectors:
        picked = [s for s in samples(scraped) if s.name == name and (not label or s.labels.get(label) == value)]
        assert picked, f"no series for {name} with {label}={value}"


# -- the suites -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "suite",
    [
        "tests/unit/automator/test_async_task_runner.py",
        "tests/unit/automator/test_task_runner.py",
        "tests/unit/automator/test_task_handler.py",
        "tests/unit/automator/test_task_runner_asyncio.py",
        "tests/unit/automator/test_task_handler_asyncio.py",
        "tests/integration/test_asyncio_integration.py",
    ],
)
def test_a_named_suite_exists(suite: str) -> None:
    assert "def test_" in (ROOT / suite).read_text()


def test_pytest_takes_the_printed_options(pytestconfig: pytest.Config) -> None:
    """`--cov=conductor.client.automator --cov-report=html` are options of a plugin."""
    assert pytestconfig.pluginmanager.hasplugin("pytest_cov")
