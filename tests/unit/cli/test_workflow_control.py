"""`conductor-worker workflow pause`, `resume`, `retry`, `rerun`, `restart` and `terminate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conductor.coordinator import Coordinator
from tests.unit.cli.server_client import Client, simple, step

Act = Callable[..., Any]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Coordinator() as coordinator:
        made = Client(coordinator.url)
        definitions = [{"name": name, "retryCount": 0, "ownerEmail": "a@b.c"} for name in ("first", "second")]
        made.ask("/metadata/taskdefs", definitions)
        made.register("two", simple("first"), simple("second"))
        inner = step("SUB_WORKFLOW", "inner", subWorkflowParam={"name": "two", "version": 1})
        made.register("outer", inner)
        yield made


@pytest.fixture
def act(cli: Any, client: Client) -> Act:
    """`conductor-worker workflow …` on this server."""
    return lambda *arguments: cli("workflow", *arguments, "--url", client.url)


def status_of(client: Client, workflow_id: str) -> str:
    return str(client.ask(f"/workflow/{workflow_id}?includeTasks=false")["status"])


def failed(client: Client, name: str = "two") -> str:
    """Start a workflow that fails at its second task."""
    workflow_id = client.start(name)
    client.work("first")
    client.work("second", "FAILED", reasonForIncompletion="no")
    assert status_of(client, workflow_id) == "FAILED"
    return workflow_id


def test_several_workflows_are_paused_resumed_and_terminated(client: Client, act: Act) -> None:
    one, other = client.start("two"), client.start("two")
    assert act("pause", one, other).out == f"{one}: paused\n{other}: paused\n"
    assert status_of(client, one) == status_of(client, other) == "PAUSED"
    assert act("resume", one).status == 0
    assert status_of(client, one) == "RUNNING"
    ran = act("terminate", one, other, "--reason", "twice", "--json")
    assert json.loads(ran.out) == [{"workflowId": each, "done": True, "error": None} for each in (one, other)]
    assert client.ask(f"/workflow/{one}")["reasonForIncompletion"] == "twice"


def test_a_failed_one_is_retried(client: Client, act: Act) -> None:
    workflow_id = failed(client)
    assert act("retry", workflow_id).out == f"{workflow_id}: retried\n"
    assert client.work("first") == 0
    assert client.work("second") == 1
    assert status_of(client, workflow_id) == "COMPLETED"


def test_a_failed_one_goes_on_inside_of_its_sub_workflow(client: Client, act: Act) -> None:
    workflow_id = failed(client, "outer")
    assert act("retry", workflow_id, "--resume-subworkflows").status == 0
    assert client.work("first") == 0, "it was not started again"
    assert client.work("second") == 1
    assert status_of(client, workflow_id) == "COMPLETED"


@pytest.mark.parametrize("by", ["ref", "id"])
def test_a_workflow_runs_again_from_a_task(client: Client, act: Act, by: str) -> None:
    workflow_id = failed(client)
    (first, _) = client.ask(f"/workflow/{workflow_id}")["tasks"]
    task = first["referenceTaskName"] if by == "ref" else first["taskId"]
    assert act("rerun", workflow_id, "--from-task", task).out == f"{workflow_id}: rerun\n"
    assert (client.work("first"), client.work("second")) == (1, 1)
    assert status_of(client, workflow_id) == "COMPLETED"


def test_a_workflow_begins_again_on_the_newest_definition(client: Client, act: Act) -> None:
    client.register("changing", simple("first"))
    workflow_id = client.start("changing")
    act("terminate", workflow_id)
    client.register("changing", simple("second"))
    assert act("restart", workflow_id, "--use-latest").status == 0
    assert client.work("second") == 1
    assert act("rerun", workflow_id).status == 0, "from its start"
    assert client.work("second") == 1
    assert status_of(client, workflow_id) == "COMPLETED"


def test_a_refusal_is_status_1_and_an_unknown_workflow_2(client: Client, act: Act) -> None:
    ended, running = failed(client), client.start("two")
    ran = act("retry", running, ended)
    assert ran.status == 1
    refused, retried = ran.out.splitlines()
    assert refused.startswith(f"{running}: Workflow is still running. status=RUNNING; only an ended workflow can be")
    assert retried == f"{ended}: retried"
    ran = act("pause", "no\x1b[31mpe", running, "--json")
    assert ran.status == 2
    unknown, done = json.loads(ran.out)
    assert unknown["done"] is False
    assert "No such workflow" in unknown["error"]
    assert done == {"workflowId": running, "done": True, "error": None}, "the others are done all the same"
    assert act("rerun", ended, "--from-task", "nothing").status != 0
    act("terminate", running, ended)


def test_a_server_that_is_away(cli: Any) -> None:
    ran = cli("workflow", "pause", "x", "--url", "http://127.0.0.1:1", "--json")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "the server had answered 0 of 1 calls" in ran.err
