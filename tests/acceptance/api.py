"""A REST client without workers, for any target: registers, starts and reads workflows."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

#: How long a test waits for the end of a workflow. The Conductor server looks at some tasks only every half minute.
PATIENCE_S = 120.0

Task = dict[str, Any]


class Api:
    """The requests of the tests to a server."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def register(self, *tasks: Task, **fields: Any) -> httpx.Response:
        """Register a workflow; the answer."""
        self.name = f"system_{secrets.token_hex(6)}"
        definition = {"name": self.name, "schemaVersion": 2, "ownerEmail": "a@b.example", "tasks": tasks, **fields}
        return self.client.post("/metadata/workflow", json=definition)

    def start(self, *tasks: Task, **given: Any) -> str:
        """Start a workflow of these tasks; its id."""
        answer = self.register(*tasks)
        assert answer.status_code == 200, answer.text
        answer = self.client.post(f"/workflow/{self.name}", json=given)
        assert answer.status_code == 200, answer.text
        return answer.text

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        """A workflow as it is now."""
        found: dict[str, Any] = self.client.get(f"/workflow/{workflow_id}").json()
        return found

    def until(self, workflow_id: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The workflow once something holds of it: no server tells when."""
        ends_s = time.monotonic() + PATIENCE_S
        while not holds(found := self.workflow(workflow_id)):
            assert time.monotonic() < ends_s, found
            threading.Event().wait(0.05)
        return found

    def run(self, *tasks: Task, **given: Any) -> dict[str, Any]:
        """A workflow of these tasks that has ended."""
        return self.until(self.start(*tasks, **given), lambda found: found["status"] != "RUNNING")
