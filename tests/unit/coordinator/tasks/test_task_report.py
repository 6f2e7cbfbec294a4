"""A report may ask for the next task: verdict and lease are one transaction, and a lost answer strands no task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.tasks.task_report import Outcome, Report
from tests.unit.coordinator.core_harness import Harness, Task


@pytest.fixture
def harness() -> Any:
    with Harness() as harness:
        harness.workflow_def("one_work", {"name": "work", "taskReferenceName": "work", "type": "SIMPLE"})
        yield harness


def report_of(task: Task, status: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
    said = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "w1"}
    return {**said, "leaseId": task["leaseId"], "reportId": f"r-{task['leaseId']}", "status": status, **fields}


def exchange(harness: Harness, reports: list[dict[str, Any]], wanted: int) -> list[Outcome]:
    said = msgspec.convert(reports, list[Report])
    return harness.store.call(lambda tx: harness.core.tasks.judge(tx, said, wanted))


def next_of(outcome: Outcome) -> Task:
    assert outcome.next_task is not None
    return msgspec.json.decode(msgspec.json.encode(outcome.next_task), type=Task)


def test_the_answer_to_a_report_brings_the_next_task(harness: Harness) -> None:
    first, second = harness.start("one_work"), harness.start("one_work")
    (outcome,) = exchange(harness, [report_of(harness.poll_one())], 1)
    assert outcome.verdict == "COMMITTED"
    assert next_of(outcome)["workflowInstanceId"] == second
    assert next_of(outcome)["pollCount"] == 1
    assert harness.workflow(first)["status"] == "COMPLETED"
    assert harness.report(next_of(outcome)).verdict == "COMMITTED"


def test_the_next_step_of_the_same_workflow_comes_with_the_answer(harness: Harness) -> None:
    steps = [{"name": "work", "taskReferenceName": ref, "type": "SIMPLE"} for ref in ("a", "b")]
    harness.workflow_def("two", *steps)
    harness.start("two")
    (outcome,) = exchange(harness, [report_of(harness.poll_one())], 1)
    assert next_of(outcome)["referenceTaskName"] == "b"


def test_only_reports_that_ask_get_a_task(harness: Harness) -> None:
    for _ in range(4):
        harness.start("one_work")
    held = harness.poll(count=2)
    outcomes = exchange(harness, [report_of(task) for task in held], 1)
    assert [outcome.next_task is not None for outcome in outcomes] == [True, False]
    assert len(harness.poll(count=10)) == 1


def test_the_same_report_again_gets_the_same_task(harness: Harness) -> None:
    for _ in range(3):
        harness.start("one_work")
    said = [report_of(harness.poll_one())]
    (outcome,) = exchange(harness, said, 1)
    harness.advance(1)
    (again,) = exchange(harness, said, 1)
    assert again.verdict == "COMMITTED"
    granted, repeated = next_of(outcome), next_of(again)
    assert (repeated["taskId"], repeated["leaseId"]) == (granted["taskId"], granted["leaseId"])
    assert repeated["pollCount"] == 1
    assert repeated["leaseExpiresAt"] == granted["leaseExpiresAt"] + 1000, "the lease counts from the repeated request"
    assert len(harness.poll(count=10)) == 1, "no further task was granted"


def test_the_task_timeout_counts_from_the_answer_that_arrives(harness: Harness) -> None:
    harness.start_one("timed", task_def={"timeoutSeconds": 12, "responseTimeoutSeconds": 10, "retryCount": 0})
    harness.start("one_timed")
    said = [report_of(harness.poll_one("timed"))]
    exchange(harness, said, 1)
    harness.advance(9)
    (again,) = exchange(harness, said, 1)  # the first answer was lost
    harness.advance(9)
    assert harness.task(next_of(again)["taskId"])["status"] == "IN_PROGRESS"


def test_the_same_report_again_gets_the_same_task_after_a_restart(tmp_path: Path) -> None:
    with Harness(tmp_path / "a.db") as harness:
        harness.start_one()
        harness.start("one_work")
        said = [report_of(harness.poll_one())]
        (outcome,) = exchange(harness, said, 1)
        harness.restart()
        (again,) = exchange(harness, said, 1)
        assert next_of(again)["leaseId"] == next_of(outcome)["leaseId"]


def test_a_repeated_report_that_wants_no_task_returns_it(harness: Harness) -> None:
    harness.start("one_work")
    harness.start("one_work")
    said = [report_of(harness.poll_one())]
    (outcome,) = exchange(harness, said, 1)
    (again,) = exchange(harness, said, 0)
    assert again.next_task is None
    taken = harness.poll_one(worker="w2")
    assert taken["taskId"] == next_of(outcome)["taskId"]
    assert taken["pollCount"] == 1, "the delivery that nobody received does not count"
    assert exchange(harness, said, 1)[0].next_task is None, "the task has another holder"


def test_a_task_that_was_reported_meanwhile_is_not_delivered_again(harness: Harness) -> None:
    harness.start("one_work")
    harness.start("one_work")
    said = [report_of(harness.poll_one())]
    (outcome,) = exchange(harness, said, 1)
    harness.report(next_of(outcome))
    assert exchange(harness, said, 1)[0].next_task is None


def test_a_rejected_or_cancelled_report_brings_no_task(harness: Harness) -> None:
    harness.start("one_work")
    harness.start("one_work")
    held = harness.poll_one()
    harness.advance(4000)
    late, unknown = exchange(harness, [report_of(held), {**report_of(held), "leaseId": "7-nonsense"}], 2)
    assert (late.verdict, unknown.verdict) == ("CANCELLED", "REJECTED")
    assert late.next_task is None
    assert unknown.next_task is None


def test_a_task_that_was_never_started_keeps_its_poll_count_c05(harness: Harness) -> None:
    harness.start("one_work")
    held = harness.poll_one()
    harness.send(report_of(held, "IN_PROGRESS", neverStarted=True))
    assert harness.task(held["taskId"])["pollCount"] == 0
    again = harness.poll_one()
    assert again["pollCount"] == 1
    assert again["leaseId"] != held["leaseId"]


@given(st.data())
def test_lost_answers_strand_no_task_and_repeat_none(data: st.DataObject) -> None:
    with Harness() as harness:
        harness.workflow_def("one_work", {"name": "work", "taskReferenceName": "work", "type": "SIMPLE"})
        started = [harness.start("one_work") for _ in range(8)]
        held = harness.poll(count=data.draw(st.integers(1, 3)))
        slots = len(held)
        while held:
            reports = [report_of(task) for task in held]
            wanted = data.draw(st.integers(0, len(reports)))
            outcomes = exchange(harness, reports, wanted)
            for _ in range(data.draw(st.integers(0, 2))):  # answers that were lost
                wanted = data.draw(st.integers(0, len(reports)))
                outcomes = exchange(harness, reports, wanted)
            assert all(outcome.verdict == "COMMITTED" for outcome in outcomes)
            held = [next_of(outcome) for outcome in outcomes if outcome.next_task is not None]
            assert len(held) <= slots
            if not held:
                held = harness.poll(count=slots)
            assert all(task["pollCount"] == 1 for task in held)
        assert {harness.workflow(workflow)["status"] for workflow in started} == {"COMPLETED"}
