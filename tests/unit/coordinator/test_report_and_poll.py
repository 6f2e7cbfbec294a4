"""A report may ask for the next task: verdict and lease are one transaction, and a lost answer strands no task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from house import House, Task
from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.tasks.task_report import Outcome, Report


@pytest.fixture
def house() -> Any:
    with House() as house:
        house.workflow_def("one_work", {"name": "work", "taskReferenceName": "work", "type": "SIMPLE"})
        yield house


def report_of(task: Task, status: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
    said = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "w1"}
    return {**said, "leaseId": task["leaseId"], "reportId": f"r-{task['leaseId']}", "status": status, **fields}


def exchange(house: House, reports: list[dict[str, Any]], wanted: int) -> list[Outcome]:
    said = msgspec.convert(reports, list[Report])
    return house.store.call(lambda tx: house.core.judge(tx, said, wanted))


def next_of(outcome: Outcome) -> Task:
    assert outcome.next_task is not None
    return msgspec.json.decode(msgspec.json.encode(outcome.next_task), type=Task)


def test_the_answer_to_a_report_brings_the_next_task(house: House) -> None:
    first, second = house.start("one_work"), house.start("one_work")
    (outcome,) = exchange(house, [report_of(house.poll_one())], 1)
    assert outcome.verdict == "COMMITTED"
    assert next_of(outcome)["workflowInstanceId"] == second
    assert next_of(outcome)["pollCount"] == 1
    assert house.workflow(first)["status"] == "COMPLETED"
    assert house.report(next_of(outcome)).verdict == "COMMITTED"


def test_the_next_step_of_the_same_workflow_comes_with_the_answer(house: House) -> None:
    steps = [{"name": "work", "taskReferenceName": ref, "type": "SIMPLE"} for ref in ("a", "b")]
    house.workflow_def("two", *steps)
    house.start("two")
    (outcome,) = exchange(house, [report_of(house.poll_one())], 1)
    assert next_of(outcome)["referenceTaskName"] == "b"


def test_only_reports_that_ask_get_a_task(house: House) -> None:
    for _ in range(4):
        house.start("one_work")
    held = house.poll(count=2)
    outcomes = exchange(house, [report_of(task) for task in held], 1)
    assert [outcome.next_task is not None for outcome in outcomes] == [True, False]
    assert len(house.poll(count=10)) == 1


def test_the_same_report_again_gets_the_same_task(house: House) -> None:
    for _ in range(3):
        house.start("one_work")
    said = [report_of(house.poll_one())]
    (outcome,) = exchange(house, said, 1)
    house.advance(1)
    (again,) = exchange(house, said, 1)
    assert again.verdict == "COMMITTED"
    granted, repeated = next_of(outcome), next_of(again)
    assert (repeated["taskId"], repeated["leaseId"]) == (granted["taskId"], granted["leaseId"])
    assert repeated["pollCount"] == 1
    assert repeated["leaseExpiresAt"] == granted["leaseExpiresAt"] + 1000, "the lease counts from the repeated request"
    assert len(house.poll(count=10)) == 1, "no further task was granted"


def test_the_task_timeout_counts_from_the_answer_that_arrives(house: House) -> None:
    house.start_one("timed", task_def={"timeoutSeconds": 12, "responseTimeoutSeconds": 10, "retryCount": 0})
    house.start("one_timed")
    said = [report_of(house.poll_one("timed"))]
    exchange(house, said, 1)
    house.advance(9)
    (again,) = exchange(house, said, 1)  # the first answer was lost
    house.advance(9)
    assert house.task(next_of(again)["taskId"])["status"] == "IN_PROGRESS"


def test_the_same_report_again_gets_the_same_task_after_a_restart(tmp_path: Path) -> None:
    with House(tmp_path / "a.db") as house:
        house.start_one()
        house.start("one_work")
        said = [report_of(house.poll_one())]
        (outcome,) = exchange(house, said, 1)
        house.restart()
        (again,) = exchange(house, said, 1)
        assert next_of(again)["leaseId"] == next_of(outcome)["leaseId"]


def test_a_repeated_report_that_wants_no_task_returns_it(house: House) -> None:
    house.start("one_work")
    house.start("one_work")
    said = [report_of(house.poll_one())]
    (outcome,) = exchange(house, said, 1)
    (again,) = exchange(house, said, 0)
    assert again.next_task is None
    taken = house.poll_one(worker="w2")
    assert taken["taskId"] == next_of(outcome)["taskId"]
    assert taken["pollCount"] == 1, "the delivery that nobody received does not count"
    assert exchange(house, said, 1)[0].next_task is None, "the task has another holder"


def test_a_task_that_was_reported_meanwhile_is_not_delivered_again(house: House) -> None:
    house.start("one_work")
    house.start("one_work")
    said = [report_of(house.poll_one())]
    (outcome,) = exchange(house, said, 1)
    house.report(next_of(outcome))
    assert exchange(house, said, 1)[0].next_task is None


def test_a_rejected_or_cancelled_report_brings_no_task(house: House) -> None:
    house.start("one_work")
    house.start("one_work")
    held = house.poll_one()
    house.advance(4000)
    late, unknown = exchange(house, [report_of(held), {**report_of(held), "leaseId": "7-nonsense"}], 2)
    assert (late.verdict, unknown.verdict) == ("CANCELLED", "REJECTED")
    assert late.next_task is None
    assert unknown.next_task is None


def test_a_task_that_was_never_started_keeps_its_poll_count_c05(house: House) -> None:
    house.start("one_work")
    held = house.poll_one()
    house.send(report_of(held, "IN_PROGRESS", neverStarted=True))
    assert house.task(held["taskId"])["pollCount"] == 0
    again = house.poll_one()
    assert again["pollCount"] == 1
    assert again["leaseId"] != held["leaseId"]


@given(st.data())
def test_whatever_answers_are_lost_no_task_is_stranded_or_done_twice(data: st.DataObject) -> None:
    with House() as house:
        house.workflow_def("one_work", {"name": "work", "taskReferenceName": "work", "type": "SIMPLE"})
        started = [house.start("one_work") for _ in range(8)]
        held = house.poll(count=data.draw(st.integers(1, 3)))
        slots = len(held)
        while held:
            reports = [report_of(task) for task in held]
            wanted = data.draw(st.integers(0, len(reports)))
            outcomes = exchange(house, reports, wanted)
            for _ in range(data.draw(st.integers(0, 2))):  # answers that were lost
                wanted = data.draw(st.integers(0, len(reports)))
                outcomes = exchange(house, reports, wanted)
            assert all(outcome.verdict == "COMMITTED" for outcome in outcomes)
            held = [next_of(outcome) for outcome in outcomes if outcome.next_task is not None]
            assert len(held) <= slots
            if not held:
                held = house.poll(count=slots)
            assert all(task["pollCount"] == 1 for task in held)
        assert {house.workflow(workflow)["status"] for workflow in started} == {"COMPLETED"}
