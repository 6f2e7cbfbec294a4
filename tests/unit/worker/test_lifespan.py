"""Lifespans: set up before the first poll and torn down after the last task, in every handler."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conductor import Configuration, StartError, TaskHandler, TaskHandlerAsyncIO, worker_lifespan
from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.automator.task_runner import TaskRunner
from conductor.client.worker import registry
from conductor.client.worker.dependencies import override_dependency
from conductor.testing import ConductorStub
from tests.unit.automator.worker_fixture import wait_until

PATIENCE_S = 60.0
AROUND = ["pool up", "model up", "ask", "model down", "pool down"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIFESPAN_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


@pytest.fixture
def module(log: Path) -> Iterator[ModuleType]:
    """The module, loaded anew: its decorators write into the registry of this test."""
    from tests.unit.worker import lifespan_workers as found

    yield importlib.reload(found)


def lines(log: Path) -> list[tuple[int, str]]:
    text = log.read_text() if log.exists() else ""
    return [(int(pid), what) for pid, _, what in (line.partition(" ") for line in text.splitlines())]


def said(log: Path) -> list[str]:
    return [what for _, what in lines(log)]


def answer_of(stub: ConductorStub, name: str, **inputs: Any) -> dict[str, Any]:
    task_id = stub.add_task(name, inputs)
    stub.wait_for(lambda: stub.results_for(task_id), timeout=PATIENCE_S)
    output: dict[str, Any] = stub.results_for(task_id)[0]["outputData"]
    return output


class TestInOneProcess:
    async def test_a_handler_on_the_loop_sets_up_once_and_tears_down_in_reverse(
        self, conductor_stub: ConductorStub, log: Path, module: ModuleType
    ) -> None:
        task_id = conductor_stub.add_task("ask", {"question": "how"})
        async with TaskHandlerAsyncIO([module.ask, module.tell], Configuration(conductor_stub.url)):
            assert said(log)[:2] == AROUND[:2]
            await conductor_stub.until_results(1, timeout=PATIENCE_S)
        assert said(log) == AROUND
        assert conductor_stub.results_for(task_id)[0]["outputData"]["answer"] == "how with the pool"

    async def test_nothing_is_polled_for_when_the_set_up_fails(
        self, conductor_stub: ConductorStub, module: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LIFESPAN_FAILS", "1")
        handler = TaskHandlerAsyncIO([module.ask], Configuration(conductor_stub.url))
        with pytest.raises(
            StartError, match="pool of module tests.unit.worker.lifespan_workers could not be set up: OSError"
        ):
            await handler.start()
        assert conductor_stub.polls() == []

    async def test_an_override_takes_its_place(
        self, conductor_stub: ConductorStub, log: Path, module: ModuleType
    ) -> None:
        task_id = conductor_stub.add_task("tell")
        with override_dependency(module.pool, lambda: "a fake"):
            async with TaskHandlerAsyncIO([module.tell], Configuration(conductor_stub.url)):
                await conductor_stub.until_results(1, timeout=PATIENCE_S)
        assert conductor_stub.results_for(task_id)[0]["outputData"]["answer"] == "a fake"
        assert "pool up" not in said(log)

    def test_a_runner_does_it_around_its_run(
        self, conductor_stub: ConductorStub, log: Path, module: ModuleType
    ) -> None:
        conductor_stub.add_task("ask", {"question": "how"})
        (worker, _) = registry.list_workers()
        assert TaskRunner(worker, Configuration(conductor_stub.url)).run_once() == 1
        assert said(log) == AROUND

    async def test_a_runner_on_the_loop_does_it_too(
        self, conductor_stub: ConductorStub, log: Path, module: ModuleType
    ) -> None:
        conductor_stub.add_task("ask", {"question": "how"})
        (worker, _) = registry.list_workers()
        assert await AsyncTaskRunner(worker, Configuration(conductor_stub.url)).run_once() == 1
        assert said(log) == AROUND


class TestInProcesses:
    def test_each_process_has_its_own(self, conductor_stub: ConductorStub, log: Path, module: ModuleType) -> None:
        workers = [module.ask, module.tell]
        with TaskHandler(workers, Configuration(conductor_stub.url), start_method="forkserver") as handler:
            handler.start_processes()
            asked = answer_of(conductor_stub, "ask", question="how")
            told = answer_of(conductor_stub, "tell")
        assert (asked["answer"], told["answer"]) == ("how with the pool", "the pool")
        assert [what for pid, what in lines(log) if pid == asked["pid"]] == AROUND
        assert [what for pid, what in lines(log) if pid == told["pid"]] == [*AROUND[:2], "tell", *AROUND[3:]]

    def test_an_error_at_the_set_up_ends_the_program_with_its_reason(
        self, conductor_stub: ConductorStub, module: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LIFESPAN_FAILS", "1")
        with TaskHandler([module.ask], Configuration(conductor_stub.url), start_method="forkserver") as handler:
            handler.start_processes()
            with pytest.raises(StartError, match=r"pool .* OSError: no database at db\.example\.com"):
                handler.join_processes()
        assert conductor_stub.polls() == []

    def test_a_successor_that_cannot_be_set_up_leaves_the_old_process_at_work(
        self, conductor_stub: ConductorStub, log: Path, module: ModuleType, caplog: pytest.LogCaptureFixture
    ) -> None:
        options: dict[str, Any] = {"start_method": "forkserver", "max_tasks_per_process": 2}
        with TaskHandler([module.tell], Configuration(conductor_stub.url), **options) as handler:
            handler.start_processes()
            first = answer_of(conductor_stub, "tell")
            log.with_name("log.fails").touch()
            second = answer_of(conductor_stub, "tell")  # enough for a successor
            wait_until(lambda: "has not begun to work (pool of module" in caplog.text)
            third = answer_of(conductor_stub, "tell")
            assert first["pid"] == second["pid"] == third["pid"]
            assert handler.is_healthy()

    def test_a_lifespan_that_cannot_be_pickled_is_a_start_error(self, conductor_stub: ConductorStub) -> None:
        @worker_lifespan
        def local() -> Iterator[None]:
            yield

        from tests.unit.worker import lifespan_workers as found

        with (
            TaskHandler(
                [importlib.reload(found).ask], Configuration(conductor_stub.url), start_method="spawn"
            ) as handler,
            pytest.raises(TypeError, match=r"lifespan .*local cannot be sent to the worker processes"),
        ):
            handler.start_processes()


class TestDecorating:
    def test_a_lifespan_without_yield_is_refused(self) -> None:
        with pytest.raises(TypeError, match="with one `yield`"):

            @worker_lifespan
            def pool() -> None: ...

    def test_the_function_stays_what_it_is(self) -> None:
        def pool() -> Iterator[int]:
            yield 1

        assert worker_lifespan(pool) is pool
        assert registry.list_lifespans() == [pool]
