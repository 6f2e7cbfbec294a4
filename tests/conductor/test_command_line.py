"""The command line on every server: what an operator does at night, by the public REST API alone."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from servers.targets import Target

from conductor.cli import main

#: How long a test waits for something to be so. The plain server looks at some tasks only every half minute.
PATIENCE_S = 120.0


class Operator:
    """Runs commands against one server, with names that only this test uses."""

    def __init__(self, target: Target, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._capsys = target.url, capsys
        self.api = httpx.Client(base_url=target.url, timeout=60)
        self.name = f"night_{secrets.token_hex(6)}"
        self.worker = f"{self.name}_charge"

    def run(self, *command: str) -> tuple[int, str]:
        """A command; its status, and what it wrote."""
        self._capsys.readouterr()
        status = main([*command, "--url", self._url])
        out, err = self._capsys.readouterr()
        return status, out + err

    def json(self, *command: str) -> Any:
        """What a command tells programs."""
        self._capsys.readouterr()
        main([*command, "--json", "--url", self._url])
        return json.loads(self._capsys.readouterr().out)

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds: no server tells when."""
        ends_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends_s
            threading.Event().wait(0.2)

    def register(self) -> None:
        """A switch, a fork with a worker's task in it, and a step that waits for somebody."""
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

    def work(self, status: str) -> None:
        """Be the worker, once."""
        found: list[Any] = []

        def poll() -> bool:
            found.extend(self.api.get(f"/tasks/poll/batch/{self.worker}?workerid=ada").json())
            return bool(found)

        self.until(poll)
        for task in found:
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
    workflow_id = out.strip()

    operator.until(lambda: "○ charge" in operator.run("workflow", "show", workflow_id)[1])
    status, out = operator.run("workflow", "show", workflow_id)
    assert status == 0
    assert "✓ how  SWITCH  → post  completed" in out
    assert "│  ✓ pack" in out
    assert "waits for a worker: nobody has" in out
    assert ("A plain Conductor server does not tell" in out) is target.plain

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
