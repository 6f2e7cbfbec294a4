"""The examples run as their users run them: as scripts, against a server, until they end or are stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub
from tests.compat.user_program import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Examples that show how many features work together. All others show one feature.
WHOLE_APPLICATIONS = {"durable_agent_openai", "durable_agent_pydantic_ai", "order_pipeline"}

Run = Callable[..., Program]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    running: list[Program] = []

    def start(name: str, **env: str) -> Program:
        running.append(Program([EXAMPLES / f"{name}.py"], tmp_path, env))
        return running[-1]

    yield start
    for program in running:
        program.__exit__(None, None, None)


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path / "examples.db") as running:
        yield running


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_it_ends(example: Path) -> None:
    text = example.read_text()
    assert len(text.splitlines()) <= (120 if example.stem in WHOLE_APPLICATIONS else 40)
    assert re.search(r"Ends by itself\.|Stop it with Ctrl-C\.", text)


def test_workers_e2e(run: Run, coordinator: Coordinator) -> None:
    program = run("workers_e2e", CONDUCTOR_SERVER_URL=coordinator.url)
    assert program.ended() == 0
    assert program.calm
    for order in range(5):
        assert f"COMPLETED {{'mail': 'order {order} is on its way'}}" in program.output


def test_workflow_in_python(run: Run) -> None:
    program = run("workflow_in_python")
    assert program.ended() == 0
    assert "{'status': 'paid', 'label': 'Elm Street 1: a parcel'}" in program.output


def test_compare_multiprocessing_vs_asyncio(run: Run, coordinator: Coordinator) -> None:
    program = run("compare_multiprocessing_vs_asyncio", CONDUCTOR_SERVER_URL=coordinator.url)
    assert program.ended() == 0
    assert program.calm
    assert re.search(r"^multiprocessing +\d+ tasks/s +\d+ MB$", program.output, re.MULTILINE)
    assert re.search(r"^asyncio +\d+ tasks/s +\d+ MB$", program.output, re.MULTILINE)


def test_worker_configuration_example(run: Run) -> None:
    env = {"CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT": "50", "CONDUCTOR_WORKER_ALL_DOMAIN": "production"}
    program = run("worker_configuration_example", **env)
    assert program.ended() == 0
    assert program.calm
    for option, value, source in (
        ("poll_interval_millis", "1000", "code"),
        ("thread_count", "50", "env CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT"),
        ("domain", "production", "env CONDUCTOR_WORKER_ALL_DOMAIN"),
        ("strict_schema", "True", "code"),
    ):
        assert re.search(rf"^  {option} +{value} +{source}$", program.output, re.MULTILINE)


def test_asyncio_workers(run: Run, server: ConductorStub) -> None:
    program = run("asyncio_workers")
    price = server.add_task("fetch_price", {"symbol": "abc"})
    wrong = server.add_task("fetch_price", {"symbol": "4711"})
    document = server.add_task("sign_document", {"text": "yes"})
    server.wait_results(3, 30)
    assert server.results_for(price)[0]["outputData"] == {"symbol": "ABC", "price": 42.0}
    assert server.results_for(wrong)[0]["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert len(server.results_for(document)[0]["outputData"]["signature"]) == 64
    assert program.interrupt() == 0
    assert program.output.count("Traceback") == 1, "that of the task that failed for good"
    assert program.output.rstrip().endswith("stopped")


def test_lifespan_and_dependencies(run: Run, server: ConductorStub) -> None:
    program = run("lifespan_and_dependencies")
    first = server.add_task("take_order", {"number": 1, "item": "a parcel"})
    server.wait_results(1, 60)
    assert server.results_for(first)[0]["outputData"] == {"orders": 1}
    again = server.add_task("take_order", {"number": 1, "item": "the same"})
    server.wait_results(2, 60)
    assert "UNIQUE constraint failed" in server.results_for(again)[0]["reasonForIncompletion"]
    second = server.add_task("take_order", {"number": 2, "item": "a letter"})
    server.wait_results(3, 60)
    assert server.results_for(second)[0]["outputData"] == {"orders": 2}, "what failed was rolled back"
    program.interrupt()
    assert "could not be cleaned up" not in program.output


def test_async_worker_example(run: Run, server: ConductorStub) -> None:
    program = run("async_worker_example")
    task_id = server.add_task("crawl_site", {"site": "example.com"})
    for pages in (1, 2):
        server.wait_results(pages, 30)
        assert server.results[-1]["outputData"] == {"pages": pages}
        server.wait_for(server.requeue_postponed, 60)
    server.wait_results(3, 30)
    last = server.results_for(task_id)[-1]
    assert (last["status"], last["outputData"]) == ("COMPLETED", {"pages": 3, "done": True})
    assert [entry["log"] for entry in last["logs"]] == ["example.com: page 3 of 3"]
    assert server.task_defs["crawl_site"]["retryCount"] == 5
    assert program.interrupt() == 0
    assert program.calm
    assert "stopping" in program.output
