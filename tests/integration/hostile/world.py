"""The operations of a case on a coordinator. Every answer of 5xx fails the case."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx

#: A workflow that comes to no end within this time on a busy machine hangs.
PATIENCE_S = 120.0
LOOK_EVERY_S = 0.05
TERMINAL = ("COMPLETED", "FAILED", "TERMINATED", "TIMED_OUT")


class World:
    """A client of the coordinator under attack."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=PATIENCE_S)

    def close(self) -> None:
        """No more requests."""
        self._http.close()

    # -- requests

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send one request. A body that is not bytes is sent as JSON."""
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            more.setdefault("headers", {})["Content-Type"] = "application/json"
        answer = self._http.request(method, path, **more)
        assert answer.status_code < 500, f"{method} {path[:200]}: {answer.status_code} {answer.text[:500]}"
        return answer

    def accepted(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """A request that must be answered with 2xx."""
        answer = self.ask(method, path, body, **more)
        assert answer.is_success, f"{method} {path[:200]}: {answer.status_code} {answer.text[:500]}"
        return answer

    def refused(self, method: str, path: str, body: Any = None, *, because: str = "", **more: Any) -> httpx.Response:
        """A request that must be answered with 4xx, for this reason."""
        answer = self.ask(method, path, body, **more)
        assert answer.is_client_error, f"{method} {path[:200]}: {answer.status_code} {answer.text[:500]}"
        assert because in answer.text, answer.text[:500]
        assert len(answer.text) < 1_000_000, "a refusal does not repeat what was sent"
        return answer

    # -- definitions

    def define(self, name: str, *tasks: Any, **fields: Any) -> None:
        """Register a workflow."""
        self.accepted("PUT", "/api/metadata/workflow", [{"name": name, "tasks": list(tasks), **fields}])

    def define_task(self, name: str, **fields: Any) -> None:
        """Register a task definition."""
        self.accepted("POST", "/api/metadata/taskdefs", [{"name": name, **fields}])

    # -- workflows

    def start(self, name: str, given: Any = None, **fields: Any) -> str:
        """Start a workflow; its id."""
        return self.accepted("POST", "/api/workflow", {"name": name, "input": given or {}, **fields}).text

    def run(self, *tasks: Any, given: Any = None, **fields: Any) -> str:
        """Register and start a workflow of these tasks; its id."""
        self.define("hostile", *tasks, **fields)
        return self.start("hostile", given)

    def status(self, workflow_id: str) -> dict[str, Any]:
        """The workflow without its tasks."""
        found: dict[str, Any] = self.accepted("GET", f"/api/workflow/{workflow_id}?includeTasks=false").json()
        return found

    def over(self, workflow_id: str) -> dict[str, Any]:
        """Wait for its end, whatever it is."""
        until_s = time.monotonic() + PATIENCE_S
        while (found := self.status(workflow_id))["status"] not in TERMINAL:
            assert time.monotonic() < until_s, f"{workflow_id} comes to no end"
            threading.Event().wait(LOOK_EVERY_S)
        return found

    def ends(self, workflow_id: str, wanted: str, because: str = "") -> dict[str, Any]:
        """Wait for its end, which must be this one."""
        found = self.over(workflow_id)
        reason = found.get("reasonForIncompletion", "")
        assert found["status"] == wanted, f"{found['status']}: {reason[:500]}"
        assert because in reason, reason[:500]
        return found

    # -- tasks

    def poll(self, task_type: str = "work", count: int = 1) -> list[dict[str, Any]]:
        """Lease tasks."""
        path = f"/api/tasks/poll/batch/{task_type}?count={count}&timeout=5000&workerid=w"
        found: list[dict[str, Any]] = self.accepted("GET", path).json()
        return found

    def report(self, task: dict[str, Any], status: str = "COMPLETED", **fields: Any) -> httpx.Response:
        """Report what became of a task."""
        who = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "w"}
        return self.ask("POST", "/api/tasks", {**who, "leaseId": task.get("leaseId"), "status": status, **fields})

    def work(self, output: Any = None, task_type: str = "work") -> None:
        """Do one task, with this output."""
        (task,) = self.poll(task_type)
        answer = self.report(task, outputData=output or {})
        assert answer.is_success, answer.text[:500]


def simple(ref: str = "work", **fields: Any) -> dict[str, Any]:
    """A task for a worker."""
    return {"name": "work", "taskReferenceName": ref, "type": "SIMPLE", **fields}


def task(kind: str, ref: str, **fields: Any) -> dict[str, Any]:
    """A task that the coordinator does itself."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


def note(ref: str = "note", **values: Any) -> dict[str, Any]:
    """Variables that are set."""
    return task("SET_VARIABLE", ref, inputParameters=values)


def wait(duration: Any = "0s", ref: str = "wait") -> dict[str, Any]:
    """A wait, so that what follows happens in a step of its own, and again at a restart."""
    return task("WAIT", ref, inputParameters={"duration": duration})
