"""Workflow rate limits on a coordinator that is killed: no workflow loses its turn, and none has an extra one."""

from __future__ import annotations

import httpx

from tests.acceptance.servers.targets import EmbeddedCoordinator

FLOW = {
    "name": "limited",
    "version": 1,
    "rateLimitConfig": {"rateLimitKey": "${workflow.input.customer}", "concurrentExecLimit": 2},
    "tasks": [{"name": "limited_work", "taskReferenceName": "work", "type": "SIMPLE"}],
}


def test_turns_outlive_kill_9(coordinator: EmbeddedCoordinator) -> None:
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        assert api.post("/metadata/workflow", json=FLOW).status_code == 200
        started = [api.post("/workflow/limited", json={"customer": "Ada"}).text for _ in range(6)]
        other = api.post("/workflow/limited", json={"customer": "Bo"}).text
    ended: list[str] = []
    while len(ended) < len(started) + 1:
        coordinator.kill()
        coordinator.revive()
        with httpx.Client(base_url=coordinator.url, timeout=60) as api:
            found = [api.get(f"/workflow/{one}").json() for one in started]
            running = [one for one in found if one["status"] == "RUNNING"]
            assert [len(one["tasks"]) for one in running] == [1, 1, 0, 0, 0, 0][: len(running)]
            tasks = api.get("/tasks/poll/batch/limited_work", params={"workerid": "me", "count": 10}).json()
            assert len(tasks) <= 3
            for task in tasks:
                said = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "me"}
                api.post("/tasks", json={**said, "status": "COMPLETED"}).raise_for_status()
                ended.append(task["workflowInstanceId"])
    assert [one for one in ended if one != other] == started
    assert other in ended[:3]
