"""The commands of an operator on every server, with only the public REST API."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.cli import main
from tests.acceptance.servers.targets import Target
from tests.unit.cli.program import CLI, Program

#: The longest wait for a condition. The Conductor server looks at some tasks only every half minute.
PATIENCE_S = 120.0


class Operator:
    """Runs commands against one server, with names that only this test uses."""

    def __init__(self, target: Target, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = target.url, capsys
        self.api = httpx.Client(base_url=target.url, timeout=60)
        self.name = f"night_{secrets.token_hex(6)}"
        self.worker = f"{self.name}_charge"

    def run(self, *command: str) -> tuple[int, str]:
        """A command; its status, and what it wrote."""
        self._capsys.readouterr()
        status = main([*command, "--url", self.url])
        out, err = self._capsys.readouterr()
        return status, out + err

    def json(self, *command: str) -> Any:
        """Return the JSON output of a command."""
        self._capsys.readouterr()
        main([*command, "--json", "--url", self.url])
        return json.loads(self._capsys.readouterr().out)

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds: no server tells when."""
        ends_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends_s
            threading.Event().wait(0.2)

    def register(self) -> None:
        """A switch, a fork with a worker's task in it, and a step that waits for an update."""
        charge = {"name": self.worker, "taskReferenceName": "charge", "type": "SIMPLE"}
        pack = {"name": "pack", "taskReferenceName": "pack", "type": "SET_VARIABLE", "inputParameters": {"packed": 1}}
        how = {"evaluatorType": "value-param", "expression": "how", "inputParameters": {"how": "post"}}
        tasks = [
            {"name": "how", "taskReferenceName": "how", "type": "SWITCH", **how, "decisionCases": {"post": [pack]}},
            {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[charge]]},
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["charge"]},
            {"name": "approve", "taskReferenceName": "approve", "type": "HUMAN"},
        ]
        definition = {"name": self.name, "version": 1, "schemaVersion": 2, "ownerEmail": "a@b.example", "tasks": tasks}
        task_def = {"name": self.worker, "retryCount": 0, "ownerEmail": "a@b.example"}
        for path, body in (("/metadata/taskdefs", [task_def]), ("/metadata/workflow", definition)):
            answer = self.api.post(path, json=body)
            assert answer.status_code == 200, answer.text

    def poll(self) -> list[Any]:
        """Take what waits for the worker, once something does."""
        found: list[Any] = []

        def poll() -> bool:
            found.extend(self.api.get(f"/tasks/poll/batch/{self.worker}?workerid=ada").json())
            return bool(found)

        self.until(poll)
        return found

    def work(self, status: str, taken: list[Any] | None = None) -> None:
        """Be the worker, once."""
        for task in self.poll() if taken is None else taken:
            ids = {key: task.get(key) for key in ("taskId", "workflowInstanceId", "leaseId")}
            more = {"status": status, "workerId": "ada", "reasonForIncompletion": "the bank said no"}
            assert self.api.post("/tasks", json={**ids, **more}).status_code == 200


@pytest.fixture
def operator(target: Target, capsys: pytest.CaptureFixture[str]) -> Any:
    made = Operator(target, capsys)
    with made.api:
        yield made


def test_an_operator_at_night(operator: Operator, target: Target) -> None:
    operator.register()
    status, out = operator.run("workflow", "start", operator.name, "--input", '{"a": 1}', "--correlation-id", "c-7")
    assert status == 0
    workflow_id = out.split()[0]

    operator.until(lambda: "○ charge" in operator.run("workflow", "show", workflow_id)[1])
    status, out = operator.run("workflow", "show", workflow_id)
    assert status == 0
    assert "✓ how  SWITCH  → post  completed" in out
    assert "│  ✓ pack" in out
    assert "waits for a worker: " in out
    assert ("A Conductor server does not report" in out) is target.is_conductor

    operator.work("FAILED")
    operator.until(lambda: operator.json("workflow", "show", workflow_id)["workflow"]["status"] == "FAILED")
    assert operator.run("workflow", "wait", workflow_id)[0] == 1
    status, out = operator.run("workflow", "show", workflow_id)
    assert "charge failed: the bank said no" in out
    assert operator.run("workflow", "pause", workflow_id)[0] == 1, "it has ended"

    if target.indexed:
        listed = ["workflow", "list", "--name", operator.name, "--status", "FAILED", "--since", "1h"]
        operator.until(lambda: [one["workflowId"] for one in operator.json(*listed)] == [workflow_id])
        assert operator.json("workflow", "list", "--name", operator.name, "--correlation-id", "c-7")
        assert operator.json("workflow", "list", "--name", operator.name, "--correlation-id", "other") == []

    assert operator.run("workflow", "retry", workflow_id)[0] == 0
    assert operator.run("task", "complete", f"{workflow_id}:charge", "--output", '{"paid": true}')[0] == 0
    assert operator.run("task", "complete", f"{workflow_id}:charge")[0] == 1, "it has ended already"
    operator.until(lambda: operator.run("task", "show", f"{workflow_id}:approve")[0] == 0)
    assert "waits for a person to complete it" in operator.run("task", "show", f"{workflow_id}:approve")[1]
    assert operator.run("task", "complete", f"{workflow_id}:approve")[0] == 0
    assert operator.run("workflow", "wait", workflow_id, "--timeout", str(PATIENCE_S))[0] == 0

    assert operator.run("workflow", "rerun", workflow_id, "--from-task", "charge")[0] == 0
    assert operator.run("workflow", "terminate", workflow_id, "--reason", "enough")[0] == 0
    ended = operator.json("workflow", "wait", workflow_id)
    assert [(one["status"], one["reasonForIncompletion"]) for one in ended] == [("TERMINATED", "enough")]

    if target.indexed:
        purge = ["purge", "--older-than", "2100-01-01", "--name", operator.name]
        operator.until(lambda: operator.json(*purge, "--dry-run")["found"] == [workflow_id])
        assert operator.json(*purge, "--yes")["removed"] == [workflow_id]
        assert operator.run("workflow", "show", workflow_id)[0] == 2


def test_wrong_ids_are_one_line(operator: Operator) -> None:
    for command in (["workflow", "show", "nope"], ["workflow", "wait", "nope"], ["task", "show", "nope"]):
        status, said = operator.run(*command)
        assert (status, said.count("\n")) == (2, 1)
    status, said = operator.run("workflow", "retry", "nope", "nada")
    assert (status, said.count("\n")) == (2, 2)


def test_the_queue_commands_show_the_data_of_the_server(operator: Operator, target: Target) -> None:
    operator.register()
    workflow_id = operator.run("workflow", "start", operator.name)[1].split()[0]

    def queue() -> dict[str, Any]:
        return next((one for one in operator.json("queues") if one["taskType"] == operator.worker), {})

    def row() -> dict[str, Any]:
        frame = operator.json("top")
        return next((one for one in frame["queues"] if one["name"] == operator.worker), {})

    operator.until(lambda: queue().get("waiting") == 1)
    assert queue()["unattended"] is True
    status, out = operator.run("queues")
    assert (status, "NO WORKER POLLS" in out) == (0, True)
    assert (row()["ready"], bool(row()["problem"])) == (1, True)
    status, out = operator.run("top", "--once")
    assert (status, "queues that no worker polls" in out) == (0, True)
    assert ("a Conductor server: it reports neither rates nor" in out) is target.is_conductor
    faults = {one["fault"]: one for one in operator.json("doctor") if operator.worker in one["what"]}
    assert "worker" in faults["queue-not-polled"]["remedy"]

    taken = operator.poll()
    assert queue()["lastWorkerId"] == "ada"
    leases = operator.json("top")["leases"]
    if target.is_conductor:
        assert leases is None
    else:
        assert [one["workerId"] for one in leases if one["workflowId"] == workflow_id] == ["ada"]
        assert row()["inHand"] == 1
    operator.work("COMPLETED", taken)
    if not target.is_conductor:
        assert row()["verdicts"] == {"COMMITTED": 1}
    assert operator.run("workflow", "terminate", workflow_id)[0] == 0


def test_tail_shows_events_as_they_happen(operator: Operator, target: Target, tmp_path: Path) -> None:
    if not target.indexed:
        pytest.skip("a server without an index cannot say which workflows there are")
    operator.register()
    before = operator.run("workflow", "start", operator.name)[1].split()[0]
    command = [*CLI, "tail", operator.name, "--url", operator.url, "--interval", "0.2", "--json"]
    with Program(command, tmp_path) as program:
        said = program.line_with(f"Following workflows {operator.name}")
        assert ("The search of this server may lag" in said) is target.is_conductor
        workflow_id = operator.run("workflow", "start", operator.name)[1].split()[0]

        def told(what: str, **known: str) -> dict[str, Any]:
            while True:
                event: dict[str, Any] = json.loads(program.line_with(f'"what": "{what}"'))
                if all(event.get(name) == value for name, value in known.items()):
                    return event

        assert told("workflow started", workflow_id=workflow_id)["workflow"] == operator.name
        operator.work("FAILED_WITH_TERMINAL_ERROR")  # the task of the one that was there before, or of the new one
        assert told("started", task="charge")["worker_id"] == "ada"
        ended = told("failed with terminal error", task="charge")
        assert (ended["task_type"], ended["reason"]) == (operator.worker, "the bank said no")
        told("workflow failed", workflow_id=ended["workflow_id"])
        program.send(signal.SIGINT)
        assert program.wait() == 130
    assert "Traceback" not in program.output
    operator.run("workflow", "terminate", before, workflow_id)


@pytest.mark.targets("coordinator", "conductor-sqlite")
def test_a_schedule_from_its_beginning_to_its_end(operator: Operator) -> None:
    """The other servers here have no scheduler."""
    operator.register()
    name = f"{operator.name}_nightly"
    status, out = operator.run("schedule", "add", name, operator.name, "0 0 3 1 1 *", "--version", "1", "--paused")
    assert status == 0, out
    assert [one["paused"] for one in operator.json("schedule", "list", "--workflow", operator.name)] == [True]
    assert operator.json("schedule", "resume", name)["paused"] is False
    assert operator.json("schedule", "show", name)["runs"] == []
    status, out = operator.run("schedule", "show", name)
    assert (status, "0 0 3 1 1 *" in out) == (0, True)
    assert "paused" in operator.run("schedule", "pause", name, "--reason", "the disk is full")[1]
    assert operator.run("schedule", "remove", name)[0] == 0
    status, said = operator.run("schedule", "show", name)
    assert (status, said.count("\n")) == (2, 1)


def test_workers_are_compared_with_the_server(
    operator: Operator, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    decorated = f"@worker_task({operator.worker!r}, register_task_def=False)"
    function = "def charge(amount: int) -> dict:\n    return {'charged': amount}"
    (tmp_path / f"{operator.name}.py").write_text(f"from conductor import worker_task\n\n{decorated}\n{function}\n")

    def faults() -> dict[str, str]:
        return {one["fault"]: one["what"] for one in operator.json("doctor", operator.name) if one["fault"]}

    assert operator.worker in faults()["definition-missing"]
    task_def = {"name": operator.worker, "responseTimeoutSeconds": 5, "ownerEmail": "a@b.example", "timeoutSeconds": 60}
    assert operator.api.post("/metadata/taskdefs", json=[task_def]).status_code == 200
    found = faults()
    assert "definition-missing" not in found
    assert operator.worker in found["response-timeout-short"]
    assert not {"unreachable", "clock-skew", "queues-not-shown", "definitions-not-shown"} & found.keys()
    # Both commands need no server, and ask none.
    assert main(["workers", operator.name]) == 0
    assert main(["exec", operator.worker, operator.name, "--input", '{"amount": 7}']) == 0
    del sys.modules[operator.name]
