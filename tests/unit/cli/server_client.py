"""A server with workflows in every state, as an operator finds it."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

#: A name that rings, clears the screen, starts a line and looks like markup.
EVIL = "evil\x1b[2J\x07\r\n[red]\u202e\x9b31m"


class Client:
    """A client and worker of the server, for the tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """Send one request. Return the answer as JSON or as text."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        try:
            return json.loads(text)
        except ValueError:
            return text

    def register(self, name: str, *tasks: dict[str, Any]) -> None:
        """A workflow of these tasks."""
        definition = {"name": name, "version": 1, "schemaVersion": 2, "ownerEmail": "a@b.example", "tasks": tasks}
        self.ask("/metadata/workflow", [definition], "PUT")

    def start(self, name: str, given: object = None, correlation_id: str | None = None) -> str:
        """Start one; its id."""
        body = {"name": name, "version": 1, "input": given or {}, "correlationId": correlation_id}
        return str(self.ask("/workflow", body))

    def work(self, task_type: str, status: str = "COMPLETED", *, count: int = 1, **more: Any) -> int:
        """Do up to `count` tasks as the worker `ada`. Return how many there were."""
        tasks = self.ask(f"/tasks/poll/batch/{task_type}?count={count}&timeout=100&workerid=ada")
        for task in tasks:
            ids = {key: task.get(key) for key in ("taskId", "workflowInstanceId", "leaseId")}
            self.ask("/tasks", {**ids, "workerId": "ada", "status": status, **more})
        return len(tasks)


def simple(name: str, ref: str | None = None) -> dict[str, Any]:
    """A step for a worker."""
    return {"name": name, "taskReferenceName": ref or name, "type": "SIMPLE"}


def step(type_: str, ref: str, **more: Any) -> dict[str, Any]:
    """A step of the server's own."""
    return {"name": ref, "taskReferenceName": ref, "type": type_, **more}


def order(charge: str, pack: str) -> list[dict[str, Any]]:
    """Return a switch, a fork, a loop, a wait, and a step that is never reached."""
    how = {"evaluatorType": "value-param", "expression": "how", "inputParameters": {"how": "${workflow.input.how}"}}
    return [
        step("SWITCH", "how", **how, decisionCases={"post": [simple(pack, "stamp")], "fetch": []}, defaultCase=[]),
        step(
            "FORK_JOIN",
            "split",
            forkTasks=[[simple(charge, "charge"), simple(pack, "receipt")], [simple(pack, "wrap")]],
        ),
        step("JOIN", "both", joinOn=["receipt", "wrap"]),
        step(
            "DO_WHILE",
            "rounds",
            loopCondition="if ($.rounds['iteration'] < 2) { true; } else { false; }",
            loopOver=[simple(pack, "turn")],
        ),
        step("WAIT", "okay"),
        simple("ship"),
    ]
