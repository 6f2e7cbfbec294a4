"""Failed workflows grouped by cause."""

from __future__ import annotations

import pytest

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.views import failures
from conductor.coordinator.views.failures import find_cause, group_failures, list_failed_ids
from conductor.coordinator.workflows import workflow_actions
from conductor.protocol.views import Failures
from tests.unit.coordinator.core_harness import Harness, simple


def fail(harness: Harness, reason: str | None, task: str = "charge") -> str:
    started = harness.start_one(task)
    (polled,) = harness.poll(task)
    harness.report(polled, "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion=reason)
    return started


def group(harness: Harness, hours: int = 24, size: int = 50) -> Failures:
    return harness.store.call(lambda tx: group_failures(tx, hours, size))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("TimeoutError: order 8842 took 31.5 s", "TimeoutError: order # took # s"),
        ("no row 0000002a-0000-8abc-8def-0123456789ab", "no row <id>"),
        ("<Session object at 0x7f3c2a1b9d30>", "<Session object at <id>>"),
        ("commit deadbeef42 is unknown", "commit <id> is unknown"),
        ("the facade was defaced", "the facade was defaced"),
        ("ValueError: bad\n  File 'x.py', line 3", "ValueError: bad"),
        ("KeyError: 'amount'", "KeyError: 'amount'"),
        ("s3://orders/17: no such object", "s3://orders/#: no such object"),
        ("  \n ", "no reason was given"),
        (None, "no reason was given"),
        ("x" * 5000, "x" * failures.MAX_CAUSE_CHARS),
    ],
)
def test_a_cause_has_no_numbers_and_no_ids(reason: str | None, cause: str) -> None:
    assert find_cause(reason) == cause


def test_failures_are_grouped_by_workflow_task_and_cause(harness: Harness) -> None:
    first_ms = harness.clock.wall_ms()
    first = fail(harness, "ConnectionError: order 1 refused")
    harness.clock.advance(60)
    second = fail(harness, "ConnectionError: order 22 refused")
    fail(harness, "KeyError: 'amount'")
    fail(harness, "ConnectionError: order 3 refused", task="pack")
    found = group(harness)
    assert (found.failed, found.group_count, found.parents, found.is_partial) == (4, 3, 0, False)
    largest = found.groups[0]
    assert (largest.workflow_name, largest.task_type, largest.count) == ("one_charge", "charge", 2)
    assert (largest.cause, largest.reason) == ("ConnectionError: order # refused", "ConnectionError: order 22 refused")
    assert (largest.first_ms, largest.last_ms - largest.first_ms) == (first_ms, 60_000)
    assert largest.newest == [second, first]
    ids = harness.store.call(lambda tx: list_failed_ids(tx, 24, largest.key))
    assert ids.statuses == {second: "FAILED", first: "FAILED"}
    with pytest.raises(ApiError, match="no workflow has failed with the cause 'other'"):
        harness.store.call(lambda tx: list_failed_ids(tx, 24, "other"))


def test_a_retried_workflow_is_in_no_group(harness: Harness) -> None:
    failed = fail(harness, "refused")
    assert group(harness).failed == 1
    harness.act(failed, workflow_actions.retry)
    assert group(harness).groups == []


def test_a_parent_is_left_out_because_its_sub_workflow_has_the_cause(harness: Harness) -> None:
    harness.workflow_def("child", simple("drive"))
    step = {"name": "step", "taskReferenceName": "step", "type": "SUB_WORKFLOW"}
    harness.workflow_def("parent", {**step, "subWorkflowParam": {"name": "child"}})
    harness.start("parent")
    (polled,) = harness.poll("drive")
    harness.report(polled, "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="flat tyre")
    found = group(harness)
    assert [(one.workflow_name, one.cause) for one in found.groups] == [("child", "flat tyre")]
    assert (found.failed, found.parents) == (1, 1)


def test_only_the_newest_failures_of_the_time_are_examined(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(harness, "old")
    harness.clock.advance(3 * 3600)
    fail(harness, "new")
    fail(harness, "newer")
    assert {one.cause for one in group(harness, hours=1).groups} == {"new", "newer"}
    assert len(group(harness, size=1).groups) == 1
    monkeypatch.setattr(failures, "MAX_EXAMINED", 1)
    found = group(harness)
    assert ([one.cause for one in found.groups], found.is_partial) == (["newer"], True)


def test_wrong_limits_are_rejected(harness: Harness) -> None:
    with pytest.raises(ApiError, match="hours must be between 1 and 8784"):
        group(harness, hours=0)
    with pytest.raises(ApiError, match="size must be between 1 and 200"):
        group(harness, size=0)
