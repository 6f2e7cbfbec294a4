"""The stub server: it behaves as a Conductor server, except for the faults that a test scripts."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.http.models import Task
from conductor.protocol.wire import Verdict
from conductor.testing import (
    CloseAfter,
    ConductorStub,
    Delay,
    FakeClock,
    HalfOpen,
    Judge,
    Malformed,
    Pass,
    Reset,
    Status,
)


@pytest.fixture
def client(conductor_stub: ConductorStub) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=conductor_stub.url, trust_env=False) as client:
        yield client


@pytest.fixture
async def async_client(conductor_stub: ConductorStub) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=conductor_stub.url, trust_env=False) as client:
        yield client


def poll(client: httpx.Client, task_type: str = "greet", **query: Any) -> list[Task]:
    answer = client.get(f"/tasks/poll/batch/{task_type}", params={"count": 10, "timeout": 0} | query)
    assert answer.status_code == 200
    return Task.decode_list(answer.content)


def report(client: httpx.Client, task: Task, status: str = "COMPLETED", **fields: Any) -> httpx.Response:
    ids = {"taskId": task.task_id, "workflowInstanceId": task.workflow_instance_id, "leaseId": task.lease_id}
    return client.post("/tasks", json=ids | {"status": status} | fields)


# -- a Conductor server ----------------------------------------------------------------------------------------------


def test_a_task_from_poll_to_result(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet", {"name": "Ada"}, retry_count=2, workflow_instance_id="w")
    (task,) = poll(client, workerid="me")
    assert (task.task_id, task.task_type, task.status, task.worker_id) == (task_id, "greet", "IN_PROGRESS", "me")
    assert (task.input_data, task.retry_count, task.poll_count) == ({"name": "Ada"}, 2, 1)
    assert task.lease_id is None, "a Conductor server has no leases"
    assert poll(client) == []

    answer = report(client, task, outputData={"greeting": "hello"}, logs=[{"log": str(n)} for n in range(12)])
    assert (answer.status_code, answer.text) == (200, task_id)
    assert answer.headers["content-type"].startswith("text/plain")
    assert "conductor-verdict" not in answer.headers
    (result,) = conductor_stub.results
    assert result["outputData"] == {"greeting": "hello"}
    assert conductor_stub.results_for(task_id) == [result]
    assert conductor_stub.task(task_id).status == "COMPLETED"
    assert conductor_stub.logs(task_id) == [str(n) for n in range(10)], "ten lines a report are kept"


def test_a_single_poll_gets_one_task(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    assert client.get("/tasks/poll/greet").status_code == 204
    task_id = conductor_stub.add_task("greet")
    assert client.get("/tasks/poll/greet").json()["taskId"] == task_id


def test_domains_are_queues_of_their_own(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet", domain="blue")
    assert poll(client) == poll(client, domain="") == poll(client, domain="red") == []
    assert [task.task_id for task in poll(client, domain="blue")] == [task_id]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_batch_is_at_most_what_was_asked_for(
    conductor_stub: ConductorStub, client: httpx.Client, method: str
) -> None:
    ids = [conductor_stub.add_task("greet") for _ in range(5)]
    first = client.request(method, "/tasks/poll/batch/greet", params={"count": 3}).json()
    rest = client.request(method, "/tasks/poll/batch/greet", params={"count": 3}).json()
    assert [[task["taskId"] for task in batch] for batch in (first, rest)] == [ids[:3], ids[3:]]


async def test_a_long_poll_rings_when_work_arrives(
    conductor_stub: ConductorStub, async_client: httpx.AsyncClient
) -> None:
    polling = asyncio.create_task(async_client.get("/tasks/poll/batch/greet", params={"timeout": 5000, "count": 4}))
    await conductor_stub.until(lambda: conductor_stub.parked_polls == 1)
    conductor_stub.add_task("other")
    task_id = conductor_stub.add_task("greet")
    assert [task["taskId"] for task in (await polling).json()] == [task_id]


async def test_a_task_is_not_given_to_a_poll_whose_client_has_left(conductor_stub: ConductorStub) -> None:
    with socket.create_connection(("127.0.0.1", conductor_stub.port)) as gone:
        gone.sendall(b"GET /api/tasks/poll/batch/greet?timeout=5000 HTTP/1.1\r\nHost: x\r\n\r\n")
        await conductor_stub.until(lambda: conductor_stub.parked_polls == 1)
    await conductor_stub.until(lambda: conductor_stub.parked_polls == 0)
    task_id = conductor_stub.add_task("greet")
    assert conductor_stub.task(task_id).status == "SCHEDULED"


async def test_a_partial_batch_is_held_where_an_sql_store_would(fake_clock: FakeClock) -> None:
    with ConductorStub(hold_partial_batches=True, clock=fake_clock) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            server.add_task("greet")
            polling = asyncio.create_task(client.get("/tasks/poll/batch/greet", params={"timeout": 2000, "count": 2}))
            assert await fake_clock.advance_to_next() == 2
            assert len((await polling).json()) == 1


async def test_long_polls_and_callbacks_follow_the_given_clock(fake_clock: FakeClock) -> None:
    with ConductorStub(clock=fake_clock) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            task_id = server.add_task("greet", workflow_instance_id="w")
            await client.get("/tasks/poll/greet")
            body = {"taskId": task_id, "workflowInstanceId": "w", "status": "IN_PROGRESS", "callbackAfterSeconds": 3}
            await client.post("/tasks", json=body)
            assert server.task(task_id).status == "SCHEDULED"
            polling = asyncio.create_task(client.get("/tasks/poll/batch/greet", params={"timeout": 5000}))
            assert await fake_clock.advance_to_next() == 3
            (task,) = (await polling).json()
            assert (task["taskId"], task["pollCount"], task["callbackAfterSeconds"]) == (task_id, 2, 0)
            assert fake_clock.sleeps == [], "the stub's waits are its own"


def test_postponed_tasks_can_be_called_back_at_once(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet")
    (task,) = poll(client)
    report(client, task, "IN_PROGRESS", callbackAfterSeconds=3600, outputData={"half": 1})
    assert poll(client) == []
    assert conductor_stub.requeue_postponed() == [task_id]
    (again,) = poll(client)
    assert (again.task_id, again.poll_count, again.output_data) == (task_id, 2, {"half": 1})
    report(client, again, "IN_PROGRESS")
    assert [task.poll_count for task in poll(client)] == [3], "no callback time: pollable at once"


def test_the_server_refuses_a_poll_that_waits_too_long(client: httpx.Client) -> None:
    answer = client.get("/tasks/poll/batch/greet", params={"timeout": 5001})
    assert answer.status_code == 400
    assert answer.json()["message"] == "Long Poll Timeout value cannot be more than 5 seconds"


BAD_REPORTS = [
    ({"status": "COMPLETED"}, 400, "Validation failed"),
    (
        {"taskId": "t", "workflowInstanceId": "unknown", "status": "COMPLETED"},
        404,
        "No such workflow found by id: unknown",
    ),
    ({"taskId": "unknown", "workflowInstanceId": "w", "status": "COMPLETED"}, 404, "No such task found by id: unknown"),
    ({"taskId": "t", "workflowInstanceId": "w"}, 500, "status"),
    ({"taskId": "t", "workflowInstanceId": "w", "status": "TIMED_OUT"}, 500, "TIMED_OUT"),
    ({"taskId": "unknown", "workflowInstanceId": "w", "extendLease": True}, 404, "No such task found by id: unknown"),
    (["no object"], 500, "JSON object"),
]


@pytest.mark.parametrize(("body", "status", "message"), BAD_REPORTS)
def test_bad_reports_get_conductors_errors(
    conductor_stub: ConductorStub, client: httpx.Client, body: Any, status: int, message: str
) -> None:
    conductor_stub.add_task("greet", task_id="t", workflow_instance_id="w")
    answer = client.post("/tasks", json=body)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert message in answer.json()["message"]
    assert answer.json()["retryable"] is False
    assert conductor_stub.results == []


def test_a_late_result_is_answered_and_thrown_away(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet")
    (task,) = poll(client)
    conductor_stub.set_status(task_id, "CANCELED")
    assert report(client, task, outputData={"late": True}).status_code == 200
    assert conductor_stub.task(task_id).status == "CANCELED"
    assert conductor_stub.task(task_id).output_data == {}
    assert len(conductor_stub.results) == 1, "it was answered with a success, so the test sees it"


def test_a_heartbeat_changes_nothing_but_the_time(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet")
    (task,) = poll(client)
    answer = report(client, task, "COMPLETED", extendLease=True)
    assert (answer.status_code, answer.text) == (200, task_id)
    assert conductor_stub.task(task_id).status == "IN_PROGRESS"
    assert [beat["taskId"] for beat in conductor_stub.heartbeats] == [task_id]
    assert conductor_stub.results == []
    conductor_stub.set_status(task_id, "CANCELED")
    assert report(client, task, extendLease=True).status_code == 200, "a Conductor server accepts every heartbeat"


def test_reading_a_task_and_its_logs(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    task_id = conductor_stub.add_task("greet")
    assert client.get(f"/tasks/{task_id}").json()["status"] == "SCHEDULED"
    missing = client.get("/tasks/unknown")
    assert (missing.status_code, missing.json()["message"]) == (404, "Task not found for taskId: unknown")
    assert client.get(f"/tasks/{task_id}/log").status_code == 204
    client.post(f"/tasks/{task_id}/log", content="a line")
    assert client.get(f"/tasks/{task_id}/log").json()[0]["log"] == "a line"
    assert conductor_stub.logs(task_id) == ["a line"]


def test_the_stub_knows_the_sizes_of_queues(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    conductor_stub.add_task("greet")
    conductor_stub.add_task("greet", domain="blue")
    assert client.get("/tasks/queue/size", params={"taskType": "greet"}).json() == 1
    assert client.get("/tasks/queue/all").json() == {"greet": 1, "blue:greet": 1}


def test_the_stub_stores_task_definitions(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    url = "/metadata/taskdefs"
    assert client.put(url, json={"name": "greet"}).json()["message"] == "No such task by name greet"
    assert client.post(url, json=[{"name": "greet"}, {"name": "other"}]).status_code == 200
    assert client.put(url, json={"name": "greet", "retryCount": 1}).status_code == 200
    assert client.get(f"{url}/greet").json() == {"name": "greet", "retryCount": 1}
    assert client.delete(f"{url}/other").status_code == 200
    assert client.delete(f"{url}/other").status_code == 404
    assert client.get(f"{url}/other").status_code == 404
    assert client.get(url).json() == list(conductor_stub.task_defs.values()) == [{"name": "greet", "retryCount": 1}]
    assert client.post(url, json=[{}]).status_code == 400
    assert client.post(url, json={"name": "no array"}).status_code == 500
    assert client.put(f"{url}/greet", json={}).status_code == 405


def test_the_stub_stores_workflow_definitions(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    url = "/metadata/workflow"
    assert client.post(url, json={"name": "shop", "version": 1}).status_code == 200
    assert client.post(url, json={"name": "shop", "version": 1}).status_code == 409
    assert client.post(url, json={"name": "shop"}, params={"overwrite": "true"}).status_code == 200
    assert client.put(url, json=[{"name": "shop", "version": 2}]).json()["bulkSuccessfulResults"] == ["shop"]
    assert client.get(f"{url}/shop").json()["version"] == 2
    assert client.get(f"{url}/shop", params={"version": 3}).status_code == 404
    assert client.get(f"{url}/shop", params={"version": "x"}).status_code == 500
    assert client.delete(f"{url}/shop/2").status_code == 200
    assert list(conductor_stub.workflow_defs) == [("shop", 1)]
    assert len(client.get(url).json()) == 1


def test_schemas_are_absent_unless_asked_for(client: httpx.Client) -> None:
    assert client.post("/schema", json=[{"name": "s"}]).status_code == 404
    with ConductorStub(schemas=True) as server, httpx.Client(base_url=server.url, trust_env=False) as orkes:
        assert orkes.post("/schema", json=[{"name": "s", "version": 2}]).status_code == 200
        assert orkes.post("/schema", json={"name": "t"}).status_code == 200
        assert sorted(server.schemas) == [("s", 2), ("t", 1)]
        assert orkes.get("/schema/s/2").json() == {"name": "s", "version": 2}
        assert orkes.delete("/schema/s/2").status_code == 200
        assert orkes.get("/schema/s/2").status_code == orkes.delete("/schema/s/2").status_code == 404
        assert orkes.get("/schema").json() == [{"name": "t"}]


def test_workflows_are_remembered(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    first = client.post("/workflow", json={"name": "shop", "version": 2, "input": {"a": 1}, "correlationId": "c"}).text
    second = client.post("/workflow/shop", json={"b": 2}).text
    assert [(w.workflow_id, w.workflow_version, w.input) for w in conductor_stub.workflows] == [
        (first, 2, {"a": 1}),
        (second, 1, {"b": 2}),
    ]
    client.put(f"/workflow/{first}/pause")
    assert client.get(f"/workflow/{first}/status").json()["status"] == "PAUSED"
    client.put(f"/workflow/{first}/resume")
    client.delete(f"/workflow/{first}", params={"reason": "enough"})
    ended = client.get(f"/workflow/{first}").json()
    assert (ended["status"], ended["reasonForIncompletion"]) == ("TERMINATED", "enough")
    assert client.get("/workflow/unknown").status_code == 404
    assert client.post("/workflow", json={}).status_code == 400


def test_an_unknown_route_of_the_stub_is_a_404(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    assert client.get("/nonsense").json()["status"] == 404
    assert client.post("/token", json={}).status_code == 404, "no authentication: no such endpoint"
    assert client.post("/tasks/reports", json=[]).status_code == 405, "no coordinator: no batches"
    outside = httpx.get(f"http://127.0.0.1:{conductor_stub.port}/tasks/t", trust_env=False)
    assert outside.status_code == 404


# -- access tokens --------------------------------------------------------------------------------------------------


def test_the_stub_checks_tokens(fake_clock: FakeClock) -> None:
    server = ConductorStub(auth=("key", "secret"), token_ttl_s=60, clock=fake_clock)
    with server, httpx.Client(base_url=server.url, trust_env=False) as client:

        def status(token: str) -> tuple[int, str | None]:
            answer = client.get("/metadata/taskdefs", headers={"X-Authorization": token})
            return answer.status_code, answer.json()["error"] if answer.status_code != 200 else None

        refused = client.post("/token", json={"keyId": "key", "keySecret": "wrong"})
        assert refused.status_code == 401
        assert status("made up") == (401, "INVALID_TOKEN")
        first = client.post("/token", json={"keyId": "key", "keySecret": "secret"}).json()["token"]
        assert status(first) == (200, None)
        fake_clock.advance(60)
        assert status(first) == (401, "EXPIRED_TOKEN")
        second = client.post("/token", json={"keyId": "key", "keySecret": "secret"}).json()["token"]
        assert status(second) == (200, None)
        server.expire_tokens()
        assert status(second) == (401, "EXPIRED_TOKEN")
        assert server.tokens == [first, second]


# -- a coordinator: what it must do as the real one does is in tests/contract ---------------------------------------


@pytest.fixture
def coordinator(fake_clock: FakeClock) -> Iterator[tuple[ConductorStub, httpx.Client]]:
    with (
        ConductorStub(leases=True, clock=fake_clock) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        yield server, client


def test_a_report_is_one_result_however_often_it_is_sent(coordinator: tuple[ConductorStub, httpx.Client]) -> None:
    server, client = coordinator
    server.add_task("greet")
    (task,) = poll(client)
    assert {report(client, task, reportId="r1").headers["conductor-verdict"] for _ in range(3)} == {"COMMITTED"}
    assert len(server.results) == 1


def test_a_task_can_be_taken_from_its_holder(coordinator: tuple[ConductorStub, httpx.Client]) -> None:
    server, client = coordinator
    task_id = server.add_task("greet")
    (task,) = poll(client)
    server.requeue(task_id)
    (newer,) = poll(client)
    for answer in (report(client, task), report(client, task, extendLease=True)):
        assert (answer.status_code, answer.headers["conductor-verdict"]) == (409, "CANCELLED")
    assert server.results == []
    assert report(client, newer).headers["conductor-verdict"] == "COMMITTED"


def test_verdicts_can_be_scripted(coordinator: tuple[ConductorStub, httpx.Client]) -> None:
    server, client = coordinator
    server.add_task("greet")
    (task,) = poll(client)
    server.script("heartbeat", Judge(Verdict.CANCELLED))
    server.script("update", Judge(Verdict.REJECTED), Judge(Verdict.COMMITTED))
    server.script("reports", Judge(Verdict.CANCELLED))
    assert report(client, task, extendLease=True).headers["conductor-verdict"] == "CANCELLED"
    batch = client.post("/tasks/reports", json=[task.to_task_result().to_dict()]).json()
    assert [(v["taskId"], v["verdict"]) for v in batch] == [(task.task_id, "CANCELLED")]
    assert report(client, task).json()["verdict"] == "REJECTED"
    assert server.results == []
    assert report(client, task).headers["conductor-verdict"] == "COMMITTED"
    assert len(server.results) == 1


# -- bad behaviour --------------------------------------------------------------------------------------------------


def test_a_script_is_played_in_order_and_then_the_stub_behaves(
    conductor_stub: ConductorStub, client: httpx.Client
) -> None:
    conductor_stub.script("poll", Status(503), Pass(), Status(429, headers={"Retry-After": "7"}))
    answers = [client.get("/tasks/poll/batch/greet") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503, 200, 429, 200]
    assert answers[0].json() == {"status": 503, "message": "As the test's script says", "retryable": False}
    assert answers[2].headers["retry-after"] == "7"


def test_a_script_may_repeat_until_it_is_cleared(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    conductor_stub.script("poll", Status(500), Status(502), repeat=True)
    conductor_stub.script("task", Status(418), repeat=True)
    assert [client.get("/tasks/poll/batch/a").status_code for _ in range(4)] == [500, 502, 500, 502]
    conductor_stub.clear_script("poll")
    assert client.get("/tasks/poll/batch/a").status_code == 200
    assert client.get("/tasks/t").status_code == 418
    conductor_stub.clear_script()
    assert client.get("/tasks/t").status_code == 404


def test_a_script_for_requests_picked_by_a_function(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    conductor_stub.script(lambda request: request.query.get("domain") == "blue", Status(403))
    assert client.get("/tasks/poll/batch/a").status_code == 200
    assert client.get("/tasks/poll/batch/a", params={"domain": "blue"}).status_code == 403


def test_a_route_that_does_not_exist_is_refused(conductor_stub: ConductorStub) -> None:
    for say in (conductor_stub.script, conductor_stub.hold):
        with pytest.raises(ValueError, match="no route is named 'updates'; use one of .*update"):
            say("updates")


@pytest.mark.parametrize(
    ("body", "content", "content_type"),
    [
        ({"a": 1}, b'{"a":1}', "application/json"),
        ("text", b"text", "text/plain"),
        (b"\xff", b"\xff", "application/json"),
    ],
)
def test_bodies_of_scripted_answers(
    conductor_stub: ConductorStub, client: httpx.Client, body: Any, content: bytes, content_type: str
) -> None:
    conductor_stub.script("other", Status(200, body))
    answer = client.get("/nonsense")
    assert (answer.content, answer.headers["content-type"]) == (content, content_type)


@pytest.mark.parametrize("applied", [False, True])
def test_a_reset_before_or_after_the_effect(conductor_stub: ConductorStub, client: httpx.Client, applied: bool) -> None:
    conductor_stub.add_task("greet")
    (task,) = poll(client)
    conductor_stub.script("update", Reset(applied=applied))
    with pytest.raises(httpx.ReadError, match="reset by peer"):
        report(client, task)
    assert len(conductor_stub.results) == applied
    assert report(client, task).status_code == 200


@pytest.mark.parametrize("applied", [False, True])
def test_a_half_open_connection_is_never_answered(conductor_stub: ConductorStub, applied: bool) -> None:
    conductor_stub.script("log", HalfOpen(applied=applied))
    with socket.create_connection(("127.0.0.1", conductor_stub.port)) as raw:
        raw.sendall(b"POST /api/tasks/t/log HTTP/1.1\r\nContent-Length: 4\r\n\r\nline")
        conductor_stub.wait_for(lambda: len(conductor_stub.logs("t")) == applied and conductor_stub.requests)
        raw.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.recv(1)


def test_malformed_bodies_and_malformed_answers(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    cut_short = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"
    conductor_stub.script("poll", Malformed(), Malformed(b"NOT HTTP\r\n\r\n", raw=True), Malformed(cut_short, raw=True))
    answer = client.get("/tasks/poll/batch/greet")
    assert (answer.status_code, answer.content) == (200, b'[{"taskId": ')
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/tasks/poll/batch/greet")


def test_a_connection_closed_after_its_answer(conductor_stub: ConductorStub) -> None:
    conductor_stub.script("task", CloseAfter())
    with socket.create_connection(("127.0.0.1", conductor_stub.port)) as raw:
        raw.sendall(b"GET /api/tasks/t HTTP/1.1\r\n\r\n")
        received = b"".join(iter(lambda: raw.recv(4096), b""))
    assert received.startswith(b"HTTP/1.1 404")
    assert b"Connection: close" not in received


async def test_a_scripted_delay_delays_the_answer(fake_clock: FakeClock) -> None:
    with ConductorStub(clock=fake_clock) as server:
        server.script("task", Delay(30), Delay(5, then=Status(503)))
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            for seconds, status in [(30, 404), (5, 503)]:
                asking = asyncio.create_task(client.get("/tasks/t"))
                assert await fake_clock.advance_to_next() == seconds
                assert (await asking).status_code == status


async def test_held_requests_have_no_effect_until_released(
    conductor_stub: ConductorStub, async_client: httpx.AsyncClient
) -> None:
    conductor_stub.hold("log")
    asking = [asyncio.create_task(async_client.post("/tasks/t/log", content="line")) for _ in range(2)]
    await conductor_stub.until(lambda: conductor_stub.held("log") == 2)
    assert (await async_client.get("/tasks/t")).status_code == 404, "other routes go on"
    assert conductor_stub.logs("t") == []
    conductor_stub.release("log")
    assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200, 200]
    assert conductor_stub.logs("t") == ["line", "line"]
    assert conductor_stub.held("log") == 0


# -- records and waiting --------------------------------------------------------------------------------------------


def test_requests_are_recorded(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    client.get("/tasks/poll/batch/a%20b", params={"count": 2, "workerid": "me"}, headers={"X-Authorization": "t"})
    client.post("/tasks", content="no json")
    first, second = conductor_stub.requests
    assert (first.method, first.path, first.route) == ("GET", "/tasks/poll/batch/a b", "poll")
    assert first.query == {"count": "2", "workerid": "me"}
    assert first.headers["x-authorization"] == "t"
    assert (first.json, first.task_type) == (None, "a b")
    assert (second.route, second.body, second.json) == ("update", b"no json", None)
    assert first.connection_id == second.connection_id, "kept alive"
    assert first.at_monotonic <= second.at_monotonic
    assert conductor_stub.polls() == conductor_stub.polls("a b") == conductor_stub.requests_of("poll") == [first]
    assert conductor_stub.polls("other") == []


def test_a_thread_can_wait_for_results(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    conductor_stub.add_task("greet")
    (task,) = poll(client)
    reporting = threading.Thread(target=report, args=(client, task))
    reporting.start()
    assert [result["taskId"] for result in conductor_stub.wait_results(1)] == [task.task_id]
    reporting.join()


async def test_a_coroutine_can_wait_for_results(conductor_stub: ConductorStub, async_client: httpx.AsyncClient) -> None:
    conductor_stub.add_task("greet", task_id="t", workflow_instance_id="w")
    waiting = asyncio.create_task(conductor_stub.until_results(1))
    await async_client.post("/tasks", json={"taskId": "t", "workflowInstanceId": "w", "status": "COMPLETED"})
    assert [result["taskId"] for result in await waiting] == ["t"]


async def test_a_timeout_names_the_requests_that_were_seen(conductor_stub: ConductorStub, client: httpx.Client) -> None:
    client.get("/tasks/t")
    seen = r"did not become true within 0.01 s; requests seen: 1 task; results: 0; the last: GET /tasks/t"
    with pytest.raises(TimeoutError, match=seen):
        conductor_stub.wait_results(1, timeout=0.01)
    with pytest.raises(TimeoutError, match=seen):
        await conductor_stub.until_results(1, timeout=0.01)


# -- life -----------------------------------------------------------------------------------------------------------


def test_a_server_that_goes_away_and_comes_back() -> None:
    server = ConductorStub()
    with pytest.raises(RuntimeError, match="start it"):
        _ = server.url
    server.start()
    with pytest.raises(RuntimeError, match="already running"):
        server.start()
    url = server.url
    task_id = server.add_task("greet")
    server.stop()
    server.stop()
    with httpx.Client(base_url=url, trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            client.get("/tasks/t")
        server.start()
        assert server.url == url
        assert [task.task_id for task in poll(client)] == [task_id]
        server.stop()
        with pytest.raises(httpx.TransportError):
            client.get("/tasks/t")


async def test_stopping_cuts_what_is_in_work() -> None:
    async with ConductorStub() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        server.hold("task")
        asking = [
            asyncio.create_task(client.get("/tasks/t")),
            asyncio.create_task(client.get("/tasks/poll/batch/greet", params={"timeout": 5000})),
        ]
        await server.until(lambda: server.held("task") == server.parked_polls == 1)
        server.stop()
        endings = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(ending, httpx.TransportError) for ending in endings)
        assert server.held("task") == server.parked_polls == 0


def test_a_port_that_is_taken_is_an_error_at_once(conductor_stub: ConductorStub) -> None:
    second = ConductorStub(port=conductor_stub.port)
    with pytest.raises(OSError, match=str(conductor_stub.port)):
        second.start()
    second.stop()


def test_the_stub_serves_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate, key)
    client_side = ssl.create_default_context(cafile=str(certificate))
    with ConductorStub(ssl_context=server_side) as server:
        assert server.url.startswith("https://")
        with httpx.Client(base_url=server.url, verify=client_side, trust_env=False) as client:
            assert client.get("/tasks/t").status_code == 404
            server.script("task", Reset())
            with pytest.raises(httpx.TransportError):
                client.get("/tasks/t")


def self_signed(directory: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stub")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, encoding = serialization.NoEncryption(), serialization.Encoding.PEM
    (directory / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (directory / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, pem))
    return directory / "cert.pem", directory / "key.pem"


# -- the wire -------------------------------------------------------------------------------------------------------


def exchange(server: ConductorStub, *pieces: bytes) -> bytes:
    """Send bytes as they are, piece by piece, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            raw.sendall(piece)
        return b"".join(iter(lambda: raw.recv(4096), b""))


def test_requests_may_arrive_in_pieces_and_in_heaps(conductor_stub: ConductorStub) -> None:
    whole = b"POST /api/tasks/t/log HTTP/1.1\r\nContent-Length: 4\r\n\r\nline"
    last = b"GET /api/tasks/t HTTP/1.1\r\nConnection: close\r\n\r\n"
    received = exchange(conductor_stub, *(whole[n : n + 1] for n in range(len(whole))), whole + whole + last)
    assert [line for line in received.split(b"\r\n") if line.startswith(b"HTTP")] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 404 Not Found",
    ]
    assert b"Connection: close" in received
    assert conductor_stub.logs("t") == ["line"] * 3


def test_chunked_bodies_and_old_clients(conductor_stub: ConductorStub) -> None:
    head = b"POST /api/tasks/t/log HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    received = exchange(conductor_stub, head + b"2\r\nli\r\n", b"2;x=y\r\nne\r\n0\r\n", b"\r\n")
    assert received.startswith(b"HTTP/1.1 200"), "and HTTP/1.0 is closed after one answer"
    assert conductor_stub.logs("t") == ["line"]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused(conductor_stub: ConductorStub, nonsense: bytes) -> None:
    assert exchange(conductor_stub, nonsense).startswith(b"HTTP/1.1 400")
    assert conductor_stub.requests == []


def test_the_kit_needs_nothing_but_the_base_install() -> None:
    program = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"httpx", "starlette", "uvicorn", "httptools", "typer", "pytest", "prometheus_client"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from conductor.testing import *
import urllib.request, json
with ConductorStub() as server:
    print(json.load(urllib.request.urlopen(server.url + "/tasks/poll/batch/x?timeout=0")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_plugin_loads_nothing_before_it_is_asked() -> None:
    program = """
import sys, json
import pytest
pytests = set(sys.modules)
import conductor.testing.pytest_plugin
print(json.dumps(sorted(name for name in set(sys.modules) - pytests)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    package = {"conductor", "conductor.common", "conductor.common.lazy_names", "conductor.version", "conductor.testing"}
    assert set(json.loads(done.stdout)) - package == {"conductor.testing.pytest_plugin"}
