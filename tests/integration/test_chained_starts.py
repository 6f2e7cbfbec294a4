"""Endless chains of workflows that start each other are ended; chains with waits go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.workflows import start_chains
from tests.integration.test_system_tasks import ended, wait_until

LIMIT = 12
STOPPED = f"{LIMIT} workflows have started each other without waiting for anything"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setattr(start_chains, "MAX_CHAINED_STARTS", LIMIT)
    with Coordinator() as found, httpx.Client(base_url=found.url, timeout=60) as client:
        yield client


def task(kind: str, ref: str, **given: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": given}


def starts(name: str, ref: str = "s") -> dict[str, Any]:
    return task("START_WORKFLOW", ref, startWorkflow={"name": name})


def define(api: httpx.Client, name: str, *tasks: dict[str, Any], **fields: Any) -> None:
    answer = api.post("/metadata/workflow", json={"name": name, "tasks": tasks, **fields})
    assert answer.status_code == 200, answer.text


def all_over(api: httpx.Client) -> list[dict[str, Any]]:
    """All workflows, once none is running: whatever started them has come to an end."""

    def look() -> Any:
        found = api.get("/workflow/search", params={"size": 1000}).json()["results"]
        return None if any(one["status"] == "RUNNING" for one in found) else found

    found: list[dict[str, Any]] = wait_until(look)
    return found


@pytest.mark.parametrize(
    "tasks",
    [
        [starts("again")],
        [starts("again", "a"), starts("again", "b")],
        [task("INLINE", "i", evaluatorType="javascript", expression="1"), starts("again")],
        [{**task("SUB_WORKFLOW", "sub"), "subWorkflowParam": {"name": "inner"}}],
    ],
    ids=["chain", "tree", "script", "sub-workflow"],
)
def test_workflows_that_start_themselves_come_to_an_end_a12(api: httpx.Client, tasks: list[dict[str, Any]]) -> None:
    define(api, "inner", starts("again"))
    define(api, "again", *tasks)
    api.post("/workflow/again", json={})
    found = all_over(api)
    assert len([one for one in found if one["workflowType"] == "again"]) == LIMIT + 1
    assert any(STOPPED in one.get("reasonForIncompletion", "") for one in found if one["status"] == "FAILED")


def test_events_that_publish_themselves_come_to_an_end_a12(api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    define(api, "tells", {**task("EVENT", "e"), "sink": "conductor:again"})
    action = {"action": "start_workflow", "start_workflow": {"name": "tells"}}
    handler = {"name": "h", "event": "conductor:tells:again", "active": True, "actions": [action]}
    assert api.post("/event", json=handler).status_code == 200
    api.post("/workflow/tells", json={})
    wait_until(lambda: STOPPED in caplog.text)
    assert len(all_over(api)) == LIMIT + 1


def test_failure_workflows_that_start_what_failed_come_to_an_end_a12(
    api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    define(api, "fails", task("TERMINATE", "t", terminationStatus="FAILED"), failureWorkflow="repairs")
    define(api, "repairs", starts("fails"))
    api.post("/workflow/fails", json={})
    wait_until(lambda: STOPPED in caplog.text)
    assert len(all_over(api)) == LIMIT + 1


@pytest.mark.parametrize("inner", [False, True], ids=["itself", "in a sub-workflow"])
def test_workflows_that_wait_before_they_start_the_next_go_on_for_ever_a12(api: httpx.Client, *, inner: bool) -> None:
    define(api, "works", task("SIMPLE", "work"))
    first = {**task("SUB_WORKFLOW", "sub"), "subWorkflowParam": {"name": "works"}} if inner else task("SIMPLE", "work")
    define(api, "again", first, starts("again"))
    api.post("/workflow/again", json={})
    for _ in range(2 * LIMIT):
        polled = wait_until(lambda: api.get("/tasks/poll/batch/work", params={"timeout": 1000}).json())
        about = {name: polled[0][name] for name in ("taskId", "workflowInstanceId")}
        assert api.post("/tasks", json={**about, "status": "COMPLETED"}).status_code == 200
    statuses = {one["status"] for one in api.get("/workflow/search", params={"size": 1000}).json()["results"]}
    assert statuses <= {"COMPLETED", "RUNNING"}


def test_one_workflow_may_start_many_after_each_wait_a12(api: httpx.Client) -> None:
    define(api, "leaf", task("SET_VARIABLE", "v", a=1))
    wait = task("WAIT", "w", duration="1 seconds")
    branches = [[starts("leaf", f"s{number}")] for number in range(LIMIT - 2)]
    more = [[starts("leaf", f"t{number}")] for number in range(LIMIT - 2)]
    fork = {**task("FORK_JOIN", "f"), "forkTasks": branches}
    again = {**task("FORK_JOIN", "g"), "forkTasks": more}
    joins = [{**task("JOIN", f"j{number}"), "joinOn": []} for number in range(2)]
    define(api, "batch", fork, joins[0], wait, again, joins[1])
    workflow = api.post("/workflow/batch", json={}).text
    assert ended(api, workflow)["status"] == "COMPLETED"
