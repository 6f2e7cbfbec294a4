"""kill -9 at random moments while schedules are due: every due moment starts one workflow, none starts two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.chaos.schedules import run

KILLS = 200


def carry_out(directory: Path, kills: int, record_property: Callable[[str, object], None]) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or time.time_ns() % 1_000_000)
    print(f"CHAOS_SEED={seed} draws this again")
    found = run(directory, kills, seed)
    record_property("figures", found.report())
    assert found.problems == []


@pytest.mark.slow
def test_a_few_kills_while_schedules_are_due(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    carry_out(tmp_path, 3, record_property)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_kills_while_schedules_are_due(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    carry_out(tmp_path, KILLS, record_property)
