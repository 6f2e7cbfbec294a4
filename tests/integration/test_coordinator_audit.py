"""The audit trail: every kind of action is there after a kill, with key, address, workflow and reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.coordinator import Coordinator
from conductor.coordinator.audit import Action
from conductor.testing import FakeClock
from tests.unit.cli.program import CLI, Program, url_in

pytestmark = pytest.mark.xdist_group("audit")

FLOW = {"name": "flow", "version": 1, "tasks": [{"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}]}
START_FLOW = {"action": "start_workflow", "start_workflow": {"name": "flow"}}
HANDLER = {"name": "handler", "event": "conductor:flow:x", "actions": [START_FLOW], "active": True}
SCHEDULE = {"name": "yearly", "cronExpression": "0 0 0 1 1 ?", "startWorkflowRequest": {"name": "flow"}}


class Client:
    """An HTTP client that expects every call to succeed."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def __call__(self, method: str, path: str, body: Any = None) -> httpx.Response:
        content = b"" if body is None else json.dumps(body)
        answer = self.http.request(method, path, content=content, headers={"Content-Type": "application/json"})
        assert answer.is_success, (method, path, answer.text)
        return answer


def test_every_audited_action_is_recorded_with_its_key_o09(tmp_path: Path) -> None:
    wait_twice = [{"name": ref, "taskReferenceName": ref, "type": "WAIT"} for ref in ("first", "second")]
    flow = {"name": "flow", "version": 1, "tasks": wait_twice}
    work = {"name": "works", "version": 1, "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    schema = {"name": "schema", "version": 1, "type": "JSON", "data": {"type": "object"}}
    with (
        Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as coordinator,
        httpx.Client(base_url=coordinator.url, timeout=60) as http,
    ):
        token = http.post("/token", json={"keyId": "root", "keySecret": "root-secret"}).json()["token"]
        http.headers["X-Authorization"] = token
        call = Client(http)

        def list_actions(workflow_id: str) -> list[str]:
            return [one["action"] for one in http.get(f"/view/audit?workflowId={workflow_id}").json()["entries"]]

        call("POST", "metadata/workflow", flow)
        call("PUT", "metadata/workflow", [work])
        call("POST", "metadata/taskdefs", [{"name": "work"}])
        call("PUT", "metadata/taskdefs", {"name": "work"})
        call("POST", "schema", [schema])
        call("DELETE", "schema/schema")
        call("POST", "event", HANDLER)
        call("PUT", "event", HANDLER)
        call("DELETE", "event/handler")
        ids = [call("POST", "workflow/flow", {}).text for _ in range(3)]
        one, two, three = ids
        for action in ("pause", "resume"):
            call("PUT", f"workflow/bulk/{action}", [two, three])
            call("PUT", f"workflow/{one}/{action}")
        assert list_actions(two) == ["resume", "pause", "start"]
        call("PUT", f"workflow/{one}/skiptask/second", {})
        call("POST", f"workflow/{one}/resetcallbacks")
        call("PUT", f"workflow/decide/{one}")
        call("POST", f"workflow/{one}/messages", {"name": "paid"})
        call("POST", f"workflow/{one}/variables", {"paid": True})
        # A WAIT that is completed through the route of workers is recorded. The report of a worker is not.
        (waiting,) = [
            task for task in call("GET", f"workflow/{one}").json()["tasks"] if task["status"] == "IN_PROGRESS"
        ]
        report = {"taskId": waiting["taskId"], "workflowInstanceId": one, "status": "COMPLETED"}
        call("POST", "tasks", report)
        assert list_actions(one)[0] == "update task"
        call("POST", "tasks", report)
        assert list_actions(one).count("update task") == 1, "a repeated report changes nothing"
        worked = call("POST", "workflow/works", {}).text
        assert call("POST", "tasks/queue/requeue/work").text == "1"
        task = call("GET", "tasks/poll/work").json()
        call(
            "POST",
            "tasks",
            {**report, "taskId": task["taskId"], "workflowInstanceId": worked, "leaseId": task["leaseId"]},
        )
        assert list_actions(worked) == ["start"]
        # The key of an operator polls no tasks, so each of its reports is made by hand.
        made = call("POST", "keys", {"name": "ben", "roles": ["operator"]}).json()
        call("POST", f"workflow/{worked}/restart")
        task = call("GET", "tasks/poll/work").json()
        own = http.post("/token", json={"keyId": "ben", "keySecret": made["secret"]}).json()["token"]
        by_hand = {**report, "taskId": task["taskId"], "workflowInstanceId": worked}
        answers = http.post("/tasks/reports", json=[by_hand], headers={"X-Authorization": own}).json()
        assert answers[0]["status"] == 200
        assert list_actions(worked) == ["update task", "restart", "start"]
        call("DELETE", f"workflow/{two}")
        call("POST", "workflow/bulk/retry", [two])
        call("POST", "workflow/bulk/terminate", [two, three])
        call("POST", f"workflow/{two}/rerun", {})
        call("DELETE", "workflow/bulk/terminate-remove", [two])
        call("DELETE", "workflow/bulk/remove", [three])
        assert list_actions(two)[:3] == ["terminate remove", "rerun", "terminate"]
        assert list_actions(three)[:2] == ["remove", "terminate"]
        call("PUT", "secrets/TOKEN", "hidden")
        call("DELETE", "secrets/TOKEN")
        call("POST", "scheduler/schedules", SCHEDULE)
        call("PUT", "scheduler/bulk/pause", ["yearly"])
        call("PUT", "scheduler/bulk/resume", ["yearly"])
        call("GET", "scheduler/admin/pause")
        call("GET", "scheduler/admin/resume")
        call("DELETE", "scheduler/schedules/yearly")
        call("POST", "keys/ben/rotate", {})
        call("DELETE", "keys/ben")
        call("DELETE", "metadata/taskdefs/work")
        call("DELETE", "metadata/workflow/flow/1")
        entries = http.get("/view/audit?size=1000").json()["entries"]
    assert {entry["action"] for entry in entries} == set(Action)
    assert {entry["key"] for entry in entries if entry["action"] != Action.UPDATE_TASK} == {"root"}


def test_every_kind_of_action_is_audited_and_survives_a_kill_o09(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "CONDUCTOR_AUTH_KEY": "root", "CONDUCTOR_AUTH_SECRET": "root-secret"}
    command = [*CLI, "serve", "--port", "0", "--database", str(tmp_path / "c.db")]
    with Program(command, tmp_path, env=environment) as program:  # leaving the block kills it
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
    assert [entry["action"] for entry in reversed(entries)] == [
        "register workflow definition", "register workflow definition", "register task definition",
        "update task definition", "start", "start", "pause", "resume", "terminate", "retry", "terminate", "restart",
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
