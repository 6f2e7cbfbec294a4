"""The breadth of the API: what clients of tasks, workflows and metadata call, answered as the live server does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as found, httpx.Client(base_url=found.url) as client:
        client.post("/metadata/taskdefs", json=[{"name": name, "retryCount": 0} for name in ("a", "b")])
        flow = {
            "name": "flow",
            "tasks": [{"name": "a", "taskReferenceName": "r0"}, {"name": "b", "taskReferenceName": "r1"}],
        }
        assert client.post("/metadata/workflow", json=flow).status_code == 200
        yield client


def start(api: httpx.Client, **more: Any) -> str:
    answer = api.post("/workflow", json={"name": "flow", **more})
    assert answer.status_code == 200, answer.text
    return answer.text


def finish(api: httpx.Client, name: str, status: str = "COMPLETED") -> dict[str, Any]:
    task: dict[str, Any] = api.get(f"/tasks/poll/{name}").json()
    keys = ("taskId", "workflowInstanceId", "leaseId")
    body = {key: task[key] for key in keys} | {"status": status, "outputData": {"by": name}}
    assert api.post("/tasks", json=body).status_code == 200
    return task


def status(api: httpx.Client, workflow: str) -> str:
    return str(api.get(f"/workflow/{workflow}/status").json()["status"])


class TestActions:
    def test_a_workflow_is_paused_and_resumed(self, api: httpx.Client) -> None:
        workflow = start(api)
        assert api.put(f"/workflow/{workflow}/pause").status_code == 200
        finish(api, "a")
        assert api.get("/tasks/poll/b").status_code == 204
        assert api.put(f"/workflow/{workflow}/resume").status_code == 200
        finish(api, "b")
        assert status(api, workflow) == "COMPLETED"
        assert api.put(f"/workflow/{workflow}/pause").status_code == 409
        assert api.put(f"/workflow/{workflow}/resume").status_code == 400

    def test_a_workflow_is_terminated(self, api: httpx.Client) -> None:
        workflow = start(api)
        for _ in range(2):
            assert api.delete(f"/workflow/{workflow}", params={"reason": "why"}).status_code == 200
        assert api.get(f"/workflow/{workflow}").json()["reasonForIncompletion"] == "why"
        assert api.delete("/workflow/nope").status_code == 404

    def test_a_completed_workflow_is_not_terminated(self, api: httpx.Client) -> None:
        workflow = start(api)
        finish(api, "a")
        finish(api, "b")
        assert api.delete(f"/workflow/{workflow}").status_code == 409

    def test_a_workflow_is_retried(self, api: httpx.Client) -> None:
        workflow = start(api)
        assert api.post(f"/workflow/{workflow}/retry").status_code == 404
        finish(api, "a", "FAILED")
        assert status(api, workflow) == "FAILED"
        assert api.post(f"/workflow/{workflow}/retry").status_code == 204
        finish(api, "a")
        finish(api, "b")
        assert status(api, workflow) == "COMPLETED"

    def test_a_workflow_is_restarted(self, api: httpx.Client) -> None:
        workflow = start(api)
        assert api.post(f"/workflow/{workflow}/restart").status_code == 409
        finish(api, "a", "FAILED")
        assert api.post(f"/workflow/{workflow}/restart").status_code == 204
        assert [task["status"] for task in api.get(f"/workflow/{workflow}").json()["tasks"]] == ["SCHEDULED"]

    def test_restart_with_the_latest_definition(self, api: httpx.Client) -> None:
        workflow = start(api)
        finish(api, "a", "FAILED")
        newer = {"name": "flow", "version": 2, "tasks": [{"name": "b", "taskReferenceName": "only"}]}
        api.post("/metadata/workflow", json=newer)
        assert api.post(f"/workflow/{workflow}/restart", params={"useLatestDefinitions": "true"}).status_code == 204
        finish(api, "b")
        assert status(api, workflow) == "COMPLETED"

    def test_a_workflow_is_rerun_from_a_task(self, api: httpx.Client) -> None:
        workflow = start(api)
        finish(api, "a")
        second = finish(api, "b", "FAILED")
        answer = api.post(f"/workflow/{workflow}/rerun", json={"reRunFromTaskId": second["taskId"]})
        assert (answer.status_code, answer.text) == (200, workflow)
        finish(api, "b")
        assert status(api, workflow) == "COMPLETED"
        assert api.post(f"/workflow/{workflow}/rerun", json={"reRunFromTaskId": "nope"}).status_code == 400

    def test_a_task_is_skipped(self, api: httpx.Client) -> None:
        workflow = start(api)
        assert api.put(f"/workflow/{workflow}/skiptask/r0").status_code == 400
        assert api.put(f"/workflow/{workflow}/skiptask/r1").status_code == 200
        finish(api, "a")
        assert status(api, workflow) == "COMPLETED"

    def test_callbacks_are_reset(self, api: httpx.Client) -> None:
        workflow = start(api)
        task = api.get("/tasks/poll/a").json()
        back = {"taskId": task["taskId"], "workflowInstanceId": workflow, "status": "IN_PROGRESS"}
        api.post("/tasks", json={**back, "callbackAfterSeconds": 3600})
        assert api.get("/tasks/poll/a").status_code == 204
        assert api.post(f"/workflow/{workflow}/resetcallbacks").status_code == 204
        assert api.get("/tasks/poll/a").json()["taskId"] == task["taskId"]

    def test_a_workflow_is_removed(self, api: httpx.Client) -> None:
        workflow = start(api)
        assert api.delete(f"/workflow/{workflow}/remove").status_code == 400
        assert api.delete(f"/workflow/{workflow}/terminate-remove").status_code == 200
        assert api.get(f"/workflow/{workflow}").status_code == 404
        assert api.get("/tasks/poll/a").status_code == 204

    def test_many_workflows_are_changed_in_one_request(self, api: httpx.Client) -> None:
        workflow = start(api)
        answer = api.post("/workflow/bulk/terminate", json=[workflow, "nope"]).json()
        assert answer["bulkSuccessfulResults"] == [workflow]
        assert answer["bulkErrorResults"] == {"nope": "No such workflow found by id: nope"}
        assert api.put("/workflow/bulk/pause", json=["x"] * 1001).status_code == 400

    def test_decide_is_accepted(self, api: httpx.Client) -> None:
        assert api.put(f"/workflow/decide/{start(api)}").status_code == 200


class TestByReference:
    def test_a_task_is_updated_by_its_reference_name(self, api: httpx.Client) -> None:
        workflow = start(api)
        answer = api.post(f"/tasks/{workflow}/r0/IN_PROGRESS", json={"a": 1})
        task_id = answer.text
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain;charset=UTF-8")
        assert api.post(f"/tasks/{workflow}/r0/COMPLETED", json={"b": 2}).text == task_id
        assert api.get(f"/tasks/{task_id}").json()["outputData"] == {"a": 1, "b": 2}

    def test_an_update_by_reference_that_matches_nothing_is_a_404(self, api: httpx.Client) -> None:
        answer = api.post("/tasks/nope/r0/COMPLETED", json={})
        assert (answer.status_code, answer.content) == (200, b"")
        assert api.post("/tasks/nope/r0/COMPLETED/sync", json={}).status_code == 404
        assert api.post("/tasks/nope/r0/DONE", json={}).status_code == 400

    def test_a_synchronous_update_answers_the_workflow(self, api: httpx.Client) -> None:
        workflow = start(api)
        api.post(f"/tasks/{workflow}/r0/COMPLETED", json={})
        assert api.post(f"/tasks/{workflow}/r1/COMPLETED/sync", json={}).json()["status"] == "COMPLETED"


def task(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": name, **more}


def wait(name: str, **given: Any) -> dict[str, Any]:
    return task(name, type="WAIT", inputParameters=given)


def start_tasks(api: httpx.Client, *tasks: dict[str, Any], name: str = "inline") -> str:
    return start(api, workflowDef={"name": name, "tasks": tasks})


def sub_workflow(*tasks: dict[str, Any]) -> dict[str, Any]:
    child = {"name": "child", "version": 1, "workflowDefinition": {"name": "child", "tasks": tasks}}
    return task("sub", type="SUB_WORKFLOW", subWorkflowParam=child)


def finish_soon(api: httpx.Client, name: str) -> None:
    """Work on a task as soon as there is one."""
    while (answer := api.get(f"/tasks/poll/{name}")).status_code == 204:
        pass
    found = answer.json()
    body = {key: found[key] for key in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "COMPLETED"}
    assert api.post("/tasks", json=body).status_code == 200


class TestSignals:
    def test_a_signal_completes_a_wait(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, wait("w"))
        assert api.post(f"/tasks/{workflow}/COMPLETED/signal", json={"x": 1}).status_code == 200
        found = api.get(f"/workflow/{workflow}").json()
        assert (found["status"], found["output"]) == ("COMPLETED", {"x": 1})
        assert api.post("/tasks/nope/COMPLETED/signal", json={}).status_code == 404
        assert api.post(f"/tasks/{workflow}/COMPLETED/signal", json={}).status_code == 200

    def test_sync_answers_at_the_next_wait_and_at_the_end(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, wait("w1"), wait("w2"))
        answers = [api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={"n": n}).json() for n in range(2)]
        assert [answer["targetWorkflowStatus"] for answer in answers] == ["RUNNING", "COMPLETED"]
        assert [answer["signalTimeout"] for answer in answers] == [False, False]
        assert [one["status"] for one in answers[0]["tasks"]] == ["COMPLETED", "IN_PROGRESS"]
        assert (answers[1]["targetWorkflowId"], answers[1]["output"]) == (workflow, {"n": 1})

    def test_sync_without_an_open_wait_is_a_404(self, api: httpx.Client) -> None:
        workflow = start(api)
        answer = api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={})
        message = f"Found no blocked task in workflow {workflow} to signal"
        assert (answer.status_code, answer.json()["message"]) == (404, message)
        assert api.post("/tasks/nope/COMPLETED/signal/sync", json={}).status_code == 404

    def test_sync_answers_when_the_time_is_over(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, wait("w"), task("a"))
        answer = api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={}, params={"timeoutMillis": 0}).json()
        assert (answer["targetWorkflowStatus"], answer["signalTimeout"]) == ("RUNNING", True)

    def test_a_wait_with_a_duration_can_be_signalled_but_is_not_stopped_at(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, wait("w1", duration="1h"), wait("w2", duration="1h"))
        url, brief = f"/tasks/{workflow}/COMPLETED/signal/sync", {"timeoutMillis": 0}
        assert api.post(url, json={}, params=brief).json()["signalTimeout"]
        assert api.post(url, json={}, params=brief).json()["targetWorkflowStatus"] == "COMPLETED"

    def test_a_signal_reaches_the_wait_of_a_sub_workflow(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, sub_workflow(wait("w1"), wait("w2"), wait("w3")))
        assert api.post(f"/tasks/{workflow}/COMPLETED/signal", json={}).status_code == 200
        asked = {"returnStrategy": "BLOCKING_WORKFLOW"}
        answer = api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={}, params=asked).json()
        assert (answer["targetWorkflowId"], answer["workflowName"]) == (workflow, "child")
        assert [one["status"] for one in answer["tasks"]] == ["COMPLETED", "COMPLETED", "IN_PROGRESS"]

    def test_a_move_of_the_sub_workflow_is_noticed(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, sub_workflow(wait("w1"), task("a"), wait("w2")))
        url, patient = f"/tasks/{workflow}/COMPLETED/signal/sync", {"timeoutMillis": 30_000}
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(api.post, url, json={}, params=patient, timeout=60)
            finish_soon(api, "a")
            assert waiting.result().json()["signalTimeout"] is False

    def test_two_can_wait_for_one_workflow(self, api: httpx.Client) -> None:
        branches = [[wait("w1", duration="1h")], [wait("w2", duration="1h")]]
        fork = task("fork", type="FORK_JOIN", forkTasks=branches)
        workflow = start_tasks(api, fork, task("join", type="JOIN", joinOn=["w1", "w2"]), task("a"))
        url, patient = f"/tasks/{workflow}/COMPLETED/signal/sync", {"timeoutMillis": 30_000}
        with ThreadPoolExecutor() as threads:
            waiting = [threads.submit(api.post, url, json={}, params=patient, timeout=60) for _ in range(2)]
            finish_soon(api, "a")
            answers = [one.result().json() for one in waiting]
        assert [(one["targetWorkflowStatus"], one["signalTimeout"]) for one in answers] == [("COMPLETED", False)] * 2

    @pytest.mark.parametrize("strategy", ["BLOCKING_TASK", "BLOCKING_TASK_INPUT"])
    def test_the_answer_can_be_the_task_that_blocks(self, api: httpx.Client, strategy: str) -> None:
        workflow = start_tasks(api, wait("w1"), wait("w2", x=3))
        asked = {"returnStrategy": strategy}
        answer = api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={}, params=asked).json()
        assert (answer["responseType"], answer["targetWorkflowId"], answer["workflowId"]) == (
            strategy,
            workflow,
            workflow,
        )
        assert (answer["referenceTaskName"], answer["taskType"], answer["input"]) == ("w2", "WAIT", {"x": 3})
        # Nothing blocks any more: the answer says that it is the workflow.
        answer = api.post(f"/tasks/{workflow}/COMPLETED/signal/sync", json={}, params=asked).json()
        assert (answer["responseType"], answer["status"]) == ("TARGET_WORKFLOW", "COMPLETED")

    def test_an_unknown_return_strategy_changes_nothing(self, api: httpx.Client) -> None:
        workflow = start_tasks(api, wait("w"))
        url = f"/tasks/{workflow}/COMPLETED/signal/sync"
        assert api.post(url, json={}, params={"returnStrategy": "x"}).status_code == 400
        assert status(api, workflow) == "RUNNING"


class TestReading:
    def test_workflows_and_tasks_are_searched(self, api: httpx.Client) -> None:
        ids = [start(api, correlationId=f"c{n}") for n in range(3)]
        found = api.get(
            "/workflow/search", params={"query": "workflowType = 'flow' AND status IN (RUNNING,FAILED)"}
        ).json()
        assert found["totalHits"] == 3
        assert {one["workflowId"] for one in found["results"]} == set(ids)
        page = api.get("/workflow/search", params={"size": 1, "start": 1, "sort": "startTime:ASC"}).json()
        assert (page["totalHits"], len(page["results"])) == (3, 1)
        assert api.get("/workflow/search", params={"query": "correlationId=c1"}).json()["totalHits"] == 1
        assert api.get("/workflow/search", params={"freeText": ids[0]}).json()["totalHits"] == 1
        assert api.get("/workflow/search-v2", params={"query": "startTime > 0"}).json()["results"][0]["tasks"]
        assert api.get("/workflow/search-by-tasks", params={"query": "taskType=a"}).json()["totalHits"] == 3
        assert (
            api.get("/tasks/search", params={"query": f"workflowId={ids[0]}"}).json()["results"][0]["taskType"] == "a"
        )
        assert api.get("/tasks/search-v2").json()["results"][0]["inputData"] == {}

    def test_whole_workflows_are_found_by_their_tasks(self, api: httpx.Client) -> None:
        ids = {start(api) for _ in range(2)}
        found = api.get("/workflow/search-by-tasks-v2", params={"query": "taskType=a"}).json()
        assert (found["totalHits"], {one["workflowId"] for one in found["results"]}) == (2, ids)
        assert [task["referenceTaskName"] for task in found["results"][0]["tasks"]] == ["r0"]
        assert api.get("/workflow/search-by-tasks-v2", params={"query": "taskType=b"}).json()["results"] == []

    @pytest.mark.parametrize("asked", ["workflow/search", "workflow/search-by-tasks-v2", "tasks/search"])
    def test_a_hostile_query_is_a_400(self, api: httpx.Client, asked: str) -> None:
        queries = ("status=" + " " * 5000 + "x\ny", " AND ".join(["status=A"] * 700), " AND ".join(["status=A"] * 2000))
        for query in queries:
            assert api.get(f"/{asked}", params={"query": query}).status_code == 400

    def test_an_answer_has_a_bound(self, api: httpx.Client) -> None:
        for _ in range(3):
            start(api, input={"text": "x" * 4_000_000})
        for asked in ("workflow/search", "workflow/search-v2", "workflow/search-by-tasks"):
            answer = api.get(f"/{asked}")
            assert answer.status_code == 400
            assert answer.json()["message"].endswith("ask for fewer at a time: size=2")
            found = api.get(f"/{asked}", params={"size": 2}).json()
            assert (found["totalHits"], len(found["results"])) == (3, 2)

    @pytest.mark.parametrize(
        "query", ["foo bar baz", "nothing = 1", "startTime > soon", "status = 'x'; DROP TABLE task"]
    )
    def test_a_bad_search_is_a_400(self, api: httpx.Client, query: str) -> None:
        answer = api.get("/workflow/search", params={"query": query})
        assert answer.status_code == 400 or answer.json()["totalHits"] == 0
        assert api.get("/workflow/search", params={"size": 5001}).status_code == 400
        assert api.get("/tasks/search").status_code == 200

    def test_running_and_correlated_workflows_are_listed(self, api: httpx.Client) -> None:
        workflow = start(api, correlationId="c1")
        assert api.get("/workflow/running/flow").json() == [workflow]
        assert [one["workflowId"] for one in api.get("/workflow/flow/correlated/c1").json()] == [workflow]
        assert list(api.post("/workflow/flow/correlated", json=["c1", "c2"]).json()) == ["c1", "c2"]
        api.delete(f"/workflow/{workflow}")
        assert api.get("/workflow/flow/correlated/c1").json() == []
        assert len(api.get("/workflow/flow/correlated/c1", params={"includeClosed": "true"}).json()) == 1

    def test_tasks_of_a_workflow(self, api: httpx.Client) -> None:
        workflow = start(api)
        finish(api, "a")
        assert api.get(f"/workflow/{workflow}/tasks").json()["totalHits"] == 2
        scheduled = api.get(f"/workflow/{workflow}/tasks", params={"status": "SCHEDULED"}).json()
        assert [task["referenceTaskName"] for task in scheduled["results"]] == ["r1"]

    def test_the_sizes_of_queues_are_listed(self, api: httpx.Client) -> None:
        start(api)
        start(api, taskToDomain={"a": "blue"})
        assert api.get("/tasks/queue/size", params={"taskType": "a"}).json() == 1
        assert api.get("/tasks/queue/sizes", params={"taskType": ["a", "zz"]}).json() == {"a": 1, "zz": 0}
        assert api.get("/tasks/queue/all").json() == {"a": 1, "blue:a": 1}
        assert api.get("/tasks/queue/all/verbose").json()["a"] == {"a": {"size": 1, "uacked": 0}}
        api.get("/tasks/poll/a", params={"workerid": "w1"})
        (last,) = api.get("/tasks/queue/polldata", params={"taskType": "a"}).json()
        assert (last["queueName"], last["workerId"]) == ("a", "w1")
        assert api.post("/tasks/queue/requeue/a").text == "2"


class TestMetadata:
    def test_versions_of_a_definition_are_listed(self, api: httpx.Client) -> None:
        second = {"name": "flow", "version": 2, "tasks": [{"name": "a", "taskReferenceName": "r0"}]}
        assert api.put("/metadata/workflow", json=[second]).json()["bulkSuccessfulResults"] == ["flow"]
        assert api.get("/metadata/workflow/flow").json()["version"] == 2
        assert api.get("/metadata/workflow/flow", params={"version": 1}).json()["version"] == 1
        assert api.get("/metadata/workflow/flow", params={"version": 9}).status_code == 404
        assert api.get("/metadata/workflow/names").json() == ["flow"]
        assert len(api.get("/metadata/workflow/names-and-versions").json()["flow"]) == 2
        assert [one["version"] for one in api.get("/metadata/workflow/latest-versions").json()] == [2]
        assert [one["version"] for one in api.get("/metadata/workflow/flow/versions").json()] == [1, 2]

    def test_schemas_are_saved_read_and_removed(self, api: httpx.Client) -> None:
        schema = {"name": "a_input", "version": 1, "type": "JSON", "data": {"type": "object"}}
        assert api.post("/schema", json=schema).status_code == 200
        assert api.post("/schema", json=[{**schema, "version": 2}]).status_code == 200
        assert api.get("/schema/a_input/1").json() == schema
        assert api.get("/schema/a_input").json()["version"] == 2
        assert len(api.get("/schema").json()) == 2
        assert api.delete("/schema/a_input/1").status_code == 200
        assert api.get("/schema/a_input/1").status_code == 404
        assert api.post("/schema", json={"version": 1}).status_code == 400

    def test_a_running_workflow_keeps_its_definitions(self, api: httpx.Client) -> None:
        start(api)
        api.post("/metadata/taskdefs", json=[{"name": "a", "responseTimeoutSeconds": 7}])
        assert api.get("/tasks/poll/a").json()["responseTimeoutSeconds"] == 3600
        start(api)
        assert api.get("/tasks/poll/a").json()["responseTimeoutSeconds"] == 7


class TestExecute:
    def test_executing_a_workflow_answers_when_the_workflow_has_ended(self, api: httpx.Client) -> None:
        flow = {
            "name": "at_once",
            "tasks": [
                {
                    "name": "s",
                    "taskReferenceName": "s",
                    "type": "SET_VARIABLE",
                    "inputParameters": {"x": "${workflow.input.x}"},
                }
            ],
            "outputParameters": {"x": "${workflow.variables.x}"},
        }
        api.post("/metadata/workflow", json=flow)
        found = api.post("/workflow/execute/at_once/1", json={"name": "at_once", "input": {"x": 3}}).json()
        assert (found["targetWorkflowStatus"], found["output"], found["signalTimeout"]) == (
            "COMPLETED",
            {"x": 3},
            False,
        )

    def test_executing_a_workflow_answers_when_the_time_is_over(self, api: httpx.Client) -> None:
        found = api.post("/workflow/execute/flow/0", json={"name": "flow"}, params={"waitForSeconds": 0}).json()
        assert (found["targetWorkflowStatus"], found["signalTimeout"]) == ("RUNNING", True)
        assert api.post("/workflow/execute/flow/x", json={}).status_code == 400

    def test_executing_a_workflow_answers_when_only_a_signal_helps(self, api: httpx.Client) -> None:
        api.post("/metadata/workflow", json={"name": "signalled", "tasks": [wait("w")]})
        asked: dict[str, Any] = {"waitForSeconds": 30, "returnStrategy": "BLOCKING_TASK"}
        found = api.post("/workflow/execute/signalled/1", json={}, params=asked, timeout=60).json()
        assert (found["responseType"], found["referenceTaskName"], found["signalTimeout"]) == (
            "BLOCKING_TASK",
            "w",
            False,
        )


class TestSchemaEnforcement:
    def test_an_input_that_its_schema_refuses_fails_the_task_when_it_is_scheduled(self, api: httpx.Client) -> None:
        schema = {"name": "a_input", "version": 1, "type": "JSON"}
        data = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        api.post("/schema", json={**schema, "data": data})
        api.post("/metadata/taskdefs", json=[{"name": "a", "inputSchema": schema, "enforceSchema": True}])
        flow = {
            "name": "typed",
            "tasks": [{"name": "a", "taskReferenceName": "r", "inputParameters": {"n": "${workflow.input.n}"}}],
        }
        bad = start(api, workflowDef=flow, input={"n": "many"})
        found = api.get(f"/workflow/{bad}").json()
        assert (found["status"], found["tasks"][0]["status"]) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
        assert 'n: "many" is not of type "integer"' in found["tasks"][0]["reasonForIncompletion"]
        good = start(api, workflowDef=flow, input={"n": 5})
        finish(api, "a")
        assert status(api, good) == "COMPLETED"

    def test_null_passes_where_a_workers_schema_says_nullable(self, api: httpx.Client) -> None:
        data = {"type": "object", "properties": {"n": {"type": "integer", "nullable": True}}}
        schema = {"name": "b_input", "version": 1, "type": "JSON", "data": data}
        api.post("/metadata/taskdefs", json=[{"name": "b", "inputSchema": schema, "enforceSchema": True}])
        task = {"name": "b", "taskReferenceName": "r", "inputParameters": {"n": "${workflow.input.n}"}}
        flow = {"name": "nullable", "tasks": [task]}
        assert status(api, start(api, workflowDef=flow, input={"n": None})) == "RUNNING"
        assert status(api, start(api, workflowDef=flow, input={"n": "many"})) == "FAILED"

    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            ({"pattern": "("}, 'is not a "regex"'),
            ({"$ref": "http://127.0.0.1:9/schema.json"}, "refers to 'http://127.0.0.1:9/schema.json', which is not"),
            ({"allOf": [{"$ref": "#/properties/a"}]}, "refers to itself"),
        ],
    )
    def test_a_schema_that_cannot_be_used_is_not_registered_and_elsewhere_a_warning(
        self, api: httpx.Client, schema: dict[str, Any], said: str
    ) -> None:
        named = {"name": "x", "type": "JSON", "data": {"type": "object", "properties": {"a": schema}}}
        task_def = {"name": "a", "inputSchema": named, "enforceSchema": True}
        task = {"name": "a", "taskReferenceName": "r"}
        refused = api.post("/schema", json=named)
        assert refused.status_code == 400
        assert said in refused.json()["validationErrors"][0]["message"]
        for path, body in (
            ("/metadata/taskdefs", [task_def]),
            ("/metadata/workflow", {"name": "w", "tasks": [task], "inputSchema": named}),
            ("/metadata/workflow", {"name": "w", "tasks": [{**task, "taskDefinition": task_def}]}),
        ):
            answer = api.post(path, params={"overwrite": "true"}, json=body)
            assert answer.status_code == 200, path
            assert said in answer.headers["conductor-warning"]
        unused = {"name": "a", "inputSchema": named, "enforceSchema": False}
        answer = api.post("/metadata/taskdefs", json=[unused])
        assert answer.status_code == 200
        assert "conductor-warning" not in answer.headers

    def test_a_pattern_that_doubles_elsewhere_is_checked(self, api: httpx.Client) -> None:
        data = {"properties": {"a": {"pattern": "^(a+)+$"}}}
        task_def = {"name": "a", "inputSchema": {"name": "x", "type": "JSON", "data": data}, "enforceSchema": True}
        api.post("/metadata/taskdefs", json=[task_def])
        task = {"name": "a", "taskReferenceName": "r", "inputParameters": {"a": "${workflow.input.a}"}}
        workflow = start(api, workflowDef={"name": "odd", "tasks": [task]}, input={"a": "a" * 3000 + "!"})
        assert "does not match" in api.get(f"/workflow/{workflow}").json()["reasonForIncompletion"]


def test_api_docs_name_every_route(api: httpx.Client) -> None:
    docs = httpx.get(str(api.base_url).removesuffix("/api/") + "/api-docs").json()
    assert docs["openapi"].startswith("3.")
    assert "post" in docs["paths"]["/api/tasks/reports"]
    assert len(docs["paths"]) > 60
