"""Drives workflows over REST on any target: registers and starts them, does their tasks and reads the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import httpx

from tests.acceptance.server_session import Session

Task = dict[str, Any]


class Driver:
    """The workflows of one test. Names are made unique: `work` is `<prefix>_work` on the server."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.http = httpx.AsyncClient(base_url=session.target.url, timeout=60)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    # -- definitions

    def simple(self, ref: str, name: str | None = None, **more: Any) -> Task:
        return {"name": self.session.named(name or ref), "taskReferenceName": ref, "type": "SIMPLE", **more}

    def task(self, ref: str, kind: str, **more: Any) -> Task:
        return {"name": ref, "taskReferenceName": ref, "type": kind, **more}

    def fork(self, *branches: list[Any], join_on: list[str]) -> list[Task]:
        return [self.task("fork", "FORK_JOIN", forkTasks=list(branches)), self.task("join", "JOIN", joinOn=join_on)]

    def sub(self, ref: str, workflow: str, **more: Any) -> Task:
        return self.task(ref, "SUB_WORKFLOW", subWorkflowParam={"name": self.session.named(workflow)}, **more)

    async def types(self, *names: str) -> None:
        """Register task types that are not tried again."""
        defs = [
            {"name": self.session.named(name), "retryCount": 0, "responseTimeoutSeconds": 600, "ownerEmail": "a@b.c"}
            for name in names
        ]
        await self._done(self.http.post("/metadata/taskdefs", json=defs))

    async def define(self, workflow: str, *tasks: Any, **more: Any) -> None:
        definition = {
            "name": self.session.named(workflow),
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "a@b.c",
            "tasks": list(tasks),
            **more,
        }
        await self._done(self.http.post("/metadata/workflow", params={"overwrite": "true"}, json=definition))

    async def start(self, workflow: str, **given: Any) -> str:
        asked = {"name": self.session.named(workflow), "input": given}
        return (await self._done(self.http.post("/workflow", json=asked))).text

    # -- the worker

    async def take(self, name: str) -> Task:
        """The next task of a type, when there is one."""

        async def look() -> Any:
            answer = await self.http.get(f"/tasks/poll/{self.session.named(name)}", params={"workerid": "me"})
            return answer.json() if answer.status_code == 200 and answer.content else None

        found: Task = await self.session.until(look, f"a task {name}")
        return found

    async def do(self, name: str, status: str = "COMPLETED", output: dict[str, Any] | None = None) -> Task:
        """Take the next task of a type and report it; its output says which one it was."""
        task = await self.take(name)
        result = {
            "taskId": task["taskId"],
            "workflowInstanceId": task["workflowInstanceId"],
            "workerId": "me",
            "status": status,
            "outputData": {"did": task["referenceTaskName"]} if output is None else output,
        }
        await self._done(self.http.post("/tasks", json=result))
        return task

    # -- what people do

    async def post(self, path: str, expected: int, **more: Any) -> httpx.Response:
        answer = await self.http.post(path, **more)
        assert answer.status_code == expected, answer.text
        return answer

    # -- looking

    async def workflow(self, workflow_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self._done(self.http.get(f"/workflow/{workflow_id}"))).json()
        return found

    async def when(self, workflow_id: str, is_so: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The workflow, as soon as it is so."""

        async def look() -> Any:
            found = await self.workflow(workflow_id)
            return found if is_so(found) else None

        found: dict[str, Any] = await self.session.until(look, what)
        return found

    async def ended(self, workflow_id: str, status: str) -> dict[str, Any]:
        found = await self.when(workflow_id, lambda one: one["status"] not in ("RUNNING", "PAUSED"), "the end")
        assert found["status"] == status, found.get("reasonForIncompletion")
        return found

    async def task_is(self, workflow_id: str, ref: str, *statuses: str) -> Task:
        """The newest task of that name, as soon as it has one of these statuses."""

        def is_so(found: dict[str, Any]) -> bool:
            task = last(found, ref)
            return task is not None and task["status"] in statuses

        found = await self.when(workflow_id, is_so, f"{ref} to be {' or '.join(statuses)}")
        return last(found, ref) or {}

    async def _done(self, asked: Any) -> httpx.Response:
        answer: httpx.Response = await asked
        assert answer.status_code == 200, answer.text
        return answer


def last(workflow: dict[str, Any], ref: str) -> Task | None:
    """The newest task of that name."""
    return next((one for one in reversed(workflow["tasks"]) if one["referenceTaskName"] == ref), None)


def shape(workflow: dict[str, Any]) -> list[tuple[str, str, int]]:
    """The task list, in order: reference name, status, how often it was tried before."""
    return [(one["referenceTaskName"], one["status"], one["retryCount"]) for one in workflow["tasks"]]
