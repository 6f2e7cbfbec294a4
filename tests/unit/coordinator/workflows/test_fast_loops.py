"""Loops that run without a pause: found, logged once, and forgotten when they slow down."""

from __future__ import annotations

import logging

import pytest

from conductor.coordinator.workflows.fast_loops import FastLoops, LoopRound
from conductor.testing import FakeClock
from tests.unit.coordinator.core_harness import Harness, simple

LOOP = {"name": "again", "taskReferenceName": "again", "type": "DO_WHILE", "loopCondition": "true"}


def test_a_loop_without_a_pause_is_listed_and_logged_once_o05(caplog: pytest.LogCaptureFixture) -> None:
    with Harness() as harness, caplog.at_level(logging.WARNING):
        harness.workflow_def("spin", {**LOOP, "loopOver": [simple("work")]})
        workflow = harness.start("spin")
        for _ in range(310):
            harness.clock.advance(0.02)
            harness.report(harness.poll_one())
        for notes in harness.notes:
            for reached in notes.loop_rounds:
                harness.clock.advance(2)
                harness.core.fast_loops.note(reached)
        (found,) = harness.core.fast_loops.list_fast()
    assert (found.workflow_id, found.workflow_name, found.ref, found.rounds) == (workflow, "spin", "again", 300)
    assert found.rounds_per_second == pytest.approx(50)
    assert caplog.text.count("Loop runs without a pause") == 1


def test_a_loop_that_waits_is_not_listed_o05() -> None:
    clock = FakeClock()
    loops = FastLoops(clock)
    for rounds in (100, 200, 300):
        clock.advance(10.5)
        loops.note(LoopRound("id", "poll", "again", rounds))
    assert loops.list_fast() == []


def test_a_loop_that_has_ended_is_forgotten_o05() -> None:
    clock = FakeClock()
    loops = FastLoops(clock)
    loops.note(LoopRound("id", "spin", "again", 100))
    clock.advance(1)
    loops.note(LoopRound("id", "spin", "again", 200))
    assert [loop.rounds for loop in loops.list_fast()] == [200]
    clock.advance(10.5)
    assert loops.list_fast() == []
