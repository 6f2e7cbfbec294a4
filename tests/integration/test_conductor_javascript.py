"""Conductor's JavaScript SDK, in a directory of its own, as client and worker of the coordinator."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from conductor.coordinator import Coordinator
from tests.integration.other_sdks import Unavailable, conductor_javascript, late_reports_failure

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conductor-javascript"), pytest.mark.timeout(400)]

SCRIPT = Path(__file__).parent / "sdk_scripts" / "javascript_scenarios.cjs"
SCENARIOS = [
    "workflows_of_two_steps",
    "retries",
    "terminal_failure",
    "task_in_progress",
    "domains",
    "heartbeats",
    "late_result",
    "late_result_is_reported_once_s02",
    "logs",
    "search",
    "terminate",
    "pause_and_resume",
    "retry_and_restart",
]


@pytest.fixture(scope="module")
def sdk() -> Path:
    try:
        found: Path = conductor_javascript()
        return found
    except Unavailable as error:
        # Everywhere, also in CI: this suite needs nothing of npm's but the package, and its registry has slow days.
        pytest.skip(f"the JavaScript SDK cannot be installed here: {error}")


@pytest.fixture(scope="module")
def failures(sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """The failure of each scenario, or None. All run once, in one process."""
    database = tmp_path_factory.mktemp("javascript") / "coordinator.db"
    with Coordinator(database=database) as coordinator:
        program = subprocess.run(
            ["node", SCRIPT, coordinator.url],
            env={**os.environ, "NODE_PATH": str(sdk / "node_modules")},
            capture_output=True,
            text=True,
            timeout=300,
        )
        late = late_reports_failure(coordinator.url)
    lines = [json.loads(line) for line in program.stdout.splitlines() if line.startswith('{"scenario"')]
    assert lines, f"the scenarios did not run:\n{program.stdout[-2000:]}\n{program.stderr[-3000:]}"
    return {line["scenario"]: line["failure"] for line in lines} | {"late_result_is_reported_once_s02": late}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_javascript_sdk_succeeds(failures: dict[str, str | None], scenario: str) -> None:
    assert scenario in failures, "it was not reached"
    assert failures[scenario] is None, failures[scenario]


def test_every_scenario_has_a_test(failures: dict[str, str | None]) -> None:
    assert sorted(failures) == sorted(SCENARIOS)
