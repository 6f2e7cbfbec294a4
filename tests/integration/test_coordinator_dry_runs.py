"""`POST /workflow/test`: a workflow with made-up outputs; nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.workflow_test_request import TaskMock, WorkflowTestRequest
from conductor.client.workflow_client import WorkflowClient
from conductor.coordinator import Coordinator


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=60) as api:
        api.post("/metadata/workflow", json={"name": "wf", "tasks": [simple("t")]}).raise_for_status()
        yield api


def simple(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": name, "type": "SIMPLE", **more}


def tried(api: httpx.Client, name: str = "wf", **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.post("/workflow/test", json={"name": name, **asked}).raise_for_status().json()
    return found


def attempts(workflow: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(task["referenceTaskName"], task["status"], task["outputData"]) for task in workflow["tasks"]]


class TestAsConductorAnswers:
    """Each of these requests was answered the same by Conductor 3.32.3: status, tasks and outputs."""

    def test_a_mock_ends_its_task(self, api: httpx.Client) -> None:
        found = tried(api, input={"a": 1}, taskRefToMockOutput={"t": [{"status": "COMPLETED", "output": {"r": 5}}]})
        assert (found["status"], found["input"], found["output"]) == ("COMPLETED", {"a": 1}, {"r": 5})
        assert attempts(found) == [("t", "COMPLETED", {"r": 5})]

    def test_a_task_without_a_mock_stays_open(self, api: httpx.Client) -> None:
        found = tried(api)
        assert (found["status"], attempts(found)) == ("RUNNING", [("t", "SCHEDULED", {})])

    def test_each_attempt_has_a_mock_of_its_own_and_no_delay(self, api: httpx.Client) -> None:
        mocks = [{"status": "FAILED", "output": {"r": 5}}, {"status": "COMPLETED", "output": {"r": 6}}]
        found = tried(api, taskRefToMockOutput={"t": mocks})
        assert found["status"] == "COMPLETED"
        assert attempts(found) == [("t", "FAILED", {"r": 5}), ("t", "COMPLETED", {"r": 6})]
        assert [task["retryCount"] for task in found["tasks"]] == [0, 1]

    def test_an_unknown_workflow_is_a_404(self, api: httpx.Client) -> None:
        answer = api.post("/workflow/test", json={"name": "nowf", "version": 1})
        assert answer.status_code == 404
        assert answer.json()["message"] == "No such workflow defined. name=nowf, version=1"

    def test_sub_workflows_and_waits_run_with_their_mocks(self, api: httpx.Client) -> None:
        sub = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "wf"}}
        wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT"}
        found = tried(
            api,
            "inline",
            workflowDef={"name": "inline", "tasks": [simple("aa"), sub, wait]},
            taskRefToMockOutput={"aa": [{"output": {"r": 1}}], "w": [{"status": "COMPLETED", "output": {"q": 1}}]},
            subWorkflowTestRequest={"s": {"name": "wf", "taskRefToMockOutput": {"t": [{"output": {"z": 1}}]}}},
        )
        assert found["status"] == "COMPLETED"
        assert [(ref, status) for ref, status, _ in attempts(found)] == [
            ("aa", "COMPLETED"),
            ("s", "COMPLETED"),
            ("w", "COMPLETED"),
        ]
        assert found["tasks"][1]["outputData"]["z"] == 1


class TestADryRun:
    def test_a_dry_run_leaves_nothing_behind(self, api: httpx.Client) -> None:
        found = tried(api, taskRefToMockOutput={"t": [{"output": {}}]})
        assert api.get("/workflow/search").json()["totalHits"] == 0
        assert api.get(f"/workflow/{found['workflowId']}").status_code == 404
        assert api.get("/tasks/queue/sizes?taskType=t").json() == {"t": 0}

    def test_a_dry_run_goes_through_loops_and_long_chains(self, api: httpx.Client) -> None:
        loop = {
            "name": "l",
            "taskReferenceName": "l",
            "type": "DO_WHILE",
            "loopCondition": "$.l['iteration'] < 3",
            "loopOver": [simple("x")],
        }
        many = [
            {"name": "n", "taskReferenceName": f"n{number}", "type": "SET_VARIABLE", "inputParameters": {"a": number}}
            for number in range(500)
        ]
        found = tried(
            api,
            "inline",
            workflowDef={"name": "inline", "tasks": [*many, loop]},
            taskRefToMockOutput={"x": [{"output": {"n": n}} for n in range(3)]},
        )
        assert found["status"] == "COMPLETED"
        assert [(ref, out) for ref, _, out in attempts(found) if ref.startswith("x")] == [
            ("x__1", {"n": 0}),
            ("x__2", {"n": 1}),
            ("x__3", {"n": 2}),
        ]

    @pytest.mark.parametrize("kind", ["loop", "sub-workflows"])
    def test_a_dry_run_that_makes_tasks_without_end_is_refused_a12(self, api: httpx.Client, kind: str) -> None:
        step = {"name": "n", "taskReferenceName": "n", "type": "SET_VARIABLE", "inputParameters": {"a": 1}}
        loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "true", "loopOver": [step]}
        subs = [
            {"name": ref, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "tree"}}
            for ref in ("s1", "s2")
        ]
        fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[sub] for sub in subs]}
        join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
        api.post("/metadata/workflow", json={"name": "tree", "tasks": [fork, join]}).raise_for_status()
        asked = {"name": "tree"}
        if kind == "loop":
            asked = {"name": "inline", "workflowDef": {"name": "inline", "tasks": [loop]}}  # type: ignore[dict-item]
        answer = api.post("/workflow/test", json=asked)
        assert answer.status_code == 400
        assert "the test creates more than 1000 tasks" in answer.json()["message"]

    def test_a_dry_run_takes_the_time_that_its_mocks_say(self, api: httpx.Client) -> None:
        mock = {"output": {}, "queueWaitTime": 2000, "executionTime": 3000}
        (task,) = tried(api, taskRefToMockOutput={"t": [mock]})["tasks"]
        assert task["endTime"] - task["scheduledTime"] == 5000

    @pytest.mark.parametrize(
        ("asked", "why"),
        [
            ({"name": ""}, "must name the workflow"),
            ({"taskRefToMockOutput": {"t": [{"status": "DANCING"}]}}, "DANCING"),
            ({"taskRefToMockOutput": {"t": [{}] * 10_001}}, "at most 10000 mocks"),
            ({"workflowDef": {"tasks": []}}, ""),
        ],
    )
    def test_a_dry_run_that_cannot_run_is_refused(self, api: httpx.Client, asked: dict[str, Any], why: str) -> None:
        answer = api.post("/workflow/test", json={"name": "wf", **asked})
        assert answer.status_code == 400
        assert why in answer.text

    def test_a_dry_run_is_run_by_the_client(self, api: httpx.Client) -> None:
        with WorkflowClient(Configuration(str(api.base_url))) as client:
            mocks = {"t": [TaskMock(status="COMPLETED", output={"r": 1})]}
            found = client.test_workflow(WorkflowTestRequest(name="wf", task_ref_to_mock_output=mocks))
        assert (found.status, found.output) == ("COMPLETED", {"r": 1})


class TestUpkeep:
    def test_many_workflows_are_read_at_once(self, api: httpx.Client) -> None:
        workflow_id = api.post("/workflow/wf", json={}).text
        found = api.post("/workflow/bulk/search", json=[workflow_id, "nope"]).json()
        assert found["bulkErrorResults"] == {"nope": "No such workflow found by id: nope"}
        assert [one["workflowId"] for one in found["bulkSuccessfulResults"]] == [workflow_id]
        assert len(found["bulkSuccessfulResults"][0]["tasks"]) == 1
        without = api.post("/workflow/bulk/search?includeTasks=false", json=[workflow_id]).json()
        assert without["bulkSuccessfulResults"][0]["tasks"] == []

    def test_pending_tasks_configuration_and_another_look(self, api: httpx.Client) -> None:
        ids = [api.post("/workflow/wf", json={}).text for _ in range(3)]
        pending = api.get("/admin/task/t?start=1&count=5").json()
        assert [task["workflowInstanceId"] for task in pending] == ids[1:]
        assert api.get("/admin/task/none").json() == []
        assert api.get("/admin/config").json()["MAX_BODY_BYTES"] == 10 * 1024 * 1024
        assert api.post(f"/admin/sweep/requeue/{ids[0]}").text == f"true.{ids[0]}"
        assert api.post(f"/admin/consistency/verifyAndRepair/{ids[0]}").text == "false"
        for path in ("/admin/sweep/requeue/nope", "/admin/consistency/verifyAndRepair/nope"):
            assert api.post(path).status_code == 404

    def test_there_are_no_queues_of_other_systems(self, api: httpx.Client) -> None:
        for path in ("/queue/", "/queue/size", "/admin/queues", "/admin/queues?verbose=true"):
            assert api.get(path).json() == {}

    def test_a_waiting_task_is_ended_by_name_or_by_id(self, api: httpx.Client) -> None:
        wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT"}
        api.post("/metadata/workflow", json={"name": "waiter", "tasks": [wait]}).raise_for_status()
        first, second = (api.post("/workflow/waiter", json={}).text for _ in range(2))
        assert api.post(f"/queue/update/{first}/nope/COMPLETED", json={}).status_code == 404
        assert api.post(f"/queue/update/{first}/w/BOGUS", json={}).status_code == 400
        assert api.post(f"/queue/update/{first}/w/COMPLETED", json={"k": 1}).status_code == 200
        assert api.get(f"/workflow/{first}").json()["output"] == {"k": 1}
        task_id = api.get(f"/workflow/{second}").json()["tasks"][0]["taskId"]
        assert api.post(f"/queue/update/{first}/task/{task_id}/FAILED", json={}).status_code == 404
        assert api.post(f"/queue/update/{second}/task/{task_id}/FAILED", json={}).status_code == 200
        assert api.get(f"/workflow/{second}").json()["status"] == "FAILED"
