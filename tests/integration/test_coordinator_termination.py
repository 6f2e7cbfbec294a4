"""A half-terminated tree goes on being terminated after kill -9."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from tests.integration.chaos.processes import CoordinatorProcess

#: More than one transaction terminates.
BRANCHES = 600
GIVE_UP_S = 120.0


def test_a_tree_that_is_being_terminated_survives_kill_9_a09(tmp_path: Path) -> None:
    leaf = {"name": "leaf", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    fork: dict[str, Any] = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN_DYNAMIC",
        "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": "${workflow.input.tasks}", "inputs": {}},
    }
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}
    branch = {"type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "leaf", "version": 1}}
    tasks = [{**branch, "name": f"s{n}", "taskReferenceName": f"s{n}"} for n in range(BRANCHES)]
    with CoordinatorProcess(tmp_path / "c.db", tmp_path / "log") as process:
        with _api(process) as api:
            for definition in (leaf, {"name": "root", "tasks": [fork, join]}):
                assert api.post("/metadata/workflow", json=definition).status_code == 200
            root = api.post("/workflow", json={"name": "root", "input": {"tasks": tasks}}).text
            _until(lambda: _count(api, "RUNNING") == BRANCHES)
            assert api.delete(f"/workflow/{root}", params={"reason": "enough"}).status_code == 200
        process.kill()
        process.start()
        with _api(process) as api:
            assert api.get(f"/workflow/{root}/status").json()["status"] == "TERMINATED"
            _until(lambda: _count(api, "TERMINATED") == BRANCHES)
            assert _count(api, "RUNNING") == 0
            assert api.get("/tasks/queue/sizes", params={"taskType": "work"}).json() == {"work": 0}


def _api(process: CoordinatorProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{process.port}/api", timeout=60)


def _count(api: httpx.Client, status: str) -> int:
    query = f"workflowType = 'leaf' AND status = '{status}'"
    return int(api.get("/workflow/search", params={"query": query, "size": 1}).json()["totalHits"])


def _until(look: Any) -> None:
    ends = time.monotonic() + GIVE_UP_S
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.05)
