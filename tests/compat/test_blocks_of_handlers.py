"""Blocks about handlers, listeners, discovery and tuning run as printed, and their results are used."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub, Status
from tests.compat import preamble
from tests.compat.catalogue import text_of
from tests.compat.printed_ports import alone_on


@pytest.fixture
def simple_worker() -> Callable[..., Any]:
    @worker_task(task_definition_name="simple_task")
    async def my_worker(task: Any) -> dict[str, str]:
        return {"result": "done"}

    return my_worker


async def run_one(server: ConductorStub, handler: TaskHandlerAsyncIO, task_type: str, **input_data: Any) -> Any:
    """Start the handler, see it do one task, stop it; the task's report."""
    task_id = server.add_task(task_type, input_data)
    async with handler:
        await server.until(lambda: server.results_for(task_id))
    return server.results_for(task_id)[-1]


# -- discovery --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("packages")
def test_s001_667_reports_the_directory_that_is_missing(run_block: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/app/workers").exists():
        pytest.skip("this machine has an /app/workers of its own")
    loader = run_block("s001_667").loader
    printed = capsys.readouterr().out
    assert "Found 3 workers" in printed
    assert "order_task: my_app.workers.order_tasks.order_task" in printed
    assert "cannot import /app/workers: NotADirectoryError" in printed
    assert sorted(loader.get_worker_names()) == ["audit_task", "charge_task", "order_task"]


def test_s001_667_with_its_directory(packages: Path, run_block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same block on a machine that has the directory."""
    import conductor.client.worker.worker_loader as module

    there = packages / "app"
    there.mkdir()
    (there / "late.py").write_text((packages / "my_app/tasks/mail.py").read_text())
    monkeypatch.setattr(module, "Path", lambda path: there if path == "/app/workers" else Path(path))
    loader = run_block("s001_667").loader
    assert not loader.failures
    assert sorted(loader.get_worker_names()) == ["audit_task", "charge_task", "mail_task", "order_task"]
    monkeypatch.undo()
    sys.modules.pop("my_app.workers.late")


@pytest.mark.usefixtures("packages")
def test_s001_694_scans_and_summarises(run_block: Any, capsys: pytest.CaptureFixture[str]) -> None:
    loader = run_block("s001_694").loader
    assert sorted(loader.get_worker_names()) == ["charge_task", "order_task"]
    assert capsys.readouterr().out.startswith("2 workers in ")


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("env", "found"), [(None, 2), ("production", 2), ("development", 3)])
def test_s001_733_loads_by_environment(
    env: str | None, found: int, run_block: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENV", raising=False)
    if env:
        monkeypatch.setenv("ENV", env)
    assert run_block("s001_733").loader.get_worker_count() == found


# -- metrics ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def printed_places() -> Iterator[None]:
    """The port and the directories below /tmp that the documents print: for one test of this machine at a time."""
    with alone_on(8000):
        yield
        for directory in ("/tmp/conductor-metrics", "/tmp/metrics"):
            with contextlib.suppress(OSError):  # not ours alone, or never made
                Path(directory).rmdir()


@pytest.mark.usefixtures("printed_places")
@pytest.mark.xdist_group("port8000")
def test_s001_776_starts_and_stops_at_once(start: Any, server: ConductorStub) -> None:
    program = start("s001_776", before="logging.basicConfig(level='INFO')\n" + SIMPLE)
    assert program.ended() == 0
    assert "Created TaskRunner for sync worker: simple_task" in program.output
    assert ":8000" in program.output  # served there, or said that it is taken
    assert program.calm


SIMPLE = """
@worker_task(task_definition_name='simple_task')
def my_worker(task):
    return {'result': 'done'}
"""


@pytest.mark.usefixtures("printed_places")
@pytest.mark.xdist_group("port8000")
async def test_s001_793_writes_a_file(run_block: Any, server: ConductorStub, simple_worker: Any) -> None:
    settings = run_block("s001_793").metrics_settings
    assert (settings.file_name, settings.update_interval, settings.http_port) == ("metrics.prom", 1.0, None)
    await run_one(server, TaskHandlerAsyncIO(metrics_settings=settings), "simple_task")
    written = Path("/tmp/conductor-metrics/metrics.prom")
    assert 'task_poll_total{taskType="simple_task"}' in written.read_text()
    written.unlink()


def test_s001_1177_constructs_without_directory_and_workers(run_block: Any) -> None:
    handler = run_block("s001_1177").handler
    assert handler.workers == []
    assert handler.metrics_settings.http_port == 8000


@pytest.mark.usefixtures("printed_places")
@pytest.mark.xdist_group("port8000")
async def test_s004_1671_in_the_asyncio_handler(run_block: Any, server: ConductorStub, simple_worker: Any) -> None:
    handler = run_block("s004_1671").handler
    await run_one(server, handler, "simple_task")
    written = Path("/tmp/metrics/conductor_metrics.txt")
    assert "task_execute_time_seconds_count" in written.read_text()
    written.unlink()


# -- listeners --------------------------------------------------------------------------------------------------------


async def test_s001_1201_hears_of_a_lost_result(
    run_block: Any, server: ConductorStub, simple_worker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    block = run_block("s001_1201")
    assert isinstance(block.handler, TaskHandler)
    server.script("update", Status(500), repeat=True)
    options: dict[str, Any] = {"update_retry_delay_seconds": 0.0, "journal_enabled": False}
    handler = TaskHandlerAsyncIO(event_listeners=[block.UpdateFailureHandler()], **options)
    task_id = server.add_task("simple_task")
    async with handler:
        await server.until(lambda: len(server.requests_of("update")) == 4)
    called = dict(preamble.CALLS)
    text, details = called["send_pagerduty_alert"]
    assert text == "CRITICAL: Task update failed after 4 attempts"
    assert details["task_id"] == task_id
    assert called["save_task_result"]["result"].output_data == {"result": "done"}
    assert "500" in called["save_task_result"]["error"]
    assert called["update_task_with_custom_retry"].task_id == task_id
    assert ("block", logging.CRITICAL, "Recovery failed: no luck either") in caplog.record_tuples


async def test_s001_1241_s001_1252_s001_1265_listen_together(
    run_block: Any, server: ConductorStub, simple_worker: Any
) -> None:
    monitor = run_block("s001_1241").SLAMonitor
    tracker = run_block("s001_1252").CostTracker
    handler = run_block("s001_1265", SLAMonitor=monitor, CostTracker=tracker).handler
    assert isinstance(handler, TaskHandler)
    costs = tracker(cost_per_second={"simple_task": 0.05})
    listeners = [
        preamble.PrometheusMetricsCollector(), monitor(threshold_ms=0), costs, preamble.CustomAuditLogger()
    ]  # fmt: skip
    report = await run_one(server, TaskHandlerAsyncIO(event_listeners=listeners), "simple_task")
    names, values = zip(*preamble.CALLS, strict=True)
    assert names == ("PrometheusMetricsCollector", "alert", "CustomAuditLogger")
    assert values[0] == values[2] == report["taskId"]
    assert values[1].startswith("SLA breach: simple_task took ")
    assert costs.total_cost > 0


# -- tasks in rounds, cancelled, or bound to fail ---------------------------------------------------------------------


async def test_s001_1027_works_in_rounds(run_block: Any, server: ConductorStub) -> None:
    """The poll count is 1 at the first run: the batch of 250 is looked at from 100 on, and then from 200 on."""
    run_block("s001_1027")
    task_id = server.add_task("batch_processor", {"batch_id": "b"})
    async with TaskHandlerAsyncIO():
        await server.until_results(1)
        assert server.requeue_postponed() == [task_id]
        await server.until_results(2)
    first, second = server.results
    assert (first["status"], first["callbackAfterSeconds"]) == ("IN_PROGRESS", 30)
    assert first["outputData"] == {"progress": 200}
    assert second["status"] == "COMPLETED"
    assert second["outputData"] == {"status": "completed", "total_processed": 250}


async def test_s004_1078_is_cancelled_when_the_worker_stops(
    run_block: Any, server: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    working, cleaned = asyncio.Event(), asyncio.Event()

    async def do_work(_: int) -> None:
        working.set()
        await asyncio.Event().wait()

    async def cleanup() -> None:
        cleaned.set()

    caplog.set_level(logging.INFO)
    run_block("s004_1078", do_work=do_work, cleanup=cleanup)
    task_id = server.add_task("long_task")
    async with TaskHandlerAsyncIO(shutdown_grace_seconds=0), asyncio.timeout(60):
        await working.wait()
    assert cleaned.is_set()
    assert "Task cancelled, cleaning up..." in caplog.messages
    (report,) = server.results_for(task_id)
    assert (report["status"], report["callbackAfterSeconds"]) == ("IN_PROGRESS", 1)


async def test_s004_338_as_printed_cannot_succeed(run_block: Any, server: ConductorStub, web: str) -> None:
    """It posts to an address without a host: a failure of the task, which says so."""
    run_block("s004_338")
    report = await run_one(server, TaskHandlerAsyncIO(), "api_calls", url=web)
    assert report["status"] == "FAILED"
    assert report["reasonForIncompletion"].startswith("UnsupportedProtocol: ")


async def test_s004_338_with_a_client_that_knows_its_host(run_block: Any, server: ConductorStub, web: str) -> None:
    """It then returns the answer and not its content: what cannot be sent fails for good, by its name."""
    import httpx

    class at_home:  # noqa: N801
        @staticmethod
        def AsyncClient() -> httpx.AsyncClient:  # noqa: N802
            return httpx.AsyncClient(base_url=web)

    run_block("s004_338", httpx=at_home)
    report = await run_one(server, TaskHandlerAsyncIO(), "api_calls", url=web)
    assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert "result" in report["reasonForIncompletion"]
    assert "Response" in report["reasonForIncompletion"]


async def test_s004_995_uses_async_libraries(
    run_block: Any, server: ConductorStub, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("aiopg", "aiofiles"):
        monkeypatch.setitem(sys.modules, library, getattr(preamble, library))
    run_block("s004_995")
    report = await run_one(server, TaskHandlerAsyncIO(), "api_call", url=web)
    assert report["outputData"] == {"result": None}
    assert preamble.CALLS == [("execute", "INSERT ..."), ("write", '{"hello": "world"}')]


# -- handlers ---------------------------------------------------------------------------------------------------------


def test_s004_321_takes_workers_without_a_configuration(run_block: Any, server: ConductorStub) -> None:
    handler = run_block("s004_321").handler
    assert handler.workers == preamble.workers
    assert handler.configuration.host == server.url
    assert handler.processes == []


async def test_s004_350_runs_workers_without_a_configuration(run_block: Any, server: ConductorStub) -> None:
    report = await run_one(server, run_block("s004_350").handler, "first_task")
    assert report["outputData"] == {"by": "ImageProcessingWorker"}


async def test_s004_1134_takes_functions_as_workers(run_block: Any, server: ConductorStub) -> None:
    block = run_block("s004_1134")
    assert [worker.execute_function for worker in block.handler.workers] == [block.sync_worker, block.async_worker]
    report = await run_one(server, block.handler, "legacy_sync")
    assert report["outputData"] == {"result": [1, 2, 3]}


@pytest.mark.parametrize("which", [0, 1], ids=["async with", "start, wait, stop"])
async def test_s004_1095_has_two_mains(which: int, run_block: Any, server: ConductorStub) -> None:
    run_block("s004_1095")
    main = nth_function("s004_1095", which, preamble.names(server.url))
    task_id = server.add_task("first_task")
    running = asyncio.create_task(main())
    await server.until(lambda: server.results_for(task_id))
    running.cancel()  # what asyncio.run does at Ctrl-C
    with pytest.raises(asyncio.CancelledError):
        await running
    polls = len(server.polls())
    server.add_task("first_task")
    assert len(server.polls()) == polls
    assert len(server.results) == 1


def nth_function(block: str, which: int, names: dict[str, Any]) -> Callable[[], Coroutine[Any, Any, None]]:
    """The block defines the same name again and again: give me the one I want."""
    only = ast.Module([ast.parse(text_of(block)).body[which]], type_ignores=[])
    exec(compile(only, block, "exec", dont_inherit=True), names)
    return names["main"]  # type: ignore[no-any-return]


async def test_s004_1640_tunes_a_runner(run_block: Any, server: ConductorStub) -> None:
    block = run_block("s004_1640")
    assert asyncio.get_running_loop().get_debug()
    for _ in range(6):
        server.add_task("task")
    assert await block.runner.run_once() == 5  # max_concurrent_tasks
    tuned = TaskRunnerAsyncIO(worker=block.worker, configuration=block.config, http_client=block.http_client)
    assert await tuned.run_once() == 1
    assert len(server.results) == 6
    assert not block.http_client.is_closed  # it is the user's
    await block.http_client.aclose()


def test_s004_1405_names_are_enough_for_workers(run_block: Any) -> None:
    workers = run_block("s004_1405").workers
    assert [worker.get_task_definition_name() for worker in workers] == [f"task{i}" for i in range(20)]
    assert all(isinstance(worker, Worker) for worker in workers)


# -- plain Python around workers --------------------------------------------------------------------------------------


def test_s004_1275_imports_both_handlers(run_block: Any) -> None:
    block = run_block("s004_1275")
    assert (block.TaskHandler, block.TaskHandlerAsyncIO) == (TaskHandler, TaskHandlerAsyncIO)


def test_s004_932_counts_workers(run_block: Any) -> None:
    assert run_block("s004_932").worker_count == 20


def test_s004_959_measures_the_memory_of_the_children(run_block: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_block("s004_959").monitor_memory()
    assert capsys.readouterr().out.startswith("Total memory: ")


def test_s004_1398_measures_memory(run_block: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_block("s004_1398")
    assert capsys.readouterr().out.startswith("Memory: ")


def test_s004_1624_sets_the_poll_interval_of_every_worker(run_block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_POLLING_INTERVAL", "")  # so that it is put back afterwards
    assert run_block("s004_1624").worker_count == (os.cpu_count() or 0) * 2
    assert resolve_worker_config("any").poll_interval_millis == 500


# -- what blocks register ---------------------------------------------------------------------------------------------


async def test_s001_448_registers_definition_and_schemas(run_block: Any) -> None:
    run_block("s001_448")
    with ConductorStub(schemas=True) as server:
        report = await run_one(
            server,
            TaskHandlerAsyncIO(configuration=Configuration(server.url)),
            "process_order",
            order={"order_id": "o-1", "amount": "9.5", "customer_id": "7"},
        )
        assert report["outputData"] == {"status": "processed", "order_id": "o-1"}
        definition = server.task_defs["process_order"]
        assert definition["inputSchema"]["name"] == "process_order_input"
        assert definition["outputSchema"]["name"] == "process_order_output"
        taken = server.schemas["process_order_input", 1]["data"]
        assert taken["$schema"] == "http://json-schema.org/draft-07/schema#"
        assert taken["required"] == ["order"]
        assert taken["properties"]["priority"]["type"] == "integer"
        order = taken["properties"]["order"]
        assert order["required"] == ["order_id", "amount", "customer_id"]
        assert {key: field["type"] for key, field in order["properties"].items()} == {
            "order_id": "string",
            "amount": "number",
            "customer_id": "integer",
        }
        assert server.schemas["process_order_output", 1]["data"]["type"] == "object"


async def test_s001_587_keeps_what_the_server_has(run_block: Any, server: ConductorStub) -> None:
    from conductor.client.http.models import TaskDef
    from conductor.client.metadata_client import AsyncMetadataClient

    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        await metadata.register_task_def(TaskDef(name="stable_task", retry_count=9))
    run_block("s001_587")
    await run_one(server, TaskHandlerAsyncIO(), "stable_task", data={})
    assert server.task_defs["stable_task"]["retryCount"] == 9


async def test_s004_1697_uses_its_worker_id_and_domain(run_block: Any, server: ConductorStub) -> None:
    run_block("s004_1697")
    task_id = server.add_task("my_task", domain="my_domain")
    async with TaskHandlerAsyncIO():
        await server.until(lambda: server.results_for(task_id))
    poll = server.polls("my_task")[0]
    assert (poll.query["workerid"], poll.query["domain"]) == ("custom_id", "my_domain")
    assert server.results[0]["workerId"] == "custom_id"
