"""Workflows of every registered definition as lines of text."""

from __future__ import annotations

from typing import Any

from conductor.cli.graph import MAX_DEPTH, draw
from conductor.protocol.views import TaskAttempt, WorkflowDetails
from conductor.protocol.why_waiting import Waiting
from tests.unit.cli.server_client import simple, step


def drawn(tasks: Any, *steps: TaskAttempt) -> list[str]:
    """The lines of a workflow of these tasks, of which these attempts were made."""
    execution = WorkflowDetails(
        now_ms=0,
        workflow={"workflowDefinition": {"tasks": tasks}},
        tasks=list(steps),
        waiting=Waiting(kind="running", sentence="runs"),
    )
    return [line.lead + line.text.plain for line in draw(execution)]


def attempt(ref: str, status: str = "COMPLETED", seq: int = 1, **more: Any) -> TaskAttempt:
    return TaskAttempt(
        task_id=f"id-{seq}",
        ref=ref,
        base_ref=ref,
        name=ref,
        type="SIMPLE",
        status=status,
        seq=seq,
        scheduled_ms=0,
        **more,
    )


def test_a_wide_fork_shows_the_worst_branches_and_counts_the_rest() -> None:
    branches = [[simple(f"b{number}")] for number in range(10)]
    steps = [attempt(f"b{number}", seq=number) for number in range(8)]
    steps[6] = attempt("b6", "FAILED", 6, reason="no\npaper")
    steps[7] = attempt("b7", "SCHEDULED", 7)
    assert drawn([step("FORK_JOIN", "fork", forkTasks=branches)], attempt("fork", seq=0), *steps) == [
        "✓ fork  FORK_JOIN  10 branches  completed",
        "├─ ✕ b6  failed  no paper",
        "├─ ○ b7  scheduled",
        "├─ ✓ b0  completed",
        "└─ … 7 more branches; all 10: 1 ✕ failed, 1 ○ scheduled, 6 ✓ completed, 2 · not reached",
    ]


def test_a_loop_in_a_loop_shows_its_newest_round() -> None:
    inner = step("DO_WHILE", "inner", loopOver=[simple("deep"), simple("last")])
    steps = [
        attempt("outer", "IN_PROGRESS", 1, iteration=2),
        attempt("inner__1", seq=2, iteration=3),
        attempt("deep__1__3", seq=3, iteration=3),
        attempt("last__1__3", seq=4, iteration=3),
        attempt("inner__2", "IN_PROGRESS", 5, iteration=1),
        attempt("deep__2__1", "FAILED", 6, iteration=1),
        attempt("deep__2__1", "SCHEDULED", 7, iteration=1, retry_count=1),
    ]
    assert drawn([step("DO_WHILE", "outer", loopOver=[inner])], *steps) == [
        "◐ outer  DO_WHILE  iteration 2  in progress",
        "↻ ◐ inner  DO_WHILE  iteration 1  in progress",
        "↻ ↻ ○ deep  scheduled  2 attempts",
        "↻ ↻ · last  not reached",
    ]


def test_two_dynamic_forks_have_their_own_tasks() -> None:
    tasks = [step("FORK_JOIN_DYNAMIC", "one"), step("FORK_JOIN_DYNAMIC", "two")]
    steps = [attempt("one", seq=1), attempt("a", "FAILED", 2), attempt("two", seq=3), attempt("b", seq=4)]
    retried = attempt("a", seq=5, retry_count=1)  # scheduled after the second fork, and still the first one's
    assert drawn(tasks, *steps, retried) == [
        "✓ one  FORK_JOIN_DYNAMIC  1 forked  completed",
        "└─ ✓ a  completed  2 attempts",
        "✓ two  FORK_JOIN_DYNAMIC  1 forked  completed",
        "└─ ✓ b  completed",
    ]


def test_a_switch_that_was_not_reached_shows_all_its_ways() -> None:
    assert drawn([step("SWITCH", "how", decisionCases={"post": [simple("stamp")]})]) == [
        "· how  SWITCH  not reached",
        "├─ post:",
        "│  · stamp  not reached",
        "└─ default: nothing to do",
    ]


def test_odd_definitions_are_drawn_as_far_as_they_go() -> None:
    assert drawn(None) == drawn("nonsense") == drawn([1, None]) == []
    assert drawn([{}]) == ["· ?  not reached"]
    odd = {"forkTasks": [None, [simple("a")]], "decisionCases": [], "loopOver": 7}
    assert drawn([step("FORK_JOIN", "odd", **odd)])[1:] == ["├─ nothing", "└─ · a  not reached"]
    nested: dict[str, Any] = simple("core")
    for number in range(400):
        nested = step("DO_WHILE", f"loop{number}", loopOver=[nested])
    lines = drawn([nested])
    assert len(lines) == MAX_DEPTH + 2
    assert lines[-1].endswith("… and more inside")
