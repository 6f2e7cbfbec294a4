"""`/api/secrets` and `/api/environment` over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.secret_client import SecretClient
from conductor.coordinator import Coordinator
from conductor.coordinator.settings.environment import environment


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setenv("CONDUCTOR_SECRET_DBPASS", "s3cret-value")
    monkeypatch.setenv("CONDUCTOR_ENV_REGION", "eu-1")
    environment.cache_clear()
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        yield api
    environment.cache_clear()


def test_names_are_told_and_values_are_not(api: httpx.Client) -> None:
    assert api.get("/secrets").json() == ["DBPASS"]
    assert api.put("/secrets/NEW", content="text", headers={"content-type": "text/plain"}).status_code == 200
    assert api.put("/secrets/OTHER", json="as JSON").status_code == 200
    assert api.get("/secrets").json() == ["DBPASS", "NEW", "OTHER"]
    for name in ("DBPASS", "NEW"):
        answer = api.get(f"/secrets/{name}")
        assert answer.status_code == 403
        assert "sent only to workers" in answer.json()["message"]
        assert api.get(f"/secrets/{name}/exists").json() is True
    assert api.get("/secrets/NOPE/exists").json() is False
    assert api.delete("/secrets/NEW").status_code == 200
    assert api.get("/secrets").json() == ["DBPASS", "OTHER"]


def test_a_value_that_is_no_text_is_refused_without_being_shown(
    api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = api.put("/secrets/BAD", content=b"s3\xff", headers={"content-type": "text/plain"})
    assert answer.status_code == 400
    assert "s3" not in answer.text.replace("secret", "")
    assert "s3" not in caplog.text


def test_the_environment_is_as_conductor_answers(api: httpx.Client) -> None:
    assert api.get("/environment").json() == [{"name": "REGION", "value": "eu-1"}]
    found = api.get("/environment/REGION")
    assert (found.text, found.headers["content-type"]) == ("eu-1", "text/plain;charset=UTF-8")
    absent = api.get("/environment/NOPE")
    assert (absent.status_code, absent.content) == (200, b"")
    assert api.put("/environment/X", json="v").status_code == 405


def test_the_client_puts_lists_and_removes(api: httpx.Client) -> None:
    with SecretClient(Configuration(str(api.base_url))) as secrets:
        secrets.put_secret("TOKEN", "t0ken")
        assert secrets.list_all_secret_names() == {"DBPASS", "TOKEN"}
        assert secrets.secret_exists("TOKEN")
        secrets.delete_secret("TOKEN")
        assert not secrets.secret_exists("TOKEN")


def test_a_polled_task_brings_the_value_over_http(api: httpx.Client) -> None:
    task = {"name": "work", "taskReferenceName": "w", "inputParameters": {"p": "${workflow.secrets.DBPASS}"}}
    api.post("/metadata/workflow", json={"name": "wf", "tasks": [task]}).raise_for_status()
    workflow_id = api.post("/workflow/wf", json={}).text
    assert api.get("/tasks/poll/work").json()["inputData"] == {"p": "s3cret-value"}
    for path in (f"/workflow/{workflow_id}", "/tasks/search-v2", "/workflow/search-v2", "/metadata/workflow"):
        assert "s3cret-value" not in api.get(path).raise_for_status().text


PLACEHOLDER = "${workflow.secrets.DBPASS}"
#: A definition that asks for a secret in each possible way.
ASKING = {
    "name": "asking",
    "version": 1,
    "tasks": [
        {
            "name": "mail",
            "taskReferenceName": "mail",
            "inputParameters": {"whole": PLACEHOLDER, "inside": f"<{PLACEHOLDER}>"},
            "taskDefinition": {"name": "mail", "runtimeMetadata": ["DBPASS"]},
        }
    ],
}
ASKED = {"whole": PLACEHOLDER, "inside": f"<{PLACEHOLDER}>"}
RECEIVED = {"whole": "s3cret-value", "inside": "<s3cret-value>"}


def sub_workflow(definition: Any) -> dict[str, Any]:
    parameters = {"name": "asking", "workflowDefinition": definition}
    return {"name": "sub", "taskReferenceName": "sub", "type": "SUB_WORKFLOW", "subWorkflowParam": parameters}


def start_workflow(request: Any) -> dict[str, Any]:
    given = {"startWorkflow": request}
    return {"name": "go", "taskReferenceName": "go", "type": "START_WORKFLOW", "inputParameters": given}


FORK: list[dict[str, Any]] = [
    {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN_DYNAMIC",
        "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": "${workflow.input.tasks}", "inputs": {}},
    },
    {"name": "join", "taskReferenceName": "join", "type": "JOIN"},
]
EVENT = {
    "name": "tell",
    "taskReferenceName": "tell",
    "type": "EVENT",
    "sink": "conductor:told",
    "inputParameters": {"definition": "${workflow.input.definition}"},
}
HANDLER = {
    "name": "handler",
    "event": "conductor:outer:told",
    "active": True,
    "actions": [{"action": "start_workflow", "start_workflow": {"name": "asking", "workflowDef": "${definition}"}}],
}
REQUEST = {"name": "asking", "workflowDef": ASKING}
BY_REFERENCE = [sub_workflow("${workflow.input.definition}")]
#: How data can bring a definition: the tasks of a registered workflow, and the input of that workflow.
WAYS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "sub-workflow": (BY_REFERENCE, {"definition": ASKING}),
    "start": ([start_workflow("${workflow.input.request}")], {"request": REQUEST}),
    "part of a start": (
        [start_workflow({"name": "asking", "workflowDef": {"tasks": "${workflow.input.tasks}"}})],
        {"tasks": ASKING["tasks"]},
    ),
    "branch with a sub-workflow": (FORK, {"tasks": [sub_workflow(ASKING)]}),
    "branch with a start": (FORK, {"tasks": [start_workflow(REQUEST)]}),
    "event": ([EVENT], {"definition": ASKING}),
    "sub-workflow of data": (
        BY_REFERENCE,
        {"definition": {"name": "middle", "version": 1, "tasks": [sub_workflow(ASKING)]}},
    ),
    "start of data": (
        BY_REFERENCE,
        {"definition": {"name": "middle", "version": 1, "tasks": [start_workflow(REQUEST)]}},
    ),
}


def poll_mail(api: httpx.Client) -> dict[str, Any]:
    while not (tasks := api.get("/tasks/poll/batch/mail?timeout=5000").raise_for_status().json()):
        pass
    return dict(tasks[0])


def fail(api: httpx.Client, task: dict[str, Any]) -> None:
    ids = {name: task[name] for name in ("taskId", "workflowInstanceId", "leaseId")}
    api.post("/tasks", json={**ids, "status": "FAILED_WITH_TERMINAL_ERROR"}).raise_for_status()


@pytest.mark.parametrize("way", WAYS)
def test_a_definition_from_data_receives_no_secrets(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client or a worker that provides the definition could otherwise read every secret."""
    monkeypatch.setenv("CONDUCTOR_SECRET_DBPASS", "s3cret-value")
    tasks, given = WAYS[way]

    def check(api: httpx.Client) -> dict[str, Any]:
        task = poll_mail(api)
        assert task["inputData"] == ASKED
        assert "runtimeMetadata" not in task
        return task

    with Coordinator(tmp_path / "c.db") as coordinator, httpx.Client(base_url=coordinator.url, timeout=90) as api:
        api.post("/event", json=HANDLER).raise_for_status()
        api.post("/metadata/workflow", json={"name": "outer", "version": 1, "tasks": tasks}).raise_for_status()
        outer = api.post("/workflow/outer", json=given).text
        fail(api, check(api))
    with Coordinator(tmp_path / "c.db") as coordinator, httpx.Client(base_url=coordinator.url, timeout=90) as api:
        child = api.get("/workflow/search?query=workflowType=asking").json()["results"][0]["workflowId"]
        for action in (f"{child}/retry", f"{child}/restart", f"{child}/rerun", f"{outer}/restart"):
            api.post(f"/workflow/{action}", json={}).raise_for_status()
            fail(api, check(api))
        shown = api.get(f"/workflow/{child}").json()
        assert "fromData" not in json.dumps(shown)
        # A registered definition of this name receives its secrets.
        api.post("/metadata/workflow", json=ASKING).raise_for_status()
        api.post(f"/workflow/{child}/restart?useLatestDefinitions=true").raise_for_status()
        assert poll_mail(api)["inputData"] == RECEIVED


@pytest.mark.parametrize("task", [sub_workflow(ASKING), start_workflow(REQUEST)], ids=["sub-workflow", "start"])
def test_a_definition_inside_a_registered_one_receives_its_secrets(task: dict[str, Any], api: httpx.Client) -> None:
    api.post("/metadata/workflow", json={"name": "outer", "version": 1, "tasks": [task]}).raise_for_status()
    api.post("/workflow/outer", json={}).raise_for_status()
    polled = poll_mail(api)
    assert polled["inputData"] == RECEIVED
    assert polled["runtimeMetadata"] == {"DBPASS": "s3cret-value"}
    fail(api, polled)
    child = polled["workflowInstanceId"]
    api.post(f"/workflow/{child}/retry").raise_for_status()
    assert poll_mail(api)["inputData"] == RECEIVED
