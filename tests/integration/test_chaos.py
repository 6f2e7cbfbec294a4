"""Bad network, full disks, dying processes: nothing is lost or committed twice, no report counts without its lease."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.chaos.run import Plan, run


def seed_of_today() -> int:
    return int(os.environ.get("CHAOS_SEED") or time.time_ns() % 1_000_000)


@pytest.mark.timeout(500)
def test_a_little_chaos_breaks_no_promise(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    carry_out(
        Plan(jobs=100, seed=seed_of_today(), limit_s=300, calm_s=(0.5, 1.5), attacks=7), tmp_path, record_property
    )


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_chaos_breaks_no_promise(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    carry_out(Plan(jobs=2500, seed=seed_of_today(), limit_s=900), tmp_path, record_property)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_chaos_with_prefetch_and_blocked_loops(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    plan = Plan(jobs=1500, seed=seed_of_today(), limit_s=900, prefetch=100)
    carry_out(plan, tmp_path, record_property)


def carry_out(plan: Plan, directory: Path, record_property: Callable[[str, object], None]) -> None:
    print(f"CHAOS_SEED={plan.seed} draws this again")
    checks = run(plan, directory)
    record_property("figures", checks.report())
    assert checks.problems == []
