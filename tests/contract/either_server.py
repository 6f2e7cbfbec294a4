"""The two servers with leases behind one interface: the stub of the test kit, and the coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import httpx

from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub, FakeClock

#: How long a lease lasts on either of them.
LEASE_S = 10

Task = dict[str, Any]


class EitherServer(ABC):
    """A server on a clock that the test turns, and what a worker asks it over HTTP."""

    def __init__(self, clock: FakeClock, url: str) -> None:
        self.clock = clock
        self.url = url
        self.api = httpx.Client(base_url=url, trust_env=False)

    @abstractmethod
    def add_task(self) -> str:
        """Queue a task of the type `work`; its id."""

    @abstractmethod
    def cancel(self, task: Task) -> None:
        """End a task behind its worker's back."""

    @abstractmethod
    def parked_polls(self) -> int:
        """How many long polls are waiting."""

    @abstractmethod
    def stop(self) -> None:
        """No more."""

    # -- what a worker does

    def poll(self, worker: str | None = "w1", **query: Any) -> list[Task]:
        answer = self.api.get("/tasks/poll/batch/work", params=asked(worker, **query))
        assert answer.status_code == 200
        tasks: list[Task] = answer.json()
        return tasks

    def take(self, worker: str = "w1") -> Task:
        """The one task that is there."""
        (task,) = self.poll(worker)
        return task

    def report(self, task: Task, status: str | None = "COMPLETED", **fields: Any) -> httpx.Response:
        return self.api.post("/tasks", json=said(task, status, **fields))

    def heartbeat(self, task: Task, **fields: Any) -> httpx.Response:
        return self.api.post("/tasks", json=said(task, **{"status": "IN_PROGRESS", "extendLease": True, **fields}))

    def batch(self, *reports: Any) -> list[dict[str, Any]]:
        answer = self.api.post("/tasks/reports", json=list(reports))
        assert answer.status_code == 200
        verdicts: list[dict[str, Any]] = answer.json()
        return verdicts

    def stored(self, task_id: str) -> Task:
        task: Task = self.api.get(f"/tasks/{task_id}").json()
        return task


def asked(worker: str | None = "w1", **query: Any) -> dict[str, Any]:
    """The query of a poll."""
    who = {} if worker is None else {"workerid": worker}
    return {"count": 10, "timeout": 0, **who, **query}


def said(task: Task, status: str | None = "COMPLETED", **fields: Any) -> dict[str, Any]:
    """A report. A field that is None is left out."""
    ids = {key: task.get(key) for key in ("taskId", "workflowInstanceId", "workerId", "leaseId")}
    return {key: value for key, value in {**ids, "status": status, **fields}.items() if value is not None}


def verdict_of(answer: httpx.Response) -> tuple[int, str | None]:
    """Status and verdict; an error body must say the same as the header."""
    verdict = answer.headers.get("conductor-verdict")
    if answer.status_code >= 400:
        assert answer.json().get("verdict") == verdict
        assert answer.json()["status"] == answer.status_code
        assert answer.json()["message"]
    return answer.status_code, verdict


class Stub(EitherServer):
    def __init__(self, clock: FakeClock) -> None:
        self._stub = ConductorStub(leases=True, clock=clock)
        self._stub.start()
        super().__init__(clock, self._stub.url)

    def add_task(self) -> str:
        return self._stub.add_task("work", response_timeout_seconds=LEASE_S)

    def cancel(self, task: Task) -> None:
        self._stub.set_status(task["taskId"], "CANCELED")

    def parked_polls(self) -> int:
        return self._stub.parked_polls

    def stop(self) -> None:
        self.api.close()
        self._stub.stop()


class Real(EitherServer):
    def __init__(self, clock: FakeClock) -> None:
        self._coordinator = Coordinator(clock=clock).start()
        super().__init__(clock, self._coordinator.url)
        task = {"name": "work", "responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 3}
        self.api.post("/metadata/taskdefs", json=[task]).raise_for_status()
        step = {"name": "work", "taskReferenceName": "work", "type": "SIMPLE"}
        self.api.post("/metadata/workflow", json={"name": "flow", "tasks": [step]}).raise_for_status()

    def add_task(self) -> str:
        workflow_id = self.api.post("/workflow", json={"name": "flow"}).text
        (task,) = self.api.get(f"/workflow/{workflow_id}").json()["tasks"]
        task_id: str = task["taskId"]
        return task_id

    def cancel(self, task: Task) -> None:
        self.api.delete(f"/workflow/{task['workflowInstanceId']}").raise_for_status()

    def parked_polls(self) -> int:
        assert self._coordinator.core is not None
        return len(self._coordinator.core.tasks.parked)

    def stop(self) -> None:
        self.api.close()
        self._coordinator.stop()
