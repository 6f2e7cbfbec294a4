"""P26: the same function gives the same result, however it is written and wherever it runs.

Every case is run as `def` and `async def`, bare and class-based, in processes of their own and on one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.testing import ConductorStub
from tests.unit.automator.worker_forms import BARE, CASES, FORMS, MISFIT, Case, EventFile, workers

HANDLERS = ("processes", "one loop")

# The handlers run once for all cases: a parallel run keeps these tests in one process.
pytestmark = pytest.mark.xdist_group("same everywhere")


class Outcome:
    """The results of one handler, by form and case."""

    def __init__(self, stub: ConductorStub, ids: dict[tuple[str, str], str], events: list[dict[str, Any]]) -> None:
        self._stub = stub
        self._ids = ids
        self._events = events

    def report(self, form: str, case: str) -> dict[str, Any]:
        """The one report on the task."""
        (report,) = self._stub.results_for(self._ids[form, case])
        return report

    def events(self, form: str, case: str) -> list[dict[str, Any]]:
        """The events about the task."""
        return [event for event in self._events if event["task_id"] == self._ids[form, case]]


def run_all(handler_kind: str, stub: ConductorStub, directory: Path) -> Outcome:
    listener = EventFile(directory / "events")
    ids = {(form, case): stub.add_task(form, {"case": case}) for form in FORMS for case in CASES}
    ids |= {(form, "misfit"): stub.add_task(form, MISFIT) for form in BARE}
    options: dict[str, Any] = {"event_listeners": [listener], "journal_enabled": False}
    configuration = Configuration(stub.url)
    if handler_kind == "processes":
        with TaskHandler(workers(), configuration, start_method="forkserver", **options) as handler:
            handler.start_processes()
            stub.wait_results(len(ids), timeout=120)
    else:
        asyncio.run(on_one_loop(stub, configuration, len(ids), options))
    return Outcome(stub, ids, listener.read())


async def on_one_loop(stub: ConductorStub, configuration: Configuration, count: int, options: dict[str, Any]) -> None:
    async with TaskHandlerAsyncIO(workers(), configuration, **options):
        await stub.until_results(count, timeout=120)


@pytest.fixture(scope="module", params=HANDLERS)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with ConductorStub() as stub:
        yield run_all(request.param, stub, tmp_path_factory.mktemp("everywhere"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_function_has_the_same_result_in_every_form(outcome: Outcome, name: str, form: str) -> None:
    check_report(CASES[name], outcome.report(form, name))
    check_events(CASES[name], outcome.events(form, name), form)


@pytest.mark.parametrize("form", BARE)
def test_input_that_does_not_fit_fails_the_task_for_good(outcome: Outcome, form: str) -> None:
    report = outcome.report(form, "misfit")
    assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert report["reasonForIncompletion"].startswith("number: ")
    assert "no number" in report["reasonForIncompletion"]
    assert outcome.events(form, "misfit")[1]["cause"] == "InputError"


def check_report(case: Case, report: dict[str, Any]) -> None:
    assert report["status"] == case.status
    assert report["outputData"] == case.output
    assert report.get("reasonForIncompletion") == case.reason
    assert report.get("callbackAfterSeconds", 0) == case.callback_s
    logs = [entry["log"] for entry in report.get("logs", [])]
    if case.cause is not None:
        trace, *logs = logs
        assert case.cause in trace, "the traceback comes first"
    assert tuple(logs) == case.logs


def check_events(case: Case, events: list[dict[str, Any]], form: str) -> None:
    """P02: what failed is never published as completed, and the other way round."""
    ending = "TaskExecutionCompleted" if case.completed else "TaskExecutionFailure"
    assert [event["event"] for event in events] == ["TaskExecutionStarted", ending, "TaskUpdateCompleted"]
    assert events[1]["cause"] == case.cause
    assert events[2]["verdict"] == "COMMITTED"
    assert {event["task_type"] for event in events} == {form}


def test_times_of_logs_are_in_milliseconds(outcome: Outcome) -> None:
    """P14: of tracebacks too."""
    now_ms = time.time_ns() // 1_000_000
    for form in FORMS:
        for name in ("logs of a failure", "logs", "TaskResult"):
            for entry in outcome.report(form, name)["logs"]:
                assert 0 <= now_ms - entry["createdTime"] < 600_000


def test_tracebacks_show_the_users_code_and_not_ours(outcome: Outcome) -> None:
    for form in FORMS:
        trace = outcome.report(form, "chained")["logs"][0]["log"]
        assert "raise RuntimeError" in trace
        assert "KeyError: 'inner'" in trace, "with what it came from"
        assert "client/automator" not in trace
