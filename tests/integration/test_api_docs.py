"""The OpenAPI document is complete enough for a client, and the answers of the routes match it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.http.api_docs import make_api_docs
from conductor.coordinator.http.documented_answers import ANSWERS, NoBody, PlainText
from conductor.coordinator.http.routes import ROUTES

DOCUMENT = make_api_docs(ROUTES)
OPERATIONS = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        yield api


class Checked:
    """A client that holds every answer against the document."""

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self.seen: set[str] = set()

    def ask(self, method: str, template: str, query: str = "", body: Any = None, **named: str) -> httpx.Response:
        path = template.removeprefix("/api").format(**named)
        answer = self._api.request(method, path + query, json=body)
        responses = DOCUMENT["paths"][template][method.lower()]["responses"]
        said = responses.get(str(answer.status_code)) or responses[f"{answer.status_code // 100}XX"]
        content = said.get("content", {})
        if "application/json" in content:
            schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
            wrong = [str(error) for error in jsonschema_rs.validator_for(schema).iter_errors(answer.json())]
            assert wrong == [], f"{method} {path}: {wrong[:3]}"
        elif "text/plain" in content:
            assert answer.headers["content-type"].startswith("text/plain")
        else:
            assert answer.content == b"", f"{method} {path}"
        self.seen.add(f"{method} {template}")
        return answer


def test_every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() -> None:
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert named <= set(DOCUMENT["components"]["schemas"])
    names = [operation["operationId"] for operation in OPERATIONS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[A-Za-z0-9]+", name) for name in names)


def test_every_answer_that_is_described_belongs_to_a_route() -> None:
    assert set(ANSWERS) <= {f"{route.method} {route.path}" for route in ROUTES}


def test_every_route_that_takes_a_body_says_which() -> None:
    bare = [
        f"{route.method} {route.path}"
        for route in ROUTES
        if route.method in ("POST", "PUT") and route.body is None and not route.text_body
    ]
    without = {"poll/batch", "pause", "resume", "retry", "restart", "resetcallbacks", "requeue", "decide", "signal"}
    without |= {"/log", "/secrets", "verifyAndRepair", "vacuum"}
    assert [path for path in bare if not any(word in path for word in without)] == []


def test_the_answers_are_as_described(api: httpx.Client) -> None:
    checked = Checked(api)
    task = {"name": "work", "taskReferenceName": "w", "type": "SIMPLE", "inputParameters": {"a": "${workflow.input.a}"}}
    wait = {"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}
    flow = {"name": "wf", "tasks": [task, wait], "inputParameters": ["a"], "ownerEmail": "a@example.com"}
    checked.ask("POST", "/api/metadata/taskdefs", body=[{"name": "work", "retryDelaySeconds": 0}])
    checked.ask("GET", "/api/metadata/taskdefs/{name}", name="work")
    checked.ask("GET", "/api/metadata/taskdefs/{name}", name="nope")
    checked.ask("GET", "/api/metadata/taskdefs")
    checked.ask("POST", "/api/metadata/workflow", body=flow)
    checked.ask("POST", "/api/metadata/workflow", body={"name": "bad"})
    checked.ask("PUT", "/api/metadata/workflow", body=[flow])
    for path in ("", "/names", "/names-and-versions", "/latest-versions"):
        checked.ask("GET", f"/api/metadata/workflow{path}")
    checked.ask("GET", "/api/metadata/workflow/{name}", name="wf")
    checked.ask("GET", "/api/metadata/workflow/{name}/versions", name="wf")
    first = checked.ask("POST", "/api/workflow", body={"name": "wf", "input": {"a": 1}, "correlationId": "c"}).text
    second = checked.ask("POST", "/api/workflow/{name}", body={}, name="wf").text
    polled = checked.ask("GET", "/api/tasks/poll/{type}", type="work").json()
    checked.ask("GET", "/api/tasks/poll/batch/{type}", type="work")
    checked.ask("GET", "/api/tasks/poll/{type}", type="none")
    checked.ask("POST", "/api/tasks/{taskId}/log", body="line", taskId=polled["taskId"])
    checked.ask("GET", "/api/tasks/{taskId}/log", taskId=polled["taskId"])
    checked.ask("GET", "/api/tasks/{taskId}", taskId=polled["taskId"])
    report = {"taskId": polled["taskId"], "workflowInstanceId": first, "status": "COMPLETED", "outputData": {"x": 1}}
    checked.ask("POST", "/api/tasks", body=report)
    checked.ask("POST", "/api/tasks/update-v2", body=report)
    checked.ask("POST", "/api/tasks/reports", body=[report])
    for path in ("/sizes?taskType=work", "/all", "/all/verbose", "/polldata/all"):
        base, _, query = path.partition("?")
        checked.ask("GET", f"/api/tasks/queue{base}", query and f"?{query}")
    checked.ask("GET", "/api/tasks/queue/size", "?taskType=work")
    checked.ask("GET", "/api/tasks/queue/polldata", "?taskType=work")
    checked.ask("POST", "/api/tasks/queue/requeue/{type}", type="work")
    for query in ("", "?includeTasks=false"):
        checked.ask("GET", "/api/workflow/{id}", query, id=first)
    checked.ask("GET", "/api/workflow/{id}/status", "?includeOutput=true&includeVariables=true", id=first)
    checked.ask("GET", "/api/workflow/{id}/tasks", id=first)
    checked.ask("GET", "/api/workflow/running/{name}", name="wf")
    checked.ask("GET", "/api/workflow/{name}/correlated/{correlationId}", name="wf", correlationId="c")
    checked.ask("POST", "/api/workflow/{name}/correlated", body=["c"], name="wf")
    for path in ("", "-v2", "-by-tasks", "-by-tasks-v2"):
        checked.ask("GET", f"/api/workflow/search{path}")
    for path in ("", "-v2"):
        checked.ask("GET", f"/api/tasks/search{path}")
    checked.ask("POST", "/api/workflow/test", body={"name": "wf"})
    checked.ask("POST", "/api/workflow/execute/{name}/{version}", "?waitForSeconds=0", body={}, name="wf", version="1")
    checked.ask("POST", "/api/workflow/bulk/search", body=[first, "nope"])
    checked.ask("PUT", "/api/workflow/bulk/pause", body=[first, "nope"])
    checked.ask("PUT", "/api/workflow/bulk/resume", body=[first])
    checked.ask("DELETE", "/api/workflow/{id}", id=second)
    checked.ask("POST", "/api/workflow/{id}/restart", id=second)
    checked.ask(
        "POST", "/api/tasks/{workflowId}/{ref}/{status}/sync", body={}, workflowId=first, ref="wait", status="COMPLETED"
    )
    schedule = {"name": "s", "cronExpression": "0 0 0 1 1 *", "startWorkflowRequest": {"name": "wf"}}
    checked.ask("POST", "/api/scheduler/schedules", body=schedule)
    checked.ask("POST", "/api/scheduler/schedules", body={**schedule, "cronExpression": "bad"})
    checked.ask("GET", "/api/scheduler/schedules/{name}", name="s")
    for path in ("/schedules", "/schedules/search", "/search/executions", "/admin/pause", "/admin/resume"):
        checked.ask("GET", f"/api/scheduler{path}")
    checked.ask("GET", "/api/scheduler/admin/requeue")
    checked.ask("GET", "/api/scheduler/nextFewSchedules", "?cronExpression=@daily")
    checked.ask("PUT", "/api/scheduler/bulk/pause", body=["s"])
    handler = {"name": "h", "event": "conductor:a:b", "actions": [{"action": "start_workflow"}], "active": True}
    handler["actions"] = [{"action": "start_workflow", "start_workflow": {"name": "wf"}}]
    checked.ask("POST", "/api/event", body=handler)
    checked.ask("GET", "/api/event")
    checked.ask("GET", "/api/event/{event}", event="conductor:a:b")
    for path in ("/secrets", "/environment", "/admin/config", "/admin/queues", "/queue/", "/queue/size", "/version"):
        checked.ask("GET", f"/api{path}")
    checked.ask("GET", "/api/admin/task/{type}", type="work")
    described = {key for key, answer in ANSWERS.items() if answer not in (PlainText, NoBody)}
    assert len(checked.seen & described) > 50
