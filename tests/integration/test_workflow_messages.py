"""Messages to workflows and their variables over HTTP, with the clients, the command line and other processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ApiException, NotFoundException
from conductor.client.workflow_client import WorkflowClient
from conductor.coordinator import Coordinator

PULL = {"name": "pull", "taskReferenceName": "pull", "type": "PULL_WORKFLOW_MESSAGES"}


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Coordinator]:
    with Coordinator() as found:
        yield found


@pytest.fixture(scope="module")
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url, timeout=30) as found:
        yield found


def start(api: httpx.Client, *tasks: dict[str, Any], **fields: Any) -> str:
    definition = {"name": "flow", "tasks": list(tasks), **fields}
    answer = api.post("/workflow", json={"name": "flow", "workflowDef": definition})
    assert answer.status_code == 200, answer.text
    return answer.text


def workflow(api: httpx.Client, workflow_id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/workflow/{workflow_id}").json()
    return found


def test_the_answers_of_the_route(api: httpx.Client) -> None:
    workflow_id = start(api, PULL, {**PULL, "taskReferenceName": "second"})
    sent = api.post(f"/workflow/{workflow_id}/messages", json={"a": [1, None, "é"]})
    assert (sent.status_code, sent.headers["content-type"]) == (200, "text/plain;charset=UTF-8")
    (message,) = workflow(api, workflow_id)["tasks"][0]["outputData"]["messages"]
    assert message == {
        "id": sent.text,
        "workflowId": workflow_id,
        "payload": {"a": [1, None, "é"]},
        "receivedAt": message["receivedAt"],
    }
    unknown = api.post("/workflow/nope/messages", json={})
    assert (unknown.status_code, unknown.json()["message"]) == (404, "Workflow not found: nope")
    for body in ("[1]", '"text"', "1", "null", "{", ""):
        answer = api.post(f"/workflow/{workflow_id}/messages", content=body)
        assert 400 <= answer.status_code <= 500, (body, answer.text)
    too_large = api.post(f"/workflow/{workflow_id}/messages", json={"x": "y" * 2**20})
    assert too_large.status_code == 413
    api.post(f"/workflow/{workflow_id}/messages", json={})
    over = api.post(f"/workflow/{workflow_id}/messages", json={})
    assert over.status_code == 409
    assert f"Workflow {workflow_id} is not in RUNNING state (current: COMPLETED)" in over.json()["message"]


def test_many_senders_and_many_takers_exchange_each_message_once(api: httpx.Client) -> None:
    branches = [[{**PULL, "taskReferenceName": f"pull{number}"}] for number in range(40)]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": []}
    workflow_id = start(api, fork, join)
    with ThreadPoolExecutor(8) as pool:
        send = lambda number: api.post(f"/workflow/{workflow_id}/messages", json={"n": number}).status_code  # noqa: E731
        assert set(pool.map(send, range(40))) == {200}
    found = workflow(api, workflow_id)
    assert found["status"] == "COMPLETED"
    taken = [
        message["payload"]["n"]
        for task in found["tasks"]
        if task["taskType"] == PULL["type"]
        for message in task["outputData"]["messages"]
    ]
    assert sorted(taken) == list(range(40))


def test_the_client_the_command_line_and_the_reason_of_the_wait(
    api: httpx.Client, coordinator: Coordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow_id = start(api, PULL, {**PULL, "taskReferenceName": "second"})
    waiting = api.get(f"/view/workflow/{workflow_id}").json()["waiting"]["sentence"]
    assert waiting == "pull waits for a message to the workflow"
    with WorkflowClient(Configuration(server_api_url=coordinator.url)) as client:
        first = client.send_message(workflow_id, {"n": 1})
        with pytest.raises(NotFoundException, match="Workflow not found: nope"):
            client.send_message("nope", {})
        url = ["--url", coordinator.url]
        assert run_command(["workflow", "send", workflow_id, "--message", '{"n": 2}', "--json", *url]) == 0
        (result,) = json.loads(capsys.readouterr().out)
        messages = [task["outputData"]["messages"][0] for task in workflow(api, workflow_id)["tasks"]]
        assert [message["payload"] for message in messages] == [{"n": 1}, {"n": 2}]
        assert [message["id"] for message in messages] == [first, result["messageId"]]
        with pytest.raises(ApiException, match="not in RUNNING state"):
            client.send_message(workflow_id, {})
        assert run_command(["workflow", "send", workflow_id, "--message", "{}", *url]) == 1
        assert run_command(["workflow", "send", "nope", "--message", "{}", *url]) == 2
        assert run_command(["workflow", "send", workflow_id, "--message", "[]", *url]) == 2
        assert "--message" in capsys.readouterr().err


def test_variables_over_both_routes_and_the_client(api: httpx.Client, coordinator: Coordinator) -> None:
    workflow_id = start(api, PULL, variables={"a": 1}, outputParameters={"v": "${workflow.variables}"})
    answer = api.put(f"/workflow/{workflow_id}/variables", json={"b": 2})
    assert (answer.status_code, answer.json()["variables"]) == (200, {"a": 1, "b": 2})
    assert api.post(f"/workflow/{workflow_id}/variables", json={"a": None}).json()["variables"] == {"a": None, "b": 2}
    with WorkflowClient(Configuration(server_api_url=coordinator.url)) as client:
        client.update_variables(workflow_id, {"c": [3]})
    api.post(f"/workflow/{workflow_id}/messages", json={})
    assert workflow(api, workflow_id)["output"] == {"v": {"a": None, "b": 2, "c": [3]}}
    assert api.put(f"/workflow/{workflow_id}/variables", json={}).status_code == 409
    assert api.put("/workflow/nope/variables", json={}).status_code == 404
