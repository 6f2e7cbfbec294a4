"""kill -9 at random moments under load: what was answered is there afterwards, nothing is lost or counts twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.chaos.kills import run

KILLS = 50


def carry_out(directory: Path, kills: int, record_property: Callable[[str, object], None]) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or time.time_ns() % 1_000_000)
    print(f"CHAOS_SEED={seed} draws this again")
    found = run(directory, kills, seed)
    record_property("figures", found.report())
    assert found.problems == []


def test_a_few_kills_lose_nothing(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    carry_out(tmp_path, 3, record_property)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_under_load(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    carry_out(tmp_path, KILLS, record_property)
