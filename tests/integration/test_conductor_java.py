"""Conductor's Java SDK, with jars of its own, as client and worker of the coordinator."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from conductor.coordinator import Coordinator
from tests.acceptance.servers.java import find_java
from tests.acceptance.servers.missing import Missing
from tests.integration.other_sdks import Unavailable, conductor_java, late_reports_failure

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conductor-java"), pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parent / "sdk_scripts" / "JavaScenarios.java"
#: For a start with little processor time: this program lives for half a minute.
FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SCENARIOS = [
    "sixty_workflows_of_two_steps",
    "retries",
    "retries_of_an_annotated_worker",
    "retries_run_out",
    "terminal_failure",
    "terminal_failure_of_an_annotated_worker",
    "task_in_progress",
    "task_in_progress_of_an_annotated_worker",
    "domains",
    "domains_of_an_annotated_worker",
    "heartbeats",
    "late_result",
    "late_result_is_reported_once_s02",
    "logs",
    "logs_of_an_annotated_worker",
    "search",
    "correlation",
    "terminate",
    "pause_and_resume",
    "retry",
    "restart",
    "rerun",
    "skip",
    "remove",
    "bulk",
    "polling_by_hand",
    "reports_answered_with_the_next_task",
    "signals",
    "executed_and_waited_for",
    "workflow_as_code",
    "definitions",
    "mistakes",
]


@pytest.fixture(scope="module")
def sdk() -> tuple[Path, Path]:
    """A java, and the directory of the SDK's jars. They need what the server needs: Java 21."""
    try:
        return find_java(), conductor_java()
    except (Missing, Unavailable) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the Java SDK cannot be had here: {error}")


@pytest.fixture(scope="module")
def failures(sdk: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """The failure of each scenario, or None. All run once, in one process."""
    java, jars = sdk
    database = tmp_path_factory.mktemp("java") / "coordinator.db"
    with Coordinator(database=database) as coordinator:
        program = subprocess.run(
            [java, *FLAGS, "-cp", f"{jars}/*", PROGRAM, coordinator.url],
            capture_output=True,
            text=True,
            timeout=300,
        )
        late = late_reports_failure(coordinator.url)
    lines = [json.loads(line) for line in program.stdout.splitlines() if line.startswith('{"scenario"')]
    assert lines, f"the scenarios did not run:\n{program.stdout[-2000:]}\n{program.stderr[-3000:]}"
    return {line["scenario"]: line["failure"] for line in lines} | {"late_result_is_reported_once_s02": late}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_java_sdk_succeeds(failures: dict[str, str | None], scenario: str) -> None:
    assert scenario in failures, "it was not reached"
    assert failures[scenario] is None, failures[scenario]


def test_every_scenario_has_a_test(failures: dict[str, str | None]) -> None:
    assert sorted(failures) == sorted(SCENARIOS)
