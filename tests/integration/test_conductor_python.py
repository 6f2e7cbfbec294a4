"""conductor-python 2.0.0, in an environment of its own, as client and as sync and async worker of the coordinator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.coordinator import Coordinator
from tests.integration.other_sdks import Unavailable, conductor_python, late_reports_failure

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conductor-python"), pytest.mark.timeout(600)]

SCRIPTS = Path(__file__).parent / "sdk_scripts"
SCENARIOS = [
    "sixty_workflows_of_two_steps",
    "retries_of_a_sync_worker",
    "retries_of_an_async_worker",
    "retries_run_out",
    "terminal_failure",
    "task_in_progress",
    "domains",
    "heartbeats_of_a_sync_worker",
    "heartbeats_of_an_async_worker",
    "late_result",
    "late_result_is_reported_once_s02",
    "logs",
    "search",
    "correlation",
    "terminate",
    "pause_and_resume",
    "retry",
    "restart",
    "rerun",
    "remove",
    "polling_by_hand",
    "executed_and_waited_for",
    "definitions",
    "mistakes",
]


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        found: Path = conductor_python()
        return found
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"conductor-python cannot be installed here: {error}")


@pytest.fixture(scope="module")
def failures(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str | None]]:
    """The failure of each scenario, or None. All run once, with the same workers."""
    directory = tmp_path_factory.mktemp("conductor-python")
    log = directory / "workers.log"
    with Coordinator(database=directory / "coordinator.db") as coordinator, log.open("wb") as output:
        workers = subprocess.Popen(
            [python, SCRIPTS / "python_workers.py", coordinator.url],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            client = subprocess.run(
                [python, SCRIPTS / "python_scenarios.py", coordinator.url],
                capture_output=True,
                text=True,
                timeout=500,
            )
            late = late_reports_failure(coordinator.url)
        finally:
            os.killpg(workers.pid, signal.SIGKILL)
            workers.wait()
    lines = [json.loads(line) for line in client.stdout.splitlines() if line.startswith('{"scenario"')]
    assert lines, f"the scenarios did not run:\n{client.stderr[-3000:]}\n{log.read_text()[-3000:]}"
    yield {line["scenario"]: line["failure"] for line in lines} | {"late_result_is_reported_once_s02": late}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_conductor_python_succeeds(failures: dict[str, str | None], scenario: str) -> None:
    assert scenario in failures, "it was not reached"
    assert failures[scenario] is None, failures[scenario]


def test_every_scenario_has_a_test(failures: dict[str, str | None]) -> None:
    assert sorted(failures) == sorted(SCENARIOS)
