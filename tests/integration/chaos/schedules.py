"""Kills the coordinator at random moments while schedules are due every second: each moment counts once.

The execution log holds every request for a schedule and its time. At the end, the runs that the coordinator remembers
and the workflows that exist are compared with every second between the first and the last.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from .execution_log import ExecutionLog, read
from .processes import CoordinatorProcess

#: Schedules that make up for what they missed, and one that does not.
CATCHING_UP = 3
#: The longest time between a start of the coordinator and its next kill.
LONGEST_LIFE_S = 0.8
#: The longest time until all missed runs are made up for.
STUCK_S = 120.0
SECOND_MS = 1000


def run(directory: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Found:
    """Kill the coordinator `kills` times while schedules are due. Return the requests and the final data."""
    rng = random.Random(seed)
    execution_log = ExecutionLog(directory / "execution_log")
    names = [f"every-second-{n}" for n in range(CATCHING_UP)]
    first_due: dict[str, int] = {}
    with CoordinatorProcess(directory / "coordinator.db", directory / "coordinator.log") as coordinator:
        with _client(coordinator) as api:
            note = {"name": "note", "taskReferenceName": "note", "type": "SET_VARIABLE", "inputParameters": {"a": 1}}
            api.post("/metadata/workflow", json={"name": "noted", "tasks": [note]}).raise_for_status()
            for name in [*names, "without-catch-up"]:
                asked = {
                    "name": name,
                    "cronExpression": "* * * * * *",
                    "runCatchupScheduleInstances": name in names,
                    "startWorkflowRequest": {"name": "noted"},
                }
                saved = api.post("/scheduler/schedules", json=asked).raise_for_status().json()
                first_due[name] = saved["nextRunTime"]
                execution_log.write("saved", schedule=name, first=saved["nextRunTime"], catches_up=name in names)
        for number in range(1, kills + 1):
            time.sleep(rng.uniform(0.0, LONGEST_LIFE_S))
            coordinator.kill()
            coordinator.start()
            if number % 10 == 0:
                tell(f"{number} kills")
        with _client(coordinator) as api:
            ends_ms = time.time_ns() // 1_000_000
            for name in names:
                # A few kills may be over before the first second is.
                _wait_until_caught_up(api, name, max(ends_ms, first_due[name]))
            api.get("/scheduler/admin/pause").raise_for_status()
            found = Found(seed, kills, list(read(directory / "execution_log")), _all_runs(api), _all_workflows(api))
        coordinator.stop()
    return found


def _client(coordinator: CoordinatorProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{coordinator.port}/api", timeout=60)


def _wait_until_caught_up(api: httpx.Client, name: str, at_ms: int) -> None:
    gives_up = time.monotonic() + STUCK_S
    while api.get(f"/scheduler/schedules/{name}").raise_for_status().json()["nextRunTime"] <= at_ms:
        assert time.monotonic() < gives_up, f"{name} has not caught up"
        time.sleep(0.05)


def _all_runs(api: httpx.Client) -> list[dict[str, Any]]:
    return _pages(api, "/scheduler/search/executions")


def _all_workflows(api: httpx.Client) -> list[dict[str, Any]]:
    return _pages(api, "/workflow/search-v2")


def _pages(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = api.get(path, params={"start": len(found), "size": 500}).raise_for_status().json()
        found += page["results"]
        if not page["results"]:
            return found


def _ended_as_it_should(workflow: dict[str, Any]) -> bool:
    """A workflow in whose steps the process was killed twice in a row is set aside, which is a promise too."""
    return workflow["status"] == "COMPLETED" or "the coordinator died" in workflow.get("reasonForIncompletion", "")


@dataclass
class Found:
    """The requests for schedules, and the data afterwards."""

    seed: int
    kills: int
    execution_log: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    workflows: list[dict[str, Any]]

    @property
    def problems(self) -> list[str]:
        """Every broken promise."""
        started = Counter(
            (one["input"]["_startedByScheduler"], one["input"]["_scheduledTime"]) for one in self.workflows
        )
        recorded = Counter((run["scheduleName"], run["scheduledTime"]) for run in self.runs)
        by_id = {one["workflowId"] for one in self.workflows}
        return [
            *(f"{name} started {count} workflows for {at}" for (name, at), count in started.items() if count > 1),
            *(f"{name} has {count} runs for {at}" for (name, at), count in recorded.items() if count > 1),
            *(f"started and not recorded: {one}" for one in started if one not in recorded),
            *(f"recorded and not started: {one}" for one in recorded if one not in started),
            *(f"the run's workflow is not there: {run}" for run in self.runs if run.get("workflowId") not in by_id),
            *(f"not COMPLETED: {one['workflowId']}" for one in self.workflows if not _ended_as_it_should(one)),
            *(problem for line in self.execution_log for problem in self._left_out(line)),
        ]

    def _left_out(self, saved: dict[str, Any]) -> list[str]:
        found = sorted(run["scheduledTime"] for run in self.runs if run["scheduleName"] == saved["schedule"])
        if not found:
            return [f"{saved['schedule']} started nothing"]
        due = range(saved["first"], found[-1] + 1, SECOND_MS)
        wrong = [f"{saved['schedule']} was not due at {at}" for at in found if at not in due]
        if saved["catches_up"]:
            wrong += [f"{saved['schedule']} left out {at}" for at in sorted(set(due) - set(found))]
        return wrong

    def report(self) -> str:
        """The figures as lines."""
        figures = {
            "seed": self.seed,
            "coordinator killed": self.kills,
            "runs": len(self.runs),
            "workflows": len(self.workflows),
            "problems": len(self.problems),
        }
        return "\n".join(f"{name:>36}: {value}" for name, value in figures.items())
