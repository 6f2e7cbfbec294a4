"""Every log line that the documents print, word for word and at its level, as real runs write it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from conductor.client.automator import task_handler_asyncio
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.automator.worker_group import WorkerGroup
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import PollFailure, PollStarted, TaskRunnerEventsListener
from conductor.client.http.models import TaskDef
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub, Status


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """(level, text) of every record so far."""
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def without_labels(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the line without the ids of the task at its end."""
    return [(level, re.sub(r" \(task_type=.*\)$", "", text)) for level, text in lines(caplog)]


async def run_one(server: ConductorStub, task_type: str, **options: Any) -> str:
    """Let the defined workers do one task on this server; its id."""
    task_id = server.add_task(task_type, {"n": 1})
    async with TaskHandlerAsyncIO(configuration=Configuration(server.url), **options):
        await server.until(lambda: server.results_for(task_id))
    return task_id


# -- start ------------------------------------------------------------------------------------------------------------


async def test_the_start_line_is_as_documented_c07(
    server: ConductorStub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lease_extend=false` is the default, as the documents print it."""

    @worker_task(task_definition_name="process_order", poll_interval_millis=1000, thread_count=5, domain="dev")
    async def process_order() -> None: ...

    @worker_task(task_definition_name="greet_sync", thread_count=10)
    def greet_sync() -> None: ...

    @worker_task(task_definition_name="greet_paused", lease_extend_enabled=True)
    def greet_paused() -> None: ...

    monkeypatch.setenv("conductor.worker.process_order.domain", "production")
    monkeypatch.setenv("conductor.worker.process_order.thread_count", "50")
    monkeypatch.setenv("conductor.worker.greet_paused.paused", "true")
    await run_one(server, "greet_sync")
    started = sorted(line for line in lines(caplog) if line[1].startswith("Conductor Worker["))
    pid = os.getpid()
    about = [
        f"name=greet_paused, pid={pid}, status=paused, poll_interval=100ms, thread_count=1",
        f"name=greet_sync, pid={pid}, status=active, poll_interval=100ms, thread_count=10",
        f"name=process_order, pid={pid}, status=active, poll_interval=1000ms, domain=production, thread_count=50",
    ]
    extended = ["true", "false", "false"]
    assert started == [
        ("INFO", f"Conductor Worker[{text}, poll_timeout=100ms, lease_extend={extend}]")
        for text, extend in zip(about, extended, strict=True)
    ]


def test_the_runner_that_was_created(start: Any, server: ConductorStub, web: str) -> None:
    """Logged by the program; the start line by each worker process, with its own pid and its own logging set up."""
    program = start(
        "s003_258",
        before="logging.basicConfig(level='INFO', format='%(levelname)s - %(message)s')",
        after="handler.start_processes(); handler.join_processes()",
    )
    io_task = server.add_task("io_task", {"url": web})
    cpu_task = server.add_task("cpu_task", {"data": ""})
    server.wait_for(lambda: server.results_for(io_task) and server.results_for(cpu_task), 60)
    assert program.terminate() == 0
    printed = program.output
    assert "INFO - Created AsyncTaskRunner for async worker: io_task\n" in printed
    assert "INFO - Created TaskRunner for sync worker: cpu_task\n" in printed
    pids = dict(re.findall(r"INFO - Conductor Worker\[name=(\w+), pid=(\d+), status=active,", printed))
    assert pids.keys() == {"io_task", "cpu_task"}
    assert len({program.pid, *map(int, pids.values())}) == 3


# -- registration -----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_schemas() -> Iterator[ConductorStub]:
    with ConductorStub(schemas=True) as server:
        yield server


def define(**options: Any) -> None:
    @worker_task(task_definition_name="registered", register_task_def=True, **options)
    async def registered(n: int) -> dict[str, int]:
        return {"n": n}


async def test_registering_a_new_definition(with_schemas: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define()
    await run_one(with_schemas, "registered")
    ui = with_schemas.url.removesuffix("/api")
    assert [(r.levelname, r.getMessage()) for r in caplog.records if r.module == "registration"] == [
        ("INFO", "Registering task definition: registered"),
        ("INFO", "Registered input schema: registered_input"),
        ("INFO", "Registered output schema: registered_output"),
        ("INFO", "Registered task definition: registered"),
        ("INFO", f"View at: {ui}/taskDef/registered"),
    ]


async def test_registering_over_an_old_definition(
    with_schemas: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    define()
    await known(with_schemas)
    await run_one(with_schemas, "registered")
    assert ("INFO", "Registered/Updated task definition: registered") in lines(caplog)


async def test_registering_without_overwriting_is_logged_as_documented(
    with_schemas: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    define(overwrite_task_def=False)
    await known(with_schemas)
    await run_one(with_schemas, "registered")
    assert ("INFO", "Task definition exists - skipping (overwrite=false)") in lines(caplog)


async def known(server: ConductorStub) -> None:
    """Let the server know a definition beforehand."""
    from conductor.client.metadata_client import AsyncMetadataClient

    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        await metadata.register_task_def(TaskDef(name="registered"))


async def test_a_server_without_schemas(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define()
    await run_one(server, "registered")
    assert ("WARNING", "Schema registry not available on server (404)") in lines(caplog)
    assert ("INFO", "Registered task definition: registered") in lines(caplog)


async def test_a_registration_that_fails(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define()
    server.script("taskdefs", Status(500), repeat=True)
    await run_one(server, "registered")
    ((level, text),) = [line for line in lines(caplog) if line[1].startswith("Failed to register task definition: ")]
    assert level == "WARNING"
    assert "500" in text


# -- execution and report ---------------------------------------------------------------------------------------------


async def test_a_terminal_error_is_logged_as_documented(
    server: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    @worker_task(task_definition_name="hopeless")
    async def hopeless() -> None:
        raise NonRetryableException("no such order")

    task_id = await run_one(server, "hopeless")
    ((level, text),) = [line for line in lines(caplog) if line[1].startswith("Task failed with terminal error")]
    assert level == "ERROR"
    assert text.startswith("Task failed with terminal error (no retry): no such order (task_type=hopeless, ")
    assert f"task_id={task_id}" in text


async def test_a_report_that_arrives(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define_plain()
    task_id = await run_one(server, "plain")
    assert ("DEBUG", f"Updated task {task_id} successfully") in without_labels(caplog)


async def test_a_report_that_does_not_arrive(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define_plain()
    server.script("update", Status(500), repeat=True)
    task_id = server.add_task("plain")
    async with TaskHandlerAsyncIO(update_retry_delay_seconds=0.0, journal_enabled=False):
        await server.until(lambda: len(server.requests_of("update")) == 4)
    failed = [line for line in lines(caplog) if "ailed to update task" in line[1]]
    assert [level for level, _ in failed] == ["ERROR"] * 4
    for attempt, (_, text) in enumerate(failed, 1):
        assert text.startswith(f"Failed to update task (attempt {attempt}/4): ")
        assert "500" in text
    lost = ("CRITICAL", f"Task update failed after 4 attempts. Task result LOST for task_id={task_id}")
    assert lost in without_labels(caplog)


async def test_a_result_that_waits_in_the_journal_is_not_called_lost(
    server: ConductorStub, caplog: pytest.LogCaptureFixture
) -> None:
    define_plain()
    server.script("update", Status(500), repeat=True)
    server.add_task("plain")
    async with TaskHandlerAsyncIO(update_retry_delay_seconds=0.0):
        await server.until(lambda: len(server.requests_of("update")) >= 4)
    assert "LOST" not in caplog.text
    assert any(level == "ERROR" and " waits in " in text for level, text in lines(caplog))


def define_plain() -> None:
    @worker_task(task_definition_name="plain")
    async def plain() -> None: ...


# -- polls, listeners, ends -------------------------------------------------------------------------------------------


async def test_a_refused_poll_is_logged_as_documented(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    define_plain()
    server.script("poll", Status(401), repeat=True)
    refused = asyncio.Event()

    class Watcher(TaskRunnerEventsListener):
        def on_poll_failure(self, event: PollFailure) -> None:
            refused.set()

    async with TaskHandlerAsyncIO(event_listeners=[Watcher()]), asyncio.timeout(60):
        await refused.wait()
    assert ("ERROR", "Authentication failed (failure count: 1)") in lines(caplog)


async def test_a_listener_that_fails(server: ConductorStub, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TaskRunnerEventsListener):
        def on_poll_started(self, event: PollStarted) -> None:
            raise RuntimeError("no ears")

    define_plain()
    await run_one(server, "plain", event_listeners=[Broken()])
    assert ("ERROR", "Event listener failed: no ears") in lines(caplog)


async def test_a_stop_that_takes_too_long(
    server: ConductorStub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = asyncio.Event()

    @worker_task(task_definition_name="endless")
    async def endless() -> None:
        working.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(task_handler_asyncio, "STOP_LIMIT_S", 0.01)
    server.add_task("endless")
    async with TaskHandlerAsyncIO(), asyncio.timeout(60):
        await working.wait()
    assert ("WARNING", "Shutdown timeout") in lines(caplog)


async def test_a_round_that_fails(
    server: ConductorStub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong around a poll comes out as a line, not as an exception."""

    @worker_task(task_definition_name="plain")
    async def plain() -> None: ...

    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(WorkerGroup, "run_once", fail)
    assert await TaskRunnerAsyncIO(worker=plain).run_once() == 0
    ((level, text),) = [line for line in lines(caplog) if line[1].startswith("Error in run_once: ")]
    assert (level, text) == ("ERROR", "Error in run_once: out of order")
