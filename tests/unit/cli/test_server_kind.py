"""The commands with the public REST API alone, as on a Conductor server: the coordinator's own views are not asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from conductor.cli import newest_workflows, tail, task_commands, workflow_details
from conductor.cli.server_kind import open_client
from conductor.client.configuration.configuration import Configuration
from conductor.coordinator import Coordinator
from tests.unit.cli.server_client import Client, order, simple, step


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Coordinator() as coordinator:
        made = Client(coordinator.url)
        retried = {"name": "charge", "retryCount": 2, "retryDelaySeconds": 600, "ownerEmail": "a@b.c"}
        made.ask("/metadata/taskdefs", [retried])
        made.register("order", *order("charge", "pack"))
        yield made


@pytest.fixture(autouse=True)
def no_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a Conductor server there."""

    async def not_found(*_: object, **__: object) -> None:
        return None

    for module in (workflow_details, newest_workflows, task_commands):
        monkeypatch.setattr(module, "read_view", not_found)


def shown_by(cli: Any, client: Client, workflow_id: str) -> str:
    ran = cli("workflow", "show", workflow_id, "--url", client.url)
    assert (ran.status, ran.err.replace(f"Web UI: {ran.err.partition('Web UI: ')[2]}", "")) == (0, "")
    return str(ran.out)


def test_workflow_show_says_who_polls_what_is_joined_and_when_a_retry_is_due(cli: Any, client: Client) -> None:
    workflow_id = client.start("order", {"how": "post"})
    out = shown_by(cli, client, workflow_id)
    assert "○ stamp  pack  scheduled  waits for a worker: no worker has ever polled pack" in out
    while client.work("pack"):
        pass
    out = shown_by(cli, client, workflow_id)
    assert "charge waits for a worker: no worker has ever polled charge. Start a worker that polls charge" in out
    assert "◐ both  JOIN  in progress  joins on receipt" in out
    assert "A Conductor server does not report whether the worker of a task is alive" in out
    client.work("charge", "FAILED", reasonForIncompletion="the bank said no")
    out = shown_by(cli, client, workflow_id)
    assert "charge waits for retry 1 of 2 at " in out
    assert "the bank said no" in out
    client.ask("/tasks/poll/batch/pack?count=1&timeout=10&workerid=ada")
    found = json.loads(cli("workflow", "show", workflow_id, "--json", "--url", client.url).out)
    assert len(found["cannotTell"]) == 1


def test_a_join_that_failed_is_not_taken_for_what_went_wrong(cli: Any, client: Client) -> None:
    client.ask("/metadata/taskdefs", [{"name": "bill", "retryCount": 0, "ownerEmail": "a@b.c"}])
    client.register(
        "joined",
        step("FORK_JOIN", "split", forkTasks=[[{**simple("bill"), "permissive": True}], [simple("print")]]),
        step("JOIN", "both", joinOn=["bill", "print"]),
    )
    workflow_id = client.start("joined")
    client.work("bill", "FAILED", reasonForIncompletion="the bank said no")
    client.work("print")
    out = shown_by(cli, client, workflow_id)
    assert "✕ both  JOIN  failed" in out
    assert "bill failed: the bank said no" in out
    assert "both failed" not in out


def test_workflow_show_says_who_has_a_task_and_which_round_a_loop_is_in(cli: Any, client: Client) -> None:
    again = {"loopCondition": "if ($.rounds['iteration'] < 3) { true; } else { false; }"}
    client.register("loop", step("DO_WHILE", "rounds", **again, loopOver=[simple("turn"), simple("never")]))
    workflow_id = client.start("loop")
    client.work("turn")
    client.work("never")
    client.ask("/tasks/poll/batch/turn?count=1&timeout=100&workerid=ada")
    out = shown_by(cli, client, workflow_id)
    assert "◐ rounds  DO_WHILE  iteration 2  in progress  is in iteration 2, at turn__2" in out
    assert "↻ ◐ turn  in progress  has been running on ada" in out
    assert "↻ · never  not reached" in out, "in this round"
    assert "has been running on ada" in cli("task", "show", f"{workflow_id}:turn", "--url", client.url).out


def test_a_list_is_searched_for(cli: Any, client: Client) -> None:
    client.register("searched", simple("searched"))
    one, other = client.start("searched", correlation_id="a-1"), client.start("searched", correlation_id="a-2")
    client.ask(f"/workflow/{one}?reason=enough", method="DELETE")

    def ids(*arguments: str) -> list[str]:
        ran = cli("workflow", "list", "--json", "--name", "searched", *arguments, "--url", client.url)
        return [row["workflowId"] for row in json.loads(ran.out)]

    assert ids() == [other, one]
    assert ids("--status", "TERMINATED,FAILED") == [one]
    assert ids("--correlation-id", "a-2") == [other]
    assert ids("--since", "1h") == [other, one]
    assert ids("--since", "2100-01-01") == []
    out = cli("workflow", "list", "--name", "searched", "--size", "1", "--url", client.url).out
    assert "The newest 1 of 2: --size shows more." in out
    assert "A Conductor server lists the workflows in its index" in out
    assert "enough" in cli("workflow", "list", "--status", "TERMINATED", "--url", client.url).out


def test_a_name_that_its_search_cannot_have(cli: Any, client: Client) -> None:
    ran = cli("workflow", "list", "--name", "it's", "--url", client.url)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "this server cannot be searched for" in ran.err


def test_tail_tells_what_its_search_and_its_workflows_say(client: Client) -> None:
    """Round by round: the command only waits in between."""
    client.register("tailed", simple("tailed"))

    async def followed() -> list[list[tuple[str, str | None]]]:
        rounds = []
        async with open_client(Configuration(client.url)) as api:
            following = tail.WorkflowFollower(api, "tailed")
            for happens in (
                lambda: client.start("tailed"),
                lambda: client.start("tailed"),
                lambda: client.work("tailed"),
                lambda: client.work("tailed", "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="the bank said no"),
                lambda: None,
            ):
                await asyncio.to_thread(happens)
                rounds.append([_told(event) for event in await following.read_events()])
            assert following.uses_search
            assert following.warnings == {}
        return rounds

    assert asyncio.run(followed()) == [
        [],  # what was there before is not told
        [("workflow started", None), ("scheduled", "tailed")],
        [("started", "tailed"), ("completed", "tailed"), ("workflow completed", None)],
        [("started", "tailed"), ("failed with terminal error: the bank said no", "tailed"), ("workflow failed", None)],
        [],
    ]


def _told(event: tail.TailEvent) -> tuple[str, str | None]:
    return (f"{event.what}: {event.reason}" if event.task and event.reason else event.what), event.task
