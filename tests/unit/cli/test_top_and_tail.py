"""`conductor-worker top` and `tail`, on real terminals."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.cli import tail
from conductor.cli.server_kind import open_client
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub
from tests.unit.cli.program import CLI, Program
from tests.unit.cli.terminal import Terminal

#: How a terminal is asked for another screen, and for its own again.
OTHER_SCREEN, OWN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][;m]")


@pytest.fixture
def server() -> Iterator[Coordinator]:
    with Coordinator() as running:
        yield running


def start(server: Coordinator, task: str) -> str:
    definition = {"name": f"of {task}", "tasks": [{"name": task, "taskReferenceName": "it", "type": "SIMPLE"}]}
    answer = httpx.post(f"{server.url}/workflow", json={"name": definition["name"], "workflowDef": definition})
    assert answer.status_code == 200, answer.text
    return answer.text


def work_on(server: Coordinator, task: str, status: str, reason: str | None = None) -> None:
    query: dict[str, str | int] = {"workerid": "hands\x1b[31m", "count": 1, "timeout": 0}
    found = httpx.get(f"{server.url}/tasks/poll/batch/{task}", params=query).json()[0]
    result = {"taskId": found["taskId"], "workflowInstanceId": found["workflowInstanceId"], "status": status}
    httpx.post(f"{server.url}/tasks", json={**result, "workerId": "hands", "reasonForIncompletion": reason})


def test_top_once_and_for_programs(cli: Any, server: Coordinator) -> None:
    start(server, "top_pack")
    start(server, "top\x1b[31mred")
    ran = cli("top", "--url", server.url, "--once")
    assert ran.status == 0, ran.err
    assert "2 waiting" in ran.out
    assert re.search(r"top_pack +1 .*NO WORKER", ran.out)
    assert "\x1b" not in ran.out
    frame = json.loads(cli("top", "--url", server.url, "--json").out)
    assert frame["overview"]["waiting"] == 2
    assert {queue["name"]: queue["ready"] for queue in frame["queues"]} == {"top_pack": 1, "top\x1b[31mred": 1}


def hold(server: Coordinator, task: str, worker: str) -> dict[str, Any]:
    query: dict[str, str | int] = {"workerid": worker, "count": 1, "timeout": 0}
    (found,) = httpx.get(f"{server.url}/tasks/poll/batch/{task}", params=query).json()
    return dict(found)


def test_top_tells_who_holds_what_and_until_when(cli: Any, server: Coordinator) -> None:
    workflow_id = start(server, "top_held")
    assert json.loads(cli("top", "--url", server.url, "--json").out)["leases"] == []
    task = hold(server, "top_held", "host-7\x1b[31m")
    (lease,) = json.loads(cli("top", "--url", server.url, "--json").out)["leases"]
    assert (lease["taskId"], lease["workflowId"]) == (task["taskId"], workflow_id)
    assert (lease["name"], lease["workerId"], lease["attempt"]) == ("top_held", "host-7\x1b[31m", 1)
    assert lease["untilMs"] == task["leaseExpiresAt"]
    ran = cli("top", "--url", server.url, "--once")
    assert re.search(r"host-7\S+ +top_held +[\d.]+ s +[\d.]+ s +(60 min|1 h) +\d\d:\d\d:\d\d", ran.out), ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("columns", [80, 120])
def test_a_lease_is_looked_at_closer(server: Coordinator, tmp_path: Path, columns: int) -> None:
    command = [*CLI, "top", "--url", server.url, "--interval", "0.1"]
    with Terminal(command, tmp_path, {"NO_COLOR": "1"}, columns=columns, lines=24) as terminal:
        terminal.wait_for("There are no queues: ")
        terminal.type("l")
        terminal.wait_for("No worker holds a task.")
        terminal.type("\n")  # there is nothing to look at
        start(server, "top_one")
        start(server, "top_two")
        hold(server, "top_one", "host-1")
        second = hold(server, "top_two", "host-2")
        terminal.wait_for("host-2")
        terminal.type("j\n")
        terminal.wait_for("top_two, held by host-2")
        terminal.wait_for("lease left")
        terminal.wait_for(f"conductor-worker task show {second['taskId']}")
        result = {"taskId": second["taskId"], "workflowInstanceId": second["workflowInstanceId"], "workerId": "host-2"}
        httpx.post(f"{server.url}/tasks", json={**result, "leaseId": second["leaseId"], "status": "COMPLETED"})
        terminal.wait_for("The lease has ended")
        terminal.type("\x1b")
        terminal.wait_for("host-1")
        terminal.type("q")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text


def test_top_on_a_conductor_server_says_what_it_cannot_tell(cli: Any, conductor_stub: ConductorStub) -> None:
    ran = cli("top", "--url", conductor_stub.url, "--once")
    assert ran.status == 0, ran.err
    assert "a Conductor server: it reports neither" in ran.out
    assert json.loads(cli("top", "--url", conductor_stub.url, "--json").out)["leases"] is None


def test_top_of_a_server_that_is_not_there_is_one_line(cli: Any) -> None:
    ran = cli("top", "--url", "http://127.0.0.1:1/api", "--once")
    assert ran.status == 2
    assert "cannot read from" in ran.err


@pytest.mark.parametrize(("columns", "no_color"), [(80, "1"), (120, None)])
def test_top_is_watched_and_leaves_the_terminal_as_it_was(
    server: Coordinator, tmp_path: Path, columns: int, no_color: str | None
) -> None:
    start(server, "top_pack")
    command = [*CLI, "top", "--url", server.url, "--interval", "0.2"]
    with Terminal(command, tmp_path, {"NO_COLOR": no_color}, columns=columns, lines=24) as terminal:
        terminal.wait_for("top_pack")
        terminal.type("s")
        terminal.wait_for("by in hand")
        terminal.type("\n")
        terminal.wait_for("0 due later")
        terminal.type("ww")
        start(server, "top_send")
        terminal.wait_for("top_send")
        if columns == 80:
            terminal.type("q")
            assert terminal.wait() == 0
        else:
            terminal.interrupt()
            assert terminal.wait() == 130
        terminal.wait_for_raw(OWN_SCREEN)
        assert terminal.raw.count(OTHER_SCREEN) == 1
        assert terminal.settings == terminal.settings_before
    lines = terminal.text.split("\n")
    assert max(map(len, lines)) <= columns * 24, "no line is longer than a screen"
    assert bool(COLOUR.search(terminal.raw)) is (no_color is None)
    assert "Traceback" not in terminal.text


def test_tail_tells_what_happens_as_it_happens(server: Coordinator, tmp_path: Path) -> None:
    start(server, "tail_before")
    with Program([*CLI, "tail", "--url", server.url, "--interval", "0.1"], tmp_path) as program:
        program.line_with("Following all workflows")
        good, bad = start(server, "tail_good"), start(server, "tail_bad")
        begun = program.line_with(f"of tail_good …{good[-8:]}  workflow started")
        assert len(begun) <= 80
        work_on(server, "tail_good", "COMPLETED")
        program.line_with(f"of tail_good …{good[-8:]}  it  completed")
        program.line_with(f"of tail_good …{good[-8:]}  workflow completed")
        work_on(server, "tail_bad", "FAILED_WITH_TERMINAL_ERROR", "no\x1b[31m box")
        program.line_with("failed with terminal error: no\\x1b[31m box")
        program.line_with(f"of tail_bad …{bad[-8:]}  workflow failed")
        program.send(signal.SIGINT)
        assert program.wait() == 130
    assert "\x1b" not in program.output
    assert "tail_before" not in program.output, "what was there before is not told again"
    assert "Traceback" not in program.output


def test_tail_for_programs_and_of_one_workflow(server: Coordinator, tmp_path: Path) -> None:
    command = [*CLI, "tail", "of tail_good", "--url", server.url, "--interval", "0.1", "--json"]
    with Program(command, tmp_path) as program:
        program.line_with("Following workflows of tail_good")
        other, good = start(server, "tail_other"), start(server, "tail_good")
        work_on(server, "tail_good", "COMPLETED")
        program.line_with('"what": "workflow completed"')
        program.send(signal.SIGINT)
        program.wait()
    events = [json.loads(line) for line in program.output.splitlines()[1:]]
    assert {event["workflow"] for event in events} == {"of tail_good"}
    assert other not in program.output
    assert {event["workflow_id"] for event in events} == {good}
    order = ["workflow started", "scheduled", "started", "completed", "workflow completed"]
    assert [event["what"] for event in events] == order


def test_tail_follows_more_than_it_looks_at_in_a_round(server: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_LISTED", 2)
    monkeypatch.setattr(tail, "MAX_READ", 2)
    open_before = [start(server, "tail_open") for _ in range(5)]

    async def followed() -> set[str]:
        ended = set()
        async with open_client(Configuration(server.url)) as api:
            following = tail.WorkflowFollower(api, None)
            await following.read_events()
            assert following.warnings == {
                "late": "5 workflows are open and each round reads 2: events may be 3 rounds late"
            }
            for _ in open_before:
                await asyncio.to_thread(work_on, server, "tail_open", "COMPLETED")
            for _ in range(3):
                ended |= {
                    event.workflow_id for event in await following.read_events() if event.what == "workflow completed"
                }
            assert following.warnings == {}
            started = {await asyncio.to_thread(start, server, "tail_new") for _ in range(4)}
            told = [*await following.read_events(), *await following.read_events()]
            assert {event.workflow_id for event in told if event.what == "workflow started"} == started
        return ended

    assert asyncio.run(followed()) == set(open_before)


def test_tail_says_what_it_leaves_out(server: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_LISTED", 2)
    monkeypatch.setattr(tail, "MAX_FOLLOWED", 3)
    for _ in range(4):
        start(server, "tail_open")

    async def followed() -> list[dict[str, str]]:
        said = []
        async with open_client(Configuration(server.url)) as api:
            following = tail.WorkflowFollower(api, None)
            for _ in range(3):
                await following.read_events()
                said.append(following.warnings)
                for _ in range(4 if len(said) == 1 else 0):
                    await asyncio.to_thread(start, server, "tail_open")
        return said

    unfollowed = {"unfollowed": "more than 3 workflows are open: the others are left out"}
    started = {"started": "more than 3 workflows have started since the last round: the others are left out"}
    assert asyncio.run(followed()) == [unfollowed, {**started, **unfollowed}, {}]


def test_tail_loses_nothing_to_a_server_that_fails_in_between(
    server: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def followed() -> set[str]:
        async with open_client(Configuration(server.url)) as api:
            following = tail.WorkflowFollower(api, None)
            await following.read_events()
            started = {await asyncio.to_thread(start, server, "tail_new") for _ in range(2)}
            ask, asked = following._read_workflow, []

            async def fail_once(workflow_id: str) -> list[tail.TailEvent]:
                asked.append(workflow_id)
                if len(asked) == 2:
                    raise ConductorError("gone")
                return await ask(workflow_id)

            monkeypatch.setattr(following, "_read_workflow", fail_once)
            with pytest.raises(ConductorError):
                await following.read_events()
            told = {event.workflow_id for event in await following.read_events() if event.what == "workflow started"}
            assert told == started
        return told

    assert len(asyncio.run(followed())) == 2
