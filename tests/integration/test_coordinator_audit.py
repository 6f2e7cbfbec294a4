"""The audit trail: every kind of action is there after a kill, with key, address, workflow and reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.coordinator import Coordinator
from conductor.coordinator.audit import Action
from conductor.coordinator.http.routes import ROUTES
from conductor.coordinator.http.routing import RouteTable
from conductor.testing import FakeClock
from tests.unit.cli.program import CLI, Program, url_in

pytestmark = pytest.mark.xdist_group("audit")

FLOW = {"name": "flow", "version": 1, "tasks": [{"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}]}
START_FLOW = {"action": "start_workflow", "start_workflow": {"name": "flow"}}
HANDLER = {"name": "handler", "event": "conductor:flow:x", "actions": [START_FLOW], "active": True}
SCHEDULE = {"name": "yearly", "cronExpression": "0 0 0 1 1 ?", "startWorkflowRequest": {"name": "flow"}}


#: Routes that change something, or may do so, and leave no entry of their own.
UNRECORDED = {
    # Polls and log lines of workers. Reports of workers are recorded only if the worker did not poll the task.
    *("GET /api/tasks/poll/{type}", "GET /api/tasks/poll/batch/{type}", "POST /api/tasks/poll/batch/{type}"),
    *("POST /api/tasks", "POST /api/tasks/update-v2", "POST /api/tasks/reports", "POST /api/tasks/{taskId}/log"),
    # They read.
    *("POST /api/metadata/workflow/validate", "POST /api/workflow/{name}/correlated", "POST /api/workflow/bulk/search"),
    *("POST /api/secrets", "POST /api/workflow/test"),
    # They have nothing to do on a coordinator.
    *("GET /api/scheduler/admin/requeue", "POST /api/admin/consistency/verifyAndRepair/{workflowId}"),
}
CHANGING = {f"{one.method} {one.path}" for one in ROUTES if one.changes_something(one.method)} - UNRECORDED


class Client:
    """An HTTP client that expects every call to succeed, and an entry for each call of a recorded route."""

    def __init__(self, http: httpx.Client, *, finds_entries: bool = False) -> None:
        self.http = http
        self.routes = RouteTable(ROUTES)
        #: The routes that were called.
        self.called: set[str] = set()
        self.finds_entries = finds_entries

    def __call__(self, method: str, path: str, body: Any = None) -> httpx.Response:
        route, _ = self.routes.find(method, f"/api/{path}".partition("?")[0].encode())
        name = f"{route.method} {route.path}"
        before = self.entries() if self.finds_entries else []
        content = b"" if body is None else json.dumps(body)
        answer = self.http.request(method, path, content=content, headers={"Content-Type": "application/json"})
        assert answer.is_success, (method, path, answer.text)
        if self.finds_entries:
            assert (len(self.entries()) > len(before)) or name not in CHANGING, f"{name} has no entry"
        self.called.add(name)
        return answer

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, the newest first."""
        return list(self.http.get("view/audit?size=1000").raise_for_status().json()["entries"])

    def actions(self, workflow_id: str) -> list[str]:
        """Return the recorded actions on one workflow, the newest first."""
        return [one["action"] for one in self.http.get(f"view/audit?workflowId={workflow_id}").json()["entries"]]

    def open_task(self, workflow_id: str) -> str:
        """Return the id of the open task of a workflow."""
        tasks = self.http.get(f"workflow/{workflow_id}").json()["tasks"]
        (task_id,) = [task["taskId"] for task in tasks if task["status"] in ("SCHEDULED", "IN_PROGRESS")]
        return str(task_id)


def serve(tmp_path: Path) -> Program:
    """Return a coordinator in a process of its own. Leaving its block kills it."""
    environment = {**os.environ, "CONDUCTOR_AUTH_KEY": "root", "CONDUCTOR_AUTH_SECRET": "root-secret"}
    return Program([*CLI, "serve", "--port", "0", "--database", str(tmp_path / "c.db")], tmp_path, env=environment)


def log_in(http: httpx.Client) -> None:
    token = http.post("token", json={"keyId": "root", "keySecret": "root-secret"}).json()["token"]
    http.headers["X-Authorization"] = token


def test_every_changing_route_leaves_an_entry_that_survives_a_kill_o09(tmp_path: Path) -> None:
    with serve(tmp_path) as program, httpx.Client(base_url=url_in(program.line_with("Coordinator at"))) as http:
        http.timeout = 120
        log_in(http)
        call = Client(http, finds_entries=True)
        register(call)
        act_on_workflows(call)
        update_tasks(call)
        change_settings(call)
        assert call.called >= CHANGING
        answered = call.entries()
    with (
        Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as coordinator,
        httpx.Client(base_url=coordinator.url, timeout=60) as http,
    ):
        log_in(http)
        entries = Client(http).entries()
    assert entries == answered
    assert {entry["action"] for entry in entries} == set(Action)
    assert {entry["key"] for entry in entries if entry["action"] != Action.UPDATE_TASK} == {"root"}


def register(call: Client) -> None:
    """Register the workflows `flow` (two WAITs) and `works`, and change other definitions."""
    waits = [{"name": ref, "taskReferenceName": ref, "type": "WAIT"} for ref in ("first", "second")]
    work = {"name": "works", "version": 1, "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    schema = {"name": "schema", "version": 1, "type": "JSON", "data": {"type": "object"}}
    call("POST", "metadata/workflow", {"name": "flow", "version": 1, "tasks": waits})
    call("PUT", "metadata/workflow", [work, {**work, "version": 2}])
    call("DELETE", "metadata/workflow/works/2")
    call("POST", "metadata/taskdefs", [{"name": "work"}, {"name": "other"}])
    call("PUT", "metadata/taskdefs", {"name": "work"})
    call("PUT", "metadata/taskdefs/other", {"name": "other"})
    call("DELETE", "metadata/taskdefs/other")
    call("POST", "schema", [schema, {**schema, "version": 2}])
    call("DELETE", "schema/schema/2")
    call("DELETE", "schema/schema")
    call("POST", "event", HANDLER)
    call("PUT", "event", HANDLER)
    call("DELETE", "event/handler")


def act_on_workflows(call: Client) -> None:
    one = call("POST", "workflow/flow", {}).text
    two = call("POST", "workflow", {"name": "flow"}).text
    three, four = call("POST", "workflow/start/bulk", [{"name": "flow"}, {"name": "flow"}]).json()
    for action in ("pause", "resume"):
        call("PUT", f"workflow/bulk/{action}", [two, three])
        call("PUT", f"workflow/{one}/{action}")
    assert call.actions(two) == ["resume", "pause", "start"]
    call("PUT", f"workflow/{one}/skiptask/second", {})
    call("POST", f"workflow/{one}/resetcallbacks")
    call("PUT", f"workflow/decide/{one}")
    call("POST", f"admin/sweep/requeue/{one}")
    assert call.actions(one)[:2] == ["decide", "decide"]
    call("POST", f"workflow/{one}/messages", {"name": "paid"})
    call("POST", f"workflow/{one}/variables", {"paid": True})
    call("PUT", f"workflow/{one}/variables", {"paid": True})
    call("DELETE", f"workflow/{two}")
    call("POST", f"workflow/{two}/retry")
    call("POST", "workflow/bulk/terminate", [two, three, four])
    call("POST", f"workflow/{two}/restart")
    call("DELETE", f"workflow/{two}")
    call("POST", "workflow/bulk/restart", [two])
    call("DELETE", f"workflow/{two}")
    call("POST", f"workflow/{two}/rerun", {})
    call("DELETE", f"workflow/{two}")
    call("POST", "workflow/bulk/retry", [two])
    call("DELETE", "workflow/bulk/terminate-remove", [two])
    assert call.actions(two)[:3] == ["terminate remove", "retry", "terminate"]
    call("DELETE", "workflow/bulk/remove", [three])
    call("DELETE", f"workflow/{four}/remove")
    call("DELETE", f"workflow/{one}/terminate-remove")
    assert call.actions(three)[:2] == ["remove", "terminate"]


def update_tasks(call: Client) -> None:
    # A WAIT that is completed through the route of workers is recorded. The report of a worker is not.
    one = call("POST", "workflow/flow", {}).text
    report = {"taskId": call.open_task(one), "workflowInstanceId": one, "status": "COMPLETED"}
    call("POST", "tasks", report)
    assert call.actions(one) == ["update task", "start"]
    call("POST", "tasks", report)
    assert call.actions(one) == ["update task", "start"], "a repeated report changes nothing"
    call("POST", "tasks/update-v2", {**report, "taskId": call.open_task(one)})
    assert call.actions(one) == ["update task", "update task", "start"]
    # So is the end of a task for workers that no worker has polled.
    unpolled = call("POST", "workflow/works", {}).text
    by_hand = {**report, "taskId": call.open_task(unpolled), "workflowInstanceId": unpolled}
    call("POST", "tasks", by_hand)
    assert call.actions(unpolled) == ["update task", "start"]
    late = call.http.post(f"queue/update/{unpolled}/task/{by_hand['taskId']}/FAILED", json={})
    assert late.status_code == 200
    assert call.actions(unpolled) == ["update task", "start"], "an update of an ended task changes nothing"
    worked = call("POST", "workflow/works", {}).text
    assert call("POST", "tasks/queue/requeue/work").text == "1"
    task = call("GET", "tasks/poll/work").json()
    ids = {"taskId": task["taskId"], "workflowInstanceId": worked}
    call("POST", "tasks", {**report, **ids, "leaseId": task["leaseId"]})
    assert call.actions(worked) == ["start"]
    # The key of an operator polls no tasks, so each of its reports is made by hand.
    made = call("POST", "keys", {"name": "ben", "roles": ["operator"]}).json()
    call("POST", f"workflow/{worked}/restart")
    task = call("GET", "tasks/poll/work").json()
    own = call.http.post("token", json={"keyId": "ben", "keySecret": made["secret"]}).json()["token"]
    by_hand = {**report, "taskId": task["taskId"], "workflowInstanceId": worked}
    for status in ("IN_PROGRESS", "COMPLETED", "COMPLETED"):  # the repeated report changes nothing
        body = [{**by_hand, "status": status}]
        (answer,) = call.http.post("tasks/reports", json=body, headers={"X-Authorization": own}).json()
        assert answer["status"] == 200
    assert call.actions(worked) == ["update task", "update task", "restart", "start"]
    for path in (
        "tasks/{id}/first/COMPLETED",
        "tasks/{id}/first/COMPLETED/sync",
        "tasks/{id}/COMPLETED/signal",
        "tasks/{id}/COMPLETED/signal/sync?timeoutMillis=0",
        "queue/update/{id}/first/COMPLETED",
        "queue/update/{id}/task/{task}/COMPLETED",
    ):
        started = call("POST", "workflow/execute/flow/1?waitForSeconds=0", {}).json()["workflowId"]
        call("POST", path.format(id=started, task=call.open_task(started)), {})
        assert call.actions(started) == ["update task", "start"]


def change_settings(call: Client) -> None:
    call("PUT", "secrets/TOKEN", "hidden")
    call("DELETE", "secrets/TOKEN")
    call("POST", "scheduler/schedules", SCHEDULE)
    call("PUT", "scheduler/schedules/yearly/pause")
    call("PUT", "scheduler/schedules/yearly/resume")
    call("PUT", "scheduler/bulk/pause", ["yearly"])
    call("PUT", "scheduler/bulk/resume", ["yearly"])
    call("GET", "scheduler/admin/pause")
    call("GET", "scheduler/admin/resume")
    call("DELETE", "scheduler/schedules/yearly")
    call("POST", "keys/ben/rotate", {})
    call("DELETE", "keys/ben")
    call("POST", "admin/vacuum")
    call("PUT", "secrets/LAST", "hidden")  # the kill follows the answer to this action


def test_names_and_reasons_are_bounded_and_exported_one_per_line_o09(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = 'a\r\nb\u2028c\x1b[31m\x9b31m\u202e"},{\U0001f600'
    with Coordinator(tmp_path / "c.db") as coordinator, httpx.Client(base_url=coordinator.url) as http:
        call = Client(http)
        call("DELETE", f"scheduler/schedules/{quote(hostile, safe='')}")
        call("DELETE", f"scheduler/schedules/{'x' * 20_000}")
        call("POST", "metadata/workflow", FLOW)
        started = call("POST", "workflow/flow", {}).text
        call("DELETE", f"workflow/{started}?reason={quote(hostile)}{'r' * 20_000}&workerid={'w' * 20_000}")
        entries = call.entries()
        assert run_command(["audit", "--all", "--json", "--url", coordinator.url]) == 0
        exported = capsys.readouterr().out
        assert run_command(["audit", "--url", coordinator.url]) == 0
        shown = capsys.readouterr().out
    assert [json.loads(line) for line in exported.splitlines()] == entries
    assert exported.isascii()
    assert not {"\x1b", "\x9b", "\u2028", "\u202e"} & set(shown)
    terminated, _, _, long, strange = entries
    assert strange["subject"] == hostile
    assert long["subject"] == "x" * 500
    assert (terminated["reason"], terminated["workerId"]) == ((hostile + "r" * 500)[:500], "w" * 500)


def test_entries_have_address_reason_and_workflow_and_are_read_page_by_page_o09(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(tmp_path) as program:
        url = url_in(program.line_with("Coordinator at"))
        with httpx.Client(base_url=url, timeout=60) as http:
            token = http.post("token", json={"keyId": "root", "keySecret": "root-secret"}).json()["token"]
            http.headers["X-Authorization"] = token
            call = Client(http)
            call("POST", "metadata/workflow", FLOW)
            call("PUT", "metadata/workflow", [FLOW])
            call("POST", "metadata/taskdefs", [{"name": "work"}])
            call("PUT", "metadata/taskdefs", {"name": "work"})
            started = call("POST", "workflow/flow", {}).text
            (bulk,) = call("POST", "workflow/start/bulk", [{"name": "flow"}]).json()
            call("PUT", f"workflow/{started}/pause")
            call("PUT", f"workflow/{started}/resume")
            http.headers["X-Forwarded-For"] = "10.0.0.1, 203.0.113.7"
            call("DELETE", f"workflow/{started}?reason=wrong+customer")
            del http.headers["X-Forwarded-For"]
            call("POST", f"workflow/{started}/retry")
            call("DELETE", f"workflow/{started}")
            call("POST", f"workflow/{started}/restart")
            call("DELETE", f"workflow/{started}")
            call("POST", f"workflow/{started}/rerun", {})
            call("POST", f"tasks/{started}/wait/COMPLETED?workerid=ada", {})
            call("POST", "workflow/bulk/terminate?reason=bulk", [bulk])
            call("DELETE", f"workflow/{bulk}/remove")
            call("PUT", "secrets/TOKEN", "hidden-value")
            call("DELETE", "secrets/TOKEN")
            call("POST", "scheduler/schedules", SCHEDULE)
            call("PUT", "scheduler/schedules/yearly/pause?reason=rain")
            call("PUT", "scheduler/schedules/yearly/resume")
            call("DELETE", "scheduler/schedules/yearly")
            call("POST", "keys", {"name": "w", "roles": ["worker"]})
            call("POST", "keys/w/rotate", {})
            call("DELETE", "keys/w")
            call("DELETE", "metadata/taskdefs/work")
            call("DELETE", "metadata/workflow/flow/1")
            refused = http.put(f"workflow/{started}/pause")
            assert not refused.is_success
    with Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as again:
        entries: list[Any] = []
        before: str | None = ""
        pages = 0
        with httpx.Client(base_url=again.url, headers={"X-Authorization": token}) as http:
            while before is not None:
                page = http.get(f"/view/audit?size=4&before={before}").json()
                entries += page["entries"]
                before, pages = page["next"], pages + 1
            of_one = http.get(f"/view/audit?workflowId={started}").json()["entries"]
            of_removed = http.get(f"/view/audit?workflowId={bulk}").json()["entries"]
            paged: list[Any] = []
            before = ""
            while before is not None:
                page = http.get(f"/view/audit?workflowId={started}&size=3&before={before}").json()
                assert len(page["entries"]) <= 3
                paged += page["entries"]
                before = page["next"]
            assert paged == of_one
            found = http.get(f"/view/audit?workflowId={started}&action=terminate&key=root").json()["entries"]
            assert found == [one for one in of_one if one["action"] == "terminate"]
            assert http.get(f"/view/audit?workflowId={started}&key=nobody").json()["entries"] == []
            assert http.get("/view/audit?workflowId=nothing").status_code == 404
            assert http.get("/view/audit?before=x").status_code == 400
            found = http.get("/view/audit?action=set secret").json()["entries"]
            assert [one["action"] for one in found] == ["set secret"]
            assert http.get("/view/audit?key=nobody").json()["entries"] == []
            monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "root")
            monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "root-secret")
            monkeypatch.setattr(Configuration, "AUTH_TOKEN", None, raising=False)
            assert run_command(["audit", "--all", "--json", "--url", again.url]) == 0
            assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == entries
            assert run_command(["audit", "--limit", "1", "--url", again.url]) == 0
            assert "delete workflow definition" in capsys.readouterr().out
    assert pages > 5
    times = [entry["atMs"] for entry in entries]
    assert times == sorted(times, reverse=True)
    # A start and another action in one millisecond are listed in either order.
    actions = [entry["action"] for entry in reversed(entries)]
    assert actions.count("start") == 2
    assert [action for action in actions if action != "start"] == [
        "register workflow definition", "register workflow definition", "register task definition",
        "update task definition", "pause", "resume", "terminate", "retry", "terminate", "restart",
        "terminate", "rerun", "update task", "terminate", "remove", "set secret", "delete secret", "save schedule",
        "pause schedule", "resume schedule", "delete schedule", "create key", "rotate key", "revoke key",
        "delete task definition", "delete workflow definition",
    ]  # fmt: skip
    assert {entry["key"] for entry in entries} == {"root"}
    terminated = next(entry for entry in entries if entry.get("reason") == "wrong customer")
    assert terminated["address"] == "203.0.113.7 via 127.0.0.1"
    assert (terminated["workflowId"], terminated["subject"]) == (started, "flow")
    updated = next(entry for entry in entries if entry["action"] == "update task")
    assert (updated["workerId"], updated["reason"]) == ("ada", "wait: COMPLETED")
    assert [entry["action"] for entry in of_one][-1] == "start"
    assert [entry["action"] for entry in of_removed] == ["remove", "terminate", "start"]
    assert b"hidden-value" not in (tmp_path / "c.db").read_bytes()


def test_old_entries_are_removed_and_an_open_coordinator_names_the_address_o09(tmp_path: Path) -> None:
    clock = FakeClock()
    with (
        Coordinator(tmp_path / "c.db", clock=clock, keep_audit_s=3600) as coordinator,
        httpx.Client(base_url=coordinator.url) as http,
    ):
        Client(http)("PUT", "secrets/OLD", "x")
        (entry,) = http.get("/view/audit").json()["entries"]
        assert "key" not in entry
        assert entry["address"] == "127.0.0.1"
        clock.advance(3601)
        while http.get("/view/audit").json()["entries"]:
            clock.advance(3601)
