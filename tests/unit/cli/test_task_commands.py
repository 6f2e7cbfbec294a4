"""`conductor-worker task`: one task, its log, and ending it by hand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conductor.cli import task_commands as command
from conductor.common.text import escape
from conductor.coordinator import Coordinator
from tests.unit.cli.server_client import EVIL, Client, simple, step

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Coordinator() as coordinator:
        made = Client(coordinator.url)
        made.ask(
            "/metadata/taskdefs", [{"name": "again", "retryCount": 3, "retryDelaySeconds": 0, "ownerEmail": "a@b.c"}]
        )
        made.register("approval", step("WAIT", "approve"))
        made.register("work", simple("again"))
        yield made


@pytest.fixture
def task(cli: Any, client: Client) -> Ask:
    """`conductor-worker task …` on this server."""
    return lambda *arguments: cli("task", *arguments, "--url", client.url)


def test_task_show_finds_a_task_by_id_and_by_reference_name(client: Client, task: Ask) -> None:
    workflow_id = client.start("approval")
    (found,) = client.ask(f"/workflow/{workflow_id}")["tasks"]
    by_ref, by_id = task("show", f"{workflow_id}:approve"), task("show", found["taskId"])
    assert by_ref == by_id
    title, ids, why, *data = by_id.out.splitlines()
    assert title == "◐ IN_PROGRESS  approve  WAIT  attempt 1"
    assert ids.startswith(f"  id {found['taskId']}, workflow {workflow_id}, scheduled 2")
    assert why.startswith("  waits for a signal to complete it.")
    assert data == ["input: none", "output: none"]
    said = json.loads(task("show", found["taskId"], "--json").out)
    assert (said["status"], said["waiting"]["kind"]) == ("IN_PROGRESS", "signal")


def test_a_task_is_completed_with_an_output_once(client: Client, task: Ask) -> None:
    workflow_id = client.start("approval")
    ran = task("complete", f"{workflow_id}:approve", "--output", json.dumps({"by": EVIL}))
    assert ran.status == 0
    assert ran.out.endswith("): COMPLETED\n")
    found = client.ask(f"/workflow/{workflow_id}")
    assert (found["status"], found["tasks"][0]["outputData"]) == ("COMPLETED", {"by": EVIL})
    shown_again = task("show", f"{workflow_id}:approve").out
    assert all(char.isprintable() or char == "\n" for char in shown_again)
    ran = task("complete", f"{workflow_id}:approve", "--json")
    said = json.loads(ran.out)
    assert (ran.status, said["done"], said["error"]) == (1, False, "has already ended: COMPLETED")


def test_a_task_is_failed_with_a_reason(client: Client, task: Ask) -> None:
    workflow_id = client.start("work")
    assert task("fail", f"{workflow_id}:again", "--reason", "not now").status == 0
    first, second = client.ask(f"/workflow/{workflow_id}")["tasks"]
    assert (first["status"], first["reasonForIncompletion"], second["status"]) == ("FAILED", "not now", "SCHEDULED")
    ran = task("fail", f"{workflow_id}:again", "--reason", "never", "--terminal", "--json")
    assert json.loads(ran.out)["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert client.ask(f"/workflow/{workflow_id}")["status"] == "FAILED"


def test_a_task_that_a_worker_holds_can_be_ended_too(client: Client, task: Ask) -> None:
    workflow_id = client.start("work")
    (held,) = client.ask("/tasks/poll/batch/again?count=1&timeout=100&workerid=ada")
    ran = task("complete", held["taskId"], "--output", '{"by": "hand"}')
    assert (ran.status, client.ask(f"/workflow/{workflow_id}")["status"]) == (0, "COMPLETED")


def test_task_log_shows_the_log_of_a_task(client: Client, task: Ask) -> None:
    workflow_id = client.start("work")
    logs = [{"log": "first\nand more", "createdTime": 1_000}, {"log": EVIL, "createdTime": 2_000}]
    client.work("again", logs=logs)
    ran = task("logs", f"{workflow_id}:again")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[:3] == [
        "1970-01-01 00:00:01Z  first",
        f"{'':20}  and more",
        f"1970-01-01 00:00:02Z  {escape(EVIL.splitlines()[0])}",
    ]
    assert [line["log"] for line in json.loads(task("logs", f"{workflow_id}:again", "--json").out)] == [
        "first\nand more",
        EVIL,
    ]


def test_task_log_follows_to_the_end_of_the_task(
    client: Client, cli: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow_id = client.start("work")
    (held,) = client.ask("/tasks/poll/batch/again?count=1&timeout=100&workerid=ada")
    monkeypatch.setattr(command, "LOOK_S", 0.01)
    seen = threading.Event()

    def say(value: object) -> None:
        told.append(value)
        seen.set()

    told: list[Any] = []
    monkeypatch.setattr(command, "print_json", say)
    following = threading.Thread(
        target=lambda: cli("task", "logs", held["taskId"], "--follow", "--json", "--url", client.url)
    )
    following.start()
    client.ask(f"/tasks/{held['taskId']}/log", "begins")
    assert seen.wait(60)
    ids = {key: held[key] for key in ("taskId", "workflowInstanceId", "leaseId")}
    client.ask("/tasks", {**ids, "workerId": "ada", "status": "COMPLETED", "logs": [{"log": "ends"}]})
    following.join(60)
    assert not following.is_alive()
    assert [line["log"] for line in told] == ["begins", "ends"]
    assert client.ask(f"/workflow/{workflow_id}")["status"] == "COMPLETED"
    capsys.readouterr()


def test_a_task_without_a_log_says_so_beside_the_output(client: Client, task: Ask) -> None:
    workflow_id = client.start("approval")
    assert task("logs", f"{workflow_id}:approve") == (0, "", "The task has no log.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nope"], "nope"),
        (["logs", "nope"], "nope"),
        (["show", "nope:approve"], "No such workflow found by id: nope"),
        (["show", "{workflow}:absent"], "has no task 'absent'; it has approve"),
        (["complete", "{workflow}:approve", "--output", "7"], "--output must be a JSON object, not 7"),
        (["fail", "{workflow}:approve"], "--reason"),
    ],
)
def test_mistakes_of_task_commands_are_one_line(client: Client, task: Ask, arguments: list[str], said: str) -> None:
    workflow_id = client.start("approval")
    ran = task(*(one.format(workflow=workflow_id) for one in arguments))
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
