"""Progress of a running task is visible within a second, is sent once, and never costs the lease."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conductor.client.automator.progress import MAX_BYTES
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskContext, get_task_context, task_context
from conductor.client.event.task_runner_events import TaskLeaseLost, TaskUpdateCompleted
from conductor.client.http.models.task import Task
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub, FakeClock, Reset, Status
from tests.unit.automator.test_lease import LEASE_S, PATIENCE_S, Seen, until


class Talker:
    """A task, `def` or `async def`, that does what the test says, and ends when the test says so."""

    def __init__(self, kind: str) -> None:
        self.context: TaskContext | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        self.function: Callable[[], Any] = self.work if kind == "def" else self.work_async

    def work(self) -> dict[str, Any]:
        self.context = get_task_context()
        self._begun.set()
        assert self._over.wait(PATIENCE_S)
        return {"answer": 42}

    async def work_async(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.work)

    async def begun(self) -> TaskContext:
        await until(self._begun.is_set)
        assert self.context is not None
        return self.context

    def end(self) -> None:
        self._over.set()


class Stage:
    """A stub, a handler and one running task, on a clock that the test turns."""

    def __init__(self, server: ConductorStub, clock: FakeClock, seen: Seen, talker: Talker, task_id: str) -> None:
        self.server = server
        self.clock = clock
        self.seen = seen
        self.talker = talker
        self.task_id = task_id

    @property
    def lines(self) -> list[str]:
        return self.server.logs(self.task_id)

    @property
    def output(self) -> dict[str, Any]:
        return self.server.task(self.task_id).output_data

    async def second(self, condition: Callable[[], object]) -> None:
        """A second passes, and with it what it brings."""
        self.clock.advance(1)
        await until(condition)

    async def finish(self) -> dict[str, Any]:
        self.talker.end()
        await until(lambda: self.seen.of(TaskUpdateCompleted))
        (result,) = self.server.results_for(self.task_id)
        return result


@asynccontextmanager
async def on_stage(*, leases: bool = True, kind: str = "def", **options: Any) -> AsyncIterator[Stage]:
    clock, seen, talker = FakeClock(), Seen(), Talker(kind)
    with ConductorStub(leases=leases, clock=clock) as server:
        task_id = server.add_task("job", response_timeout_seconds=LEASE_S)
        handler = TaskHandlerAsyncIO(
            workers=[Worker("job", talker.function, **options)],
            configuration=Configuration(server.url),
            event_listeners=[seen],
            clock=clock,
            shutdown_grace_seconds=0,
        )
        async with handler:
            try:
                yield Stage(server, clock, seen, talker, task_id)
            finally:
                talker.end()
                server.stop()  # no poll is waited for, on a clock that stands still


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_lines_output_and_progress_are_seen_while_the_task_runs(kind: str) -> None:
    async with on_stage(kind=kind) as stage:
        context = await stage.talker.begun()
        context.add_log("one")
        context.set_output({"rows": 1})
        await stage.second(lambda: stage.lines == ["one"])
        assert stage.output == {"rows": 1}
        context.add_log("two")
        context.progress(3, total=10, note="loading")
        await stage.second(lambda: stage.lines == ["one", "two"])
        assert stage.output == {"rows": 1, "progress": {"done": 3, "total": 10, "note": "loading"}}
        assert len(stage.server.heartbeats) == 2
        context.add_log("three")
        result = await stage.finish()
        assert [line["log"] for line in result["logs"]] == ["three"]
        assert result["outputData"] == {"rows": 1, "answer": 42}
        assert stage.lines == ["one", "two", "three"]
    assert not stage.seen.of(TaskLeaseLost)


async def test_on_a_conductor_server_lines_go_by_its_log_route_and_output_with_the_report() -> None:
    async with on_stage(leases=False) as stage:
        context = await stage.talker.begun()
        for line in ("one", "two"):
            context.add_log(line)
        context.set_output({"rows": 1})
        context.progress(1)
        await stage.second(lambda: stage.lines == ["one", "two"])
        assert [request.body for request in stage.server.requests_of("log")] == [b"one", b"two"]
        assert not stage.server.heartbeats
        assert stage.output == {}
        context.add_log("three")
        result = await stage.finish()
        assert [line["log"] for line in result["logs"]] == ["three"]
        assert result["outputData"] == {"rows": 1, "answer": 42}


async def test_lines_that_a_conductor_server_did_not_take_come_later_and_are_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with on_stage(leases=False) as stage:
        stage.server.script("log", Status(503))
        context = await stage.talker.begun()
        context.add_log("one")
        await stage.second(lambda: "Log lines could not be sent" in caplog.text)
        await stage.clock.until_sleeping(1)
        stage.clock.advance(10)
        await until(lambda: stage.lines == ["one"])
        assert "logs" not in await stage.finish()


async def test_news_of_a_task_that_blocks_the_event_loop_travels() -> None:
    clock, seen = FakeClock(), Seen()
    with ConductorStub(leases=True, clock=clock) as server:

        async def job() -> str:
            get_task_context().add_log("I block")
            clock.advance(1)
            server.wait_for(lambda: server.logs(task_id) == ["I block"], PATIENCE_S)
            return "done"

        task_id = server.add_task("job", response_timeout_seconds=LEASE_S)
        handler = TaskHandlerAsyncIO(
            workers=[Worker("job", job)],
            configuration=Configuration(server.url),
            event_listeners=[seen],
            clock=clock,
            shutdown_grace_seconds=0,
        )
        async with handler:
            await until(lambda: seen.of(TaskUpdateCompleted))
            assert server.results_for(task_id)[0]["outputData"] == {"result": "done"}
            server.stop()


async def test_a_short_task_says_everything_with_its_report() -> None:
    async with on_stage() as stage:
        context = await stage.talker.begun()
        context.add_log("one")
        context.progress(1)
        result = await stage.finish()
        assert [line["log"] for line in result["logs"]] == ["one"]
        assert not stage.server.heartbeats
    assert result["outputData"] == {"answer": 42}


@pytest.mark.parametrize("applied", [True, False], ids=["the answer", "the heartbeat"])
async def test_a_line_comes_once_although_something_of_its_heartbeat_was_lost(applied: bool) -> None:
    async with on_stage() as stage:
        stage.server.script("heartbeat", Reset(applied=applied))
        context = await stage.talker.begun()
        context.add_log("one")
        await stage.second(lambda: stage.server.heartbeats)
        context.add_log("two")
        while stage.lines[-1:] != ["two"]:
            stage.clock.advance(0.5)
            await asyncio.sleep(0.02)
        assert "logs" not in await stage.finish()
        assert stage.lines == ["one", "two"]
    assert not stage.seen.of(TaskLeaseLost)


@pytest.mark.parametrize("status", [400, 413])
async def test_news_that_the_server_refuses_costs_no_lease(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with on_stage() as stage:
        stage.server.script("heartbeat", Status(status))
        context = await stage.talker.begun()
        context.add_log("one")
        await stage.second(lambda: len(stage.server.heartbeats) == 2)
        assert "logs" not in stage.server.heartbeats[1]
        result = await stage.finish()
        assert [line["log"] for line in result["logs"]] == ["one"]
    assert not stage.seen.of(TaskLeaseLost)
    assert caplog.text.count("cannot be sent while it runs") == 1


@pytest.mark.parametrize("output", [{"blob": "x" * MAX_BYTES}, {"socket": threading.Lock()}], ids=["large", "no JSON"])
async def test_output_that_cannot_be_sent_breaks_no_heartbeat(
    output: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with on_stage() as stage:
        context = await stage.talker.begun()
        context.set_output(output)
        context.progress(1)
        context.add_log("one")
        await stage.second(lambda: stage.lines == ["one"])
        context.progress(2)
        context.add_log("two")
        await stage.second(lambda: stage.lines == ["one", "two"])
        assert stage.output == {"progress": {"done": 2, "total": None, "note": None}}
        await stage.finish()
    assert not stage.seen.of(TaskLeaseLost)
    assert caplog.text.count("cannot be sent with a heartbeat") == 1


async def test_malformed_logs_break_no_heartbeat() -> None:
    async with on_stage() as stage:
        context = await stage.talker.begun()
        context.logs.append("a bare text")  # type: ignore[arg-type]
        context.progress(1)
        await stage.second(lambda: stage.server.heartbeats)
    assert not stage.seen.of(TaskLeaseLost)


async def test_records_of_a_task_travel_as_its_lines_do() -> None:
    async with on_stage(task_log_level="INFO") as stage:
        context = await stage.talker.begun()
        with task_context(context):
            logging.getLogger("shop").warning("low on stock")
        await stage.second(lambda: stage.lines == ["WARNING shop: low on stock"])


async def test_a_report_waits_for_news_that_is_under_way() -> None:
    async with on_stage() as stage:
        stage.server.hold("heartbeat")
        context = await stage.talker.begun()
        context.add_log("one")
        await stage.second(lambda: stage.server.held("heartbeat") == 1)
        stage.talker.end()
        stage.server.release("heartbeat")
        await until(lambda: stage.seen.of(TaskUpdateCompleted))
        assert stage.lines == ["one"]


def test_progress_in_a_tight_loop_asks_for_one_heartbeat() -> None:
    asked = []
    context = TaskContext(Task(task_id="t"))
    context.on_news = lambda: asked.append(1)
    for done in range(1000):
        context.progress(done, 1000)
    assert len(asked) == 1
    assert context.make_progress_output() == {"progress": {"done": 999, "total": 1000, "note": None}}
