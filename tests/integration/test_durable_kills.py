"""Functions with durable steps survive kills of workers and coordinator at random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.chaos.durable_kills import run


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_recorded_steps_ran_once_and_waits_end_on_time(tmp_path: Path) -> None:
    found = run(tmp_path, kills=12, seed=20261118)
    assert found.problems() == []
    assert len(found.workflows) >= 5
