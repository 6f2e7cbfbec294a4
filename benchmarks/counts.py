"""SQL statements and commits of a start, a poll and a report, counted as in the fast suite."""

from __future__ import annotations

from benchmarks._run import Run

PART = "counts"
STATEMENTS, COMMITS = "SQL statements", "commits"
START, REPORT = "start", "report of 50"


def measure(run: Run) -> None:
    """Count in a single round, because every round gives the same counts."""
    import pytest

    from tests.unit.cost_counters import CountedCoordinator, Counter, costs_of_coordinator

    with pytest.MonkeyPatch.context() as patched, CountedCoordinator(Counter(), patched) as found:
        costs = costs_of_coordinator(found)
    for name, cost in costs.items():
        run.figures.add(PART, STATEMENTS, name, cost.statements, "per task", base=START)
        run.figures.add(PART, COMMITS, name, cost.commits, "per task", base=START)
