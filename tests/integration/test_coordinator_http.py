"""The coordinator over real sockets: status codes, bodies, headers, and what it does with bad clients."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator import Coordinator
from conductor.coordinator.http.connection import MAX_PIPELINED
from conductor.protocol.wire import FEATURES_HEADER, LEASE_EXPIRES_HEADER, MAX_BODY_HEADER, VERDICT_HEADER
from conductor.testing import FakeClock

FLOW = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("db") / "coordinator.db") as found:
        yield found


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A task type that no other test uses."""
    return f"t{abs(hash(request.node.nodeid))}"


def start(api: httpx.Client, name: str, **more: Any) -> str:
    flow = {"name": f"flow_{name}", "tasks": [{"name": name, "taskReferenceName": "ref"}]}
    answer = api.post("/workflow", json={"name": flow["name"], "workflowDef": flow, **more})
    assert answer.status_code == 200, answer.text
    return answer.text


def poll(api: httpx.Client, name: str, **query: Any) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = api.get(
        f"/tasks/poll/batch/{name}", params={"timeout": 0, "workerid": "w1", **query}
    ).json()
    (task,) = tasks
    return task


def result(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "taskId": task["taskId"],
        "workflowInstanceId": task["workflowInstanceId"],
        "workerId": "w1",
        "leaseId": task["leaseId"],
        "status": "COMPLETED",
        **more,
    }


def read_all(client: socket.socket) -> bytes:
    """Read the bytes of the server until it closes."""
    client.settimeout(60)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def read_error(client: socket.socket) -> bytes:
    """Read one answer with an error body; head and body may come in two pieces."""
    client.settimeout(30)
    found = b""
    while not found.endswith(b"}") and (part := client.recv(65536)):
        found += part
    return found


class TestPolling:
    def test_an_empty_batch_is_200_and_an_empty_array(self, api: httpx.Client, name: str) -> None:
        for method in ("GET", "POST"):
            answer = api.request(method, f"/tasks/poll/batch/{name}", params={"timeout": 0})
            assert (answer.status_code, answer.json()) == (200, [])
            assert answer.headers[FEATURES_HEADER] == "leases, batch-reports, report-and-poll, steps"
            assert answer.headers[MAX_BODY_HEADER] == "10485760"

    def test_an_empty_single_poll_is_204(self, api: httpx.Client, name: str) -> None:
        answer = api.get(f"/tasks/poll/{name}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers[MAX_BODY_HEADER] == "10485760"

    def test_a_poll_longer_than_five_seconds_is_refused(self, api: httpx.Client, name: str) -> None:
        answer = api.get(f"/tasks/poll/batch/{name}", params={"timeout": 5001})
        assert answer.status_code == 400
        assert answer.json()["message"] == "Long Poll Timeout value cannot be more than 5 seconds"

    def test_a_parked_poll_is_answered_by_the_start_of_a_workflow(self, api: httpx.Client, name: str) -> None:
        found: list[Any] = []

        def wait() -> None:
            with httpx.Client(base_url=api.base_url) as other:
                found.extend(other.get(f"/tasks/poll/batch/{name}", params={"timeout": 5000}).json())

        thread = threading.Thread(target=wait)
        thread.start()
        while not any(entry["queueName"] == name for entry in api.get("/tasks/queue/polldata/all").json()):
            pass
        workflow = start(api, name)
        thread.join()
        assert [task["workflowInstanceId"] for task in found] == [workflow]

    def test_a_client_that_hangs_up_gets_nothing(self, coordinator: Coordinator, api: httpx.Client, name: str) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as gone:
            gone.sendall(
                f"GET /api/tasks/poll/batch/{name}?timeout=5000&workerid=gone HTTP/1.1\r\n".encode()
                + b"host: localhost\r\n\r\n"
            )
            while not any(entry["queueName"] == name for entry in api.get("/tasks/queue/polldata/all").json()):
                pass
        while coordinator.core is not None and len(coordinator.core.tasks.parked):
            pass
        start(api, name)
        assert poll(api, name)["workerId"] == "w1"


class TestReports:
    def test_a_report_in_time_is_committed(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        task = poll(api, name)
        answer = api.post("/tasks", json=result(task))
        assert (answer.status_code, answer.text) == (200, task["taskId"])
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers[VERDICT_HEADER] == "COMMITTED"

    def test_a_report_of_an_ended_task_is_cancelled(self, api: httpx.Client, name: str) -> None:
        workflow = start(api, name)
        task = poll(api, name)
        assert api.delete(f"/workflow/{workflow}", params={"reason": "enough"}).status_code == 200
        for body in (result(task), result(task, extendLease=True)):
            answer = api.post("/tasks", json=body)
            assert (answer.status_code, answer.headers[VERDICT_HEADER]) == (409, "CANCELLED")
            assert answer.json()["verdict"] == "CANCELLED"

    def test_an_unknown_second_or_malformed_report_is_rejected(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        task = poll(api, name)
        api.post("/tasks", json=result(task, reportId="one"))
        answers = [
            api.post("/tasks", json=result(task, reportId="two")),
            api.post("/tasks", json=result(task, leaseId="nope")),
            api.post("/tasks", json=result(task, taskId="nope")),
            api.post("/tasks", json=result(task, status="DONE")),
        ]
        assert [answer.status_code for answer in answers] == [409, 404, 404, 400]
        assert {answer.headers[VERDICT_HEADER] for answer in answers} == {"REJECTED"}

    def test_a_heartbeat_extends_the_lease(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        task = poll(api, name)
        answer = api.post("/tasks", json=result(task, extendLease=True))
        assert answer.status_code == 200
        assert int(answer.headers[LEASE_EXPIRES_HEADER]) >= task["leaseExpiresAt"]

    def test_a_batch_of_reports_has_a_verdict_for_each(self, api: httpx.Client, name: str) -> None:
        tasks = []
        for _ in range(3):
            start(api, name)
            tasks.append(poll(api, name))
        bodies = [result(tasks[0]), result(tasks[1], leaseId="nope"), {"taskId": 5}, result(tasks[2])]
        answer = api.post("/tasks/reports", json=bodies)
        assert answer.status_code == 200
        assert [one["verdict"] for one in answer.json()] == ["COMMITTED", "REJECTED", "REJECTED", "COMMITTED"]
        assert [one["status"] for one in answer.json()] == [200, 404, 400, 200]

    def test_update_v2_answers_with_the_next_task(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        start(api, name)
        answer = api.post("/tasks/update-v2", json=result(poll(api, name)))
        assert (answer.status_code, answer.headers[VERDICT_HEADER]) == (200, "COMMITTED")
        assert api.post("/tasks/update-v2", json=result(answer.json())).status_code == 204

    def test_a_late_update_without_a_lease_id_is_200_without_effect_s02(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        task = poll(api, name)
        api.post("/tasks", json=result(task))
        late = {key: value for key, value in result(task, status="FAILED").items() if key != "leaseId"}
        answer = api.post("/tasks", json=late)
        assert (answer.status_code, answer.text, answer.headers[VERDICT_HEADER]) == (200, task["taskId"], "CANCELLED")
        assert answer.headers["content-type"].startswith("text/plain")
        answer = api.post("/tasks/update-v2", json=late)
        assert (answer.status_code, answer.content, answer.headers[VERDICT_HEADER]) == (204, b"", "CANCELLED")
        assert api.get(f"/tasks/{task['taskId']}").json()["status"] == "COMPLETED"

    def test_a_late_update_by_reference_is_200_without_effect_s02(self, api: httpx.Client, name: str) -> None:
        workflow = start(api, name)
        poll(api, name)
        api.post(f"/tasks/queue/requeue/{name}")
        for path in ("COMPLETED", "COMPLETED/sync"):
            answer = api.post(f"/tasks/{workflow}/ref/{path}", params={"workerid": "w1"}, json={"late": 1})
            assert (answer.status_code, answer.headers[VERDICT_HEADER]) == (200, "CANCELLED")
        assert poll(api, name, workerid="w2")["outputData"] == {}


class TestLogs:
    def test_log_lines_are_accepted_raw_and_quoted(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        url, json_type = f"/tasks/{poll(api, name)['taskId']}/log", {"content-type": "application/json"}
        assert api.post(url, content="bare text", headers=json_type).status_code == 200
        assert api.post(url, content='"quoted"', headers=json_type).status_code == 200
        assert [entry["log"] for entry in api.get(url).json()] == ["bare text", "quoted"]

    def test_log_lines_that_are_not_text_are_kept_as_far_as_possible(self, api: httpx.Client, name: str) -> None:
        start(api, name)
        url = f"/tasks/{poll(api, name)['taskId']}/log"
        assert api.post(url, content=b'"\xff"').status_code == 200
        assert [entry["log"] for entry in api.get(url).json()] == ['"\ufffd"']

    def test_lines_for_a_task_that_does_not_exist_are_refused(self, api: httpx.Client, name: str) -> None:
        workflow = start(api, name)
        removed = poll(api, name)["taskId"]
        api.delete(f"/workflow/{workflow}/terminate-remove")
        for task_id in ("some", removed):
            answer = api.post(f"/tasks/{task_id}/log", content="line")
            assert (answer.status_code, answer.json()["message"]) == (404, f"Task not found for taskId: {task_id}")
            assert api.get(f"/tasks/{task_id}/log").status_code == 204

    def test_a_task_without_logs_is_a_204(self, api: httpx.Client) -> None:
        assert api.get("/tasks/nothing/log").status_code == 204


class TestMistakes:
    """P39: a client's mistake is a 400 with Conductor's error body, where the real server says 500."""

    @pytest.mark.parametrize(
        "body",
        [
            b"{bad",
            b"[]",
            b"null",
            b"",
            b'{"taskId": {}}',
            b'{"taskId":"a","workflowInstanceId":"b","status":"DONE"}',
            b'{"taskId":"a","workflowInstanceId":"b","outputData":[]}',
            b'{"taskId":"a","workflowInstanceId":"b","callbackAfterSeconds":"abc"}',
            b'{"taskId":"a","workflowInstanceId":"b","callbackAfterSeconds":99999999999999999999}',
            b'{"taskId":"\xff"}',
            b'{"outputData":{"x":NaN}}',
            b'{"outputData":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
        ],
    )
    def test_p39_a_bad_body_is_a_400(self, api: httpx.Client, body: bytes) -> None:
        for path in ("/tasks", "/tasks/update-v2"):
            answer = api.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 400, answer.text
            assert answer.json()["status"] == 400
            assert answer.json()["message"]
            assert answer.json()["retryable"] is False
            assert answer.headers[VERDICT_HEADER] == answer.json()["verdict"] == "REJECTED"

    def test_half_a_surrogate_pair_is_named_in_the_error(self, api: httpx.Client) -> None:
        answer = api.post("/tasks", content=b'{"outputData": {"x": "\\ud800"}}')
        assert answer.status_code == 400
        assert "surrogate" in answer.json()["message"]

    @pytest.mark.parametrize("step", [1, 7, 100_000])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_an_offer_of_another_protocol_is_ignored_and_the_body_read(
        self, coordinator: Coordinator, name: str, step: int, *, chunked: bool
    ) -> None:
        """As Java's HttpClient sends it."""
        flow = json.dumps({**FLOW, "name": f"h2c{name}{step}{chunked}"}).encode()
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(flow)
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(flow), flow) if chunked else flow
        offer = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
        request = b"POST /api/metadata/workflow HTTP/1.1\r\nHost: localhost\r\n" + offer + length + b"\r\n\r\n" + body
        last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        sent = request + request.replace(b"h2c" + name.encode(), b"two" + name.encode()) + last
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            for start in range(0, len(sent), step):
                client.sendall(sent[start : start + step])
            answers = read_all(client)
        assert answers.count(b"HTTP/1.1 200") == 3, answers

    def test_requests_that_wait_for_their_answers_are_few(self, coordinator: Coordinator) -> None:
        """Ten thousand small requests fit into one read, and would take ten times their size."""
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"GET /api/version HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
            answers = read_all(client)
        assert MAX_PIPELINED <= answers.count(b"HTTP/1.1 200") < 1000
        assert answers.count(b"HTTP/1.1 400") == 1
        assert b"requests of this connection wait for their answers" in answers

    def test_connect_is_no_way_around(self, coordinator: Coordinator) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert b"HTTP/1.1 200" not in read_all(client)

    def test_a_client_that_closes_its_half_still_gets_an_answer(self, coordinator: Coordinator, name: str) -> None:
        body = json.dumps({**FLOW, "name": name}).encode()
        head = b"POST /api/metadata/workflow HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
        poll = b"GET /api/tasks/poll/batch/%s?timeout=5000 HTTP/1.1\r\nhost: localhost\r\n\r\n" % name.encode()
        for request, status in ((head + body, b"200"), (poll, b"200"), (head + body + poll, b"409")):
            with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                assert read_all(client).startswith(b"HTTP/1.1 " + status)

    def test_half_a_request_gets_no_answer(self, coordinator: Coordinator) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b""

    def test_too_many_connections_are_told(self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("conductor.coordinator.http.connection.MAX_CONNECTIONS", 0)
        answer = httpx.get(f"{coordinator.url}/version")
        assert (answer.status_code, answer.json()["status"], answer.json()["retryable"]) == (503, 503, True)

    def test_p39_a_bad_query_is_a_400(self, api: httpx.Client) -> None:
        assert api.get("/tasks/poll/batch/x", params={"count": "abc"}).status_code == 400
        assert api.get("/tasks/poll/batch/x", params={"count": "9" * 30}).status_code == 400
        assert api.get("/tasks/queue/size").status_code == 400

    def test_blank_ids_are_named(self, api: httpx.Client) -> None:
        answer = api.post("/tasks", json={"status": "COMPLETED"})
        assert answer.status_code == 400
        assert len(answer.json()["validationErrors"]) == 2

    def test_unknown_path_and_wrong_verb(self, api: httpx.Client) -> None:
        assert api.get("/nope").json()["status"] == 404
        assert api.get("/tasks/poll/x/").status_code == 404
        assert api.put("/tasks/update-v2").json()["status"] == 405
        assert api.get("/%ff").status_code == 400

    def test_an_oversized_body_is_413(self, api: httpx.Client) -> None:
        answer = api.post("/tasks", content=b"x" * (11 * 1024 * 1024))
        assert (answer.status_code, answer.json()["status"]) == (413, 413)

    def test_oversized_headers_are_431(self, api: httpx.Client) -> None:
        assert api.get("/version", headers={"x-big": "x" * 70_000}).status_code == 431

    def test_a_head_without_end_is_cut(self, coordinator: Coordinator) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"GET /api/version HTTP/1.1\r\n")
            answer = b""
            try:
                for _ in range(1000):
                    client.sendall(b"x-header: " + b"x" * 1000 + b"\r\n")
                answer = client.recv(100)
            except OSError:
                return
            assert b"431" in answer

    def test_a_slow_body_is_408_and_cut(self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("conductor.coordinator.http.body.BODY_TIMEOUT_S", 0.1)
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            head, _, body = read_all(client).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        assert json.loads(body)["status"] == 408

    @pytest.mark.parametrize("expect", [b"", b"expect: 100-continue\r\n"], ids=["", "expect"])
    def test_a_body_that_is_announced_too_large_is_413_at_once(self, coordinator: Coordinator, expect: bytes) -> None:
        head = b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10485761\r\n"
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(head + expect + b"\r\n")
            client.settimeout(60)
            answer = read_error(client)
            assert answer.startswith(b"HTTP/1.1 413")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 413
            if expect:
                assert b"connection: close" in answer.lower()
                return
            # The client goes on sending, and can ask again.
            client.sendall(b"x" * 10485761 + b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 200")

    def test_the_rest_of_a_refused_body_is_not_waited_for_without_end(
        self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("conductor.coordinator.http.connection.REST_TIMEOUT_S", 0.1)
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10485761\r\n\r\nxx")
            assert read_all(client).startswith(b"HTTP/1.1 413")

    @pytest.mark.parametrize("more", [b"", b"connection: close\r\n", b"expect: 100-continue\r\n"])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_a_body_that_is_too_large_gets_its_answer_while_it_is_still_sent(
        self, coordinator: Coordinator, more: bytes, *, chunked: bool
    ) -> None:
        """Also where the connection ends with the answer: what comes is read and thrown away."""
        piece, pieces = b"x" * 0x100000, 40
        length = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % (len(piece) * pieces)
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n" + more + length + b"\r\n\r\n")
            for _ in range(pieces):
                client.sendall(b"100000\r\n" + piece + b"\r\n" if chunked else piece)
            if chunked:
                client.sendall(b"0\r\n\r\n")
            answer = read_error(client)
            head, _, body = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 413"), head
            assert json.loads(body)["status"] == 413
            if not more:
                client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                assert read_all(client).startswith(b"HTTP/1.1 200")

    @pytest.mark.parametrize("more", [b"", b"connection: close\r\n"])
    def test_a_body_without_end_is_cut(
        self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, more: bytes
    ) -> None:
        monkeypatch.setattr("conductor.coordinator.http.connection.MAX_REST_BYTES", 0x100000)
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n" + more)
            client.sendall(b"transfer-encoding: chunked\r\n\r\n")
            with pytest.raises(OSError):  # noqa: PT011 - a pipe that is broken, or a connection that is reset
                while True:
                    client.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")

    def test_trailers_after_a_body_are_ignored(self, coordinator: Coordinator) -> None:
        head = b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(head + b"2\r\n{}\r\n0\r\norigin: http://elsewhere.example\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 400")

    def test_a_request_behind_a_parked_poll_has_it_answered(self, coordinator: Coordinator) -> None:
        poll = b"GET /api/tasks/poll/batch/nobody?timeout=5000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(poll + b"GET /api/version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert read_all(client).count(b"HTTP/1.1 200") == 2

    def test_a_head_without_end_behind_a_parked_poll_is_cut(self, coordinator: Coordinator) -> None:
        poll = b"GET /api/tasks/poll/batch/nobody?timeout=5000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(poll + b"GET / HTTP/1.1\r\n")
            with pytest.raises(OSError):  # noqa: PT011 - a pipe that is broken, or a connection that is reset
                for _ in range(100_000):
                    client.sendall(b"x-header: " + b"x" * 1000 + b"\r\n")

    def test_a_client_that_does_not_read_its_answers_is_not_read_from(
        self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("conductor.coordinator.http.connection.ANSWER_TIMEOUT_S", 0.1)
        broken = pytest.raises(OSError)  # noqa: PT011 - a pipe that is broken, or a connection that is reset
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client, broken:
            for _ in range(100_000):
                client.sendall(b"GET /api-docs HTTP/1.1\r\nhost: localhost\r\n\r\n" * 10)

    @pytest.mark.parametrize(
        "path", ["/api/version", "/api/nothing", "/", "/health", "/metrics", "/api/metadata/taskdefs"]
    )
    def test_browsers_must_not_guess_the_type_of_an_answer_a12(self, coordinator: Coordinator, path: str) -> None:
        answer = httpx.get(f"http://127.0.0.1:{coordinator.port}{path}")
        assert answer.headers["x-content-type-options"] == "nosniff"

    @pytest.mark.parametrize("host", ["[::1]evil", "[::1]:80evil", "[::1", "localhost:80.evil.example", "localhost]"])
    def test_a_malformed_host_is_refused_a12(self, coordinator: Coordinator, host: str) -> None:
        url = f"http://127.0.0.1:{coordinator.port}/api/version"
        assert httpx.get(url, headers={"Host": host}).status_code == 403
        for good in ("[::1]", "[::1]:8080", "localhost:80", "localhost", "127.0.0.1:"):
            assert httpx.get(url, headers={"Host": good}).status_code == 200

    def test_two_hosts_are_two_hosts_with_an_upgrade_as_well(self, coordinator: Coordinator) -> None:
        hosts = b"host: elsewhere.example\r\nhost: localhost\r\n"
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"GET /api/version HTTP/1.1\r\n" + hosts + b"upgrade: h2c\r\nconnection: upgrade\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 400")

    def test_http_1_1_without_a_host_is_400_and_so_are_two(self, coordinator: Coordinator) -> None:
        for hosts in (b"", b"host: localhost\r\nhost: 127.0.0.1\r\n"):
            with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
                client.sendall(b"GET /api/version HTTP/1.1\r\n" + hosts + b"connection: close\r\n\r\n")
                head, _, body = read_all(client).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400")
            assert "Host" in json.loads(body)["message"]
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(b"GET /api/version HTTP/1.0\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 200")

    @pytest.mark.parametrize(
        "target",
        [
            "/api/workflow/../metadata/taskdefs",
            "/api/workflow/%2e%2e%2fmetadata",
            "/api/../../etc/passwd",
            "/api//tasks",
            "//api/workflow/x",
            "/api/workflow/{id}",
            "/api/workflow/a%00b",
            "/api/workflow/a%0d%0ax-injected:%201",
            "/api/workflow/%f0%9f%98%80",
            "/api/workflow/%ed%a0%80",
            "/api/workflow/%zz",
            "/api/workflow/" + "x" * 9000,
            "/api/tasks/search?query=%ff",
            "/api/tasks/poll/batch/x?count=%31%00",
            "/api/workflow/search?start=-9999999999&size=0x10",
        ],
    )
    def test_tricks_with_the_path(self, coordinator: Coordinator, target: str) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            head, _, body = read_all(client).partition(b"\r\n\r\n")
        assert 400 <= int(head.split()[1]) < 500, head
        assert json.loads(body)["status"] == int(head.split()[1])
        assert b"x-injected" not in head

    @pytest.mark.parametrize(
        "raw", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 5000]
    )
    def test_bytes_that_are_not_http_end_the_connection(self, coordinator: Coordinator, raw: bytes) -> None:
        with socket.create_connection(("127.0.0.1", coordinator.port)) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            head, _, body = read_all(client).partition(b"\r\n\r\n")
            assert not head or head.startswith(b"HTTP/1.1 400 ")
            assert not head or json.loads(body)["status"] == 400

    @pytest.mark.parametrize("path", ["/workflow", "/workflow/x", "/metadata/workflow", "/schema", "/tasks/reports"])
    @pytest.mark.parametrize("opening", [b"[", b'{"input":'])
    def test_deep_json_is_400_everywhere(self, api: httpx.Client, path: str, opening: bytes) -> None:
        answer = api.post(path, content=opening * 50_000)
        assert (answer.status_code, answer.json()["status"]) == (400, 400)

    def test_an_unsupported_task_is_refused_by_name(self, api: httpx.Client) -> None:
        flow = {"name": "odd", "tasks": [{"name": "h", "taskReferenceName": "h", "type": "HTTP"}]}
        answer = api.post("/metadata/workflow", json=flow)
        assert answer.status_code == 400
        assert "HTTP" in answer.text

    def test_an_unknown_workflow_is_a_404(self, api: httpx.Client) -> None:
        assert api.post("/workflow", json={"name": "nobody"}).status_code == 404
        answer = api.get("/workflow/nope")
        assert (answer.status_code, answer.json()["message"]) == (404, "No such workflow found by id: nope")


class TestRepeatedRequests:
    """Requests with equal heads on one connection are read and checked one by one."""

    @given(
        turns=st.lists(
            st.tuples(
                st.lists(st.tuples(st.sampled_from("ab"), st.text("xyz", max_size=40)), min_size=1, max_size=3),
                st.lists(st.integers(1, 600), max_size=2),
            ),
            min_size=2,
            max_size=6,
        )
    )
    @settings(max_examples=40)
    def test_each_answer_belongs_to_its_request(
        self, coordinator: Coordinator, turns: list[tuple[list[tuple[str, str]], list[int]]]
    ) -> None:
        """Requests arrive alone or together, in one piece or in several, with the same heads and different bodies."""
        with _talk(coordinator) as client:
            answers = client.makefile("rb")
            for requests, cuts in turns:
                _send(client, b"".join(_report(coordinator, who, about) for who, about in requests), cuts)
                found = [json.loads(_read_answer(answers))[0]["taskId"] for _ in requests]
                assert found == [about for _, about in requests]

    def test_a_token_is_looked_at_each_time(self, tmp_path: Path) -> None:
        clock = FakeClock()
        guarded = Coordinator(tmp_path / "a.db", auth_key="key", auth_secret="secret", clock=clock)
        with guarded as found, _talk(found) as client:
            token = httpx.post(f"{found.url}/token", json={"keyId": "key", "keySecret": "secret"}).json()["token"]
            asked = f"GET /api/version HTTP/1.1\r\nHost: localhost\r\nX-Authorization: {token}\r\n\r\n".encode()
            answers = client.makefile("rb")
            for _ in range(2):
                client.sendall(asked)
                assert _read_answer(answers)
            clock.advance(2 * 3600)
            client.sendall(asked)
            assert b"EXPIRED_TOKEN" in _read_answer(answers)


def _talk(coordinator: Coordinator) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", coordinator.port), timeout=60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _send(client: socket.socket, said: bytes, cuts: list[int]) -> None:
    """Send in pieces, which may arrive one by one or together."""
    ends = sorted({*(cut for cut in cuts if cut < len(said)), len(said)})
    for begin, end in zip([0, *ends], ends, strict=False):
        client.sendall(said[begin:end])


def _report(coordinator: Coordinator, who: str, about: str) -> bytes:
    """A report on a task that does not exist: its answer names the task."""
    body = json.dumps([{"taskId": about, "workflowInstanceId": "none", "status": "COMPLETED"}]).encode()
    head = f"POST /api/tasks/reports HTTP/1.1\r\nHost: localhost:{coordinator.port}\r\nX-Who: {who}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _read_answer(answers: Any) -> bytes:
    length = 0
    while (line := answers.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    found: bytes = answers.read(length)
    return found


class TestDefinitions:
    def test_task_definitions_are_registered_read_and_removed(self, api: httpx.Client, name: str) -> None:
        assert api.put("/metadata/taskdefs", json={"name": name}).status_code == 404
        assert api.post("/metadata/taskdefs", json=[{"name": name, "retryCount": 7}]).status_code == 200
        assert api.get(f"/metadata/taskdefs/{name}").json()["retryCount"] == 7
        assert api.put(f"/metadata/taskdefs/{name}", json={"retryCount": 8}).status_code == 200
        assert api.get(f"/metadata/taskdefs/{name}").json()["retryCount"] == 8
        assert api.delete(f"/metadata/taskdefs/{name}").status_code == 200
        assert api.get(f"/metadata/taskdefs/{name}").status_code == 404

    def test_a_response_timeout_above_the_timeout_is_refused(self, api: httpx.Client) -> None:
        answer = api.post("/metadata/taskdefs", json=[{"name": "x", "timeoutSeconds": 60}])
        assert answer.status_code == 400
        assert "responseTimeoutSeconds: 3600" in answer.text

    def test_workflow_definitions_are_registered_read_and_removed(self, api: httpx.Client, name: str) -> None:
        flow = {**FLOW, "name": name}
        assert api.post("/metadata/workflow", json=flow).status_code == 200
        assert api.post("/metadata/workflow", json=flow).status_code == 409
        assert api.post("/metadata/workflow", json=flow, params={"overwrite": "true"}).status_code == 200
        assert api.get(f"/metadata/workflow/{name}").json()["version"] == 1
        assert api.delete(f"/metadata/workflow/{name}/1").status_code == 200
        assert api.delete(f"/metadata/workflow/{name}/1").status_code == 404


class TestLife:
    def test_health_at_the_root_and_below_api(self, coordinator: Coordinator, api: httpx.Client) -> None:
        assert api.get("/health").json()["healthy"] is True
        assert httpx.get(coordinator.url.removesuffix("/api") + "/health").status_code == 200

    def test_the_coordinator_refuses_to_listen_beyond_loopback_without_keys(self) -> None:
        with pytest.raises(ValueError, match="allow_remote"):
            Coordinator(":memory:", host="0.0.0.0")
        Coordinator(":memory:", host="0.0.0.0", allow_remote=True)
        Coordinator(":memory:", host="0.0.0.0", auth_key="k", auth_secret="s")

    def test_a_taken_port_is_an_error_at_once(self, coordinator: Coordinator) -> None:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{coordinator.port}"):
            Coordinator(":memory:", port=coordinator.port).start()

    def test_an_unusable_file_is_an_error_of_start(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").write_text("no database" * 1000)
        with pytest.raises(Exception, match="not a usable database"):
            Coordinator(tmp_path / "a.db").start()

    def test_everything_is_there_after_a_restart(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as first, httpx.Client(base_url=first.url) as api:
            workflow = start(api, "work")
            task = poll(api, "work")
        with Coordinator(tmp_path / "a.db") as second, httpx.Client(base_url=second.url) as api:
            assert api.post("/tasks", json=result(task)).headers[VERDICT_HEADER] == "COMMITTED"
            assert api.get(f"/workflow/{workflow}").json()["status"] == "COMPLETED"

    def test_the_coordinator_works_in_memory_too(self) -> None:
        with Coordinator() as found, httpx.Client(base_url=found.url) as api:
            workflow = start(api, "work")
            api.post("/tasks", json=result(poll(api, "work")))
            assert api.get(f"/workflow/{workflow}").json()["status"] == "COMPLETED"

    def test_stopping_answers_parked_polls_at_once(self, tmp_path: Path) -> None:
        answers: list[httpx.Response] = []
        coordinator = Coordinator(tmp_path / "a.db").start()

        def wait() -> None:
            answers.append(httpx.get(f"{coordinator.url}/tasks/poll/batch/work", params={"timeout": 5000}))

        thread = threading.Thread(target=wait)
        thread.start()
        while coordinator.core is None or not len(coordinator.core.tasks.parked):
            pass
        coordinator.stop()
        thread.join()
        assert [(answer.status_code, answer.json()) for answer in answers] == [(200, [])]

    def test_sigterm_answers_parked_polls_drains_and_exits_0(self, tmp_path: Path) -> None:
        program = (
            "import sys; from conductor.coordinator import Coordinator; c = Coordinator(sys.argv[1]);"
            "c.serve(ready=lambda: print(c.url, flush=True))"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        answers: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: answers.append(httpx.get(f"{url}/tasks/poll/batch/work", params={"timeout": 5000}))
        )
        thread.start()
        while not httpx.get(f"{url}/tasks/queue/polldata/all").json():
            pass
        os.kill(child.pid, signal.SIGTERM)
        thread.join()
        assert answers[0].json() == []
        assert child.wait(60) == 0
        child.stdout.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Coordinator(auth_key="key", auth_secret="secret") as found:
        yield found.url


class TestAuth:
    def test_every_route_but_health_asks_for_a_token(self, url: str) -> None:
        assert httpx.get(f"{url}/health").status_code == 200
        for path in ("/tasks/poll/x", "/metadata/taskdefs", "/workflow/x", "/version"):
            answer = httpx.get(url + path)
            assert (answer.status_code, answer.json()["error"]) == (401, "INVALID_TOKEN")

    def test_a_request_with_a_token_is_answered(self, url: str) -> None:
        answer = httpx.post(f"{url}/token", json={"keyId": "key", "keySecret": "secret"})
        headers = {"X-Authorization": answer.json()["token"]}
        assert httpx.get(f"{url}/metadata/taskdefs", headers=headers).status_code == 200

    @pytest.mark.parametrize("shown", [{"keyId": "key", "keySecret": "x"}, {"keyId": "x", "keySecret": "secret"}])
    def test_wrong_credentials_are_a_401(self, url: str, shown: dict[str, str]) -> None:
        assert httpx.post(f"{url}/token", json=shown).status_code == 401

    def test_a_forged_token_is_a_401(self, url: str) -> None:
        for token in ("9999999999.00", "x", "", "1.2.3"):
            assert httpx.get(f"{url}/version", headers={"X-Authorization": token}).status_code == 401

    def test_a_server_without_authentication_knows_no_token(self, api: httpx.Client) -> None:
        assert api.post("/token", content=json.dumps({"keyId": "k", "keySecret": "s"})).status_code == 404

    def test_a_key_without_a_secret_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="both"):
            Coordinator(auth_key="key")
