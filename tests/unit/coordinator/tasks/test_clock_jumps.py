"""Jumps of the wall clock: somebody sets it, or the machine was suspended."""

from __future__ import annotations

import logging

import pytest

from conductor.coordinator.store.clock_jumps import MIN_JUMP_MS
from conductor.protocol.wire import Verdict
from tests.unit.coordinator.core_harness import Harness

HOUR_S = 3600.0
JUMPS = pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])


@JUMPS
def test_a_jump_neither_ends_nor_extends_a_lease_o04(
    harness: Harness, caplog: pytest.LogCaptureFixture, jump_s: float
) -> None:
    harness.start_one(task_def={"responseTimeoutSeconds": 60, "timeoutSeconds": 300})
    first = harness.poll_one()
    harness.clock.jump_wall(jump_s)
    with caplog.at_level(logging.WARNING):
        harness.clock.advance(30)
        assert harness.poll() == []  # the task is not given to another worker
    assert "Wall clock jumped" in caplog.text
    assert harness.report(first).verdict is Verdict.COMMITTED


def test_a_correction_that_fails_is_logged_once_as_an_error_o04(
    harness: Harness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_tx: object, _jump_ms: int) -> None:
        raise ValueError("no correction")

    monkeypatch.setattr(harness.store, "on_clock_jump", fail)
    harness.start_one()
    harness.clock.jump_wall(HOUR_S)
    harness.poll_one()
    harness.start_one()
    (record,) = [record for record in caplog.records if "Wall clock jumped" in record.message]
    assert record.levelname == "ERROR"
    assert "could not be shifted" in record.message
    assert record.exc_info is not None


@JUMPS
def test_a_lease_ends_on_time_after_a_jump_o04(harness: Harness, jump_s: float) -> None:
    workflow = harness.start_one(task_def={"responseTimeoutSeconds": 60, "retryDelaySeconds": 0})
    harness.poll_one()
    harness.clock.jump_wall(jump_s)
    harness.advance(59)
    assert [task["status"] for task in harness.workflow(workflow)["tasks"]] == ["IN_PROGRESS"]
    harness.advance(1)
    assert [task["status"] for task in harness.workflow(workflow)["tasks"]] == ["TIMED_OUT", "SCHEDULED"]


@JUMPS
def test_a_timeout_of_a_task_counts_only_its_running_time_after_a_jump_o04(harness: Harness, jump_s: float) -> None:
    workflow = harness.start_one(task_def={"responseTimeoutSeconds": 100, "timeoutSeconds": 100})
    task = harness.poll_one()
    harness.clock.jump_wall(jump_s)
    harness.advance(99)
    harness.heartbeat(task)
    assert harness.workflow(workflow)["status"] == "RUNNING"
    harness.advance(1)
    assert harness.workflow(workflow)["status"] == "TIMED_OUT"


@JUMPS
def test_the_delay_of_a_retry_is_kept_after_a_jump_o04(harness: Harness, jump_s: float) -> None:
    harness.start_one(task_def={"retryCount": 1, "retryDelaySeconds": 10})
    harness.report(harness.poll_one(), "FAILED")
    harness.clock.jump_wall(jump_s)
    harness.advance(9)
    assert harness.poll() == []
    harness.advance(1)
    assert len(harness.poll()) == 1


def test_a_rate_limit_does_not_block_its_tasks_after_the_clock_is_set_back_o04(harness: Harness) -> None:
    limit = {"rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 10}
    harness.start_one(task_def=limit)
    harness.start("one_work")
    harness.poll_one()
    harness.clock.jump_wall(-HOUR_S)
    harness.advance(10)
    assert len(harness.poll()) == 1


def test_small_differences_are_not_corrected_o04(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.start_one()
    harness.clock.jump_wall((MIN_JUMP_MS - 1) / 1000)
    harness.poll_one()
    assert "Wall clock" not in caplog.text
