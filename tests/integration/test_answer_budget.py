"""Clients that ask for large answers and do not read them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.http import app as http_app
from conductor.coordinator.http import connection, memory_budget
from conductor.coordinator.http.routes import tasks
from conductor.coordinator.views import task_views

MB = 0x100000
JSON = {"Content-Type": "application/json"}
FLOW = {
    "name": "large",
    "version": 1,
    "tasks": [{"name": "heavy", "taskReferenceName": "heavy", "inputParameters": {}}],
}
FLOW["tasks"][0]["inputParameters"] = {"all": "${workflow.input}"}  # type: ignore[index]


def start_large_workflow(api: httpx.Client, size: int = 4 * MB) -> str:
    """Start a workflow whose answer has twice this size: its input, and the same as the input of its task."""
    answer = api.post("/workflow", json={"name": "large", "workflowDef": FLOW, "input": {"text": "x" * size}})
    assert answer.status_code == 200, answer.text
    return answer.text


@contextmanager
def deaf_clients(port: int, count: int, path: str) -> Iterator[list[socket.socket]]:
    """Clients that ask for `path` and read nothing."""
    with ExitStack() as clients:
        found = []
        for _ in range(count):
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(60)
            client.connect(("127.0.0.1", port))
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            found.append(client)
        yield found


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    """A coordinator that has memory for two answers of 8 MB, and does not let reads wait for more."""
    monkeypatch.setattr(http_app, "ANSWER_BUDGET_BYTES", 20 * MB)
    monkeypatch.setattr(memory_budget, "RESERVE_TIMEOUT_S", 0.05)
    with Coordinator(tmp_path / "a.db") as found:
        yield found


def test_large_answers_share_one_budget_a03(coordinator: Coordinator) -> None:
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        workflow = start_large_workflow(api)
        with deaf_clients(coordinator.port, 2, f"/api/workflow/{workflow}"):
            until(lambda: api.get(f"/workflow/{workflow}").status_code == 503)
            answer = api.get(f"/workflow/{workflow}")
            assert (answer.json()["retryable"], answer.headers["retry-after"]) == (True, "1")
            assert api.get("/health").status_code == 200
            assert api.get(f"/workflow/{workflow}", params={"includeTasks": False}).status_code in (200, 503)
            assert api.get(f"/workflow/{workflow}/status").status_code == 200
        until(lambda: api.get(f"/workflow/{workflow}").status_code == 200)


def test_tasks_of_a_poll_without_room_go_back_to_their_queue_a03(coordinator: Coordinator) -> None:
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        workflow = start_large_workflow(api)
        with deaf_clients(coordinator.port, 2, f"/api/workflow/{workflow}"):
            until(lambda: api.get(f"/workflow/{workflow}").status_code == 503)
            answer = api.get("/tasks/poll/batch/heavy")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert api.get("/tasks/queue/size", params={"taskType": "heavy"}).json() == 1
        until(lambda: api.get("/tasks/poll/batch/heavy").status_code == 200)


def test_next_tasks_without_room_go_back_to_their_queue_a03(coordinator: Coordinator) -> None:
    """The verdict on a report is sent in any case; the task that would come with it is not."""
    small = {"name": "large", "workflowDef": FLOW, "input": {}}
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        assert api.post("/workflow", json=small).status_code == 200
        [held] = api.get("/tasks/poll/batch/heavy").json()
        workflow = start_large_workflow(api)
        report = {name: held[name] for name in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "COMPLETED"}
        with deaf_clients(coordinator.port, 2, f"/api/workflow/{workflow}"):
            until(lambda: api.get(f"/workflow/{workflow}").status_code == 503)
            [answer] = api.post("/tasks/reports", params={"next": 1}, json=[report]).json()
            assert (answer["verdict"], "nextTask" in answer) == ("COMMITTED", False)
            assert api.get("/tasks/queue/size", params={"taskType": "heavy"}).json() == 1
        until(lambda: api.get("/tasks/poll/batch/heavy").status_code == 200)


def test_tasks_and_log_lines_in_one_answer_have_a_bound(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_views, "MAX_TASKS_BYTES", MB // 2)
    monkeypatch.setattr(tasks, "MAX_LOG_BYTES", MB // 2)
    loop = {**FLOW["tasks"][0], "retryCount": 0}  # type: ignore[index]
    branches = [[{**loop, "taskReferenceName": f"heavy{number}"}] for number in range(4)]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}
    flow = {"name": "wide", "version": 1, "tasks": [fork, {"name": "j", "taskReferenceName": "j", "type": "JOIN"}]}
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        start = {"name": "wide", "workflowDef": flow, "input": {"text": "x" * (MB // 4)}}
        workflow = api.post("/workflow", json=start).text
        refused = api.get(f"/workflow/{workflow}")
        assert (refused.status_code, "read the workflow without them" in refused.json()["message"]) == (400, True)
        assert api.get(f"/workflow/{workflow}", params={"includeTasks": False}).status_code == 200
        page = api.get(f"/workflow/{workflow}/tasks", params={"count": 10}).json()
        assert (page["totalHits"], len(page["results"])) == (6, 3)
        rest = api.get(f"/workflow/{workflow}/tasks", params={"start": 3, "count": 2, "status": "SCHEDULED"}).json()
        assert (rest["totalHits"], [one["referenceTaskName"] for one in rest["results"]]) == (4, ["heavy3"])
        task = rest["results"][0]["taskId"]
        for number in range(3):
            line = str(number) + "x" * (MB // 5)
            assert api.post(f"/tasks/{task}/log", content=line, headers=JSON).status_code == 200
        assert [line["log"][0] for line in api.get(f"/tasks/{task}/log").json()] == ["1", "2"], "the newest lines"


def test_open_tasks_of_a_type_have_a_bound_as_a_search_has(coordinator: Coordinator) -> None:
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        for _ in range(3):
            start_large_workflow(api)
        answer = api.get("/admin/task/heavy")
        assert answer.status_code == 400
        assert answer.json()["message"].endswith("ask for fewer at a time: count=2")
        assert len(api.get("/admin/task/heavy", params={"count": 2}).json()) == 2


def test_clients_that_do_not_read_are_disconnected_a03(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_TIMEOUT_S", 0.05)
    with httpx.Client(base_url=coordinator.url, timeout=60) as api:
        workflow = start_large_workflow(api)
    server = coordinator._server
    assert server is not None
    with deaf_clients(coordinator.port, 2, f"/api/workflow/{workflow}") as clients:
        for client in clients:
            client.recv(1, socket.MSG_PEEK)  # the answer has begun
        until(lambda: not server._connections.open)
        assert server._connections.app.answer_budget.free == 20 * MB
        for client in clients:
            received = 0
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(MB):
                    received += len(part)
            assert received < 8 * MB


class SlowClient(asyncio.Transport):
    """A client that reads each piece of an answer `read_s` seconds after the one before it."""

    def __init__(self, read_s: float) -> None:
        super().__init__()
        self._read_s = read_s
        self.time_s = 0.0
        self.received = 0
        self.is_cut = False

    def time(self) -> float:
        return self.time_s

    def write(self, data: Any) -> None:
        self.received += len(data)
        self.time_s += self._read_s

    def is_closing(self) -> bool:
        return self.is_cut

    def abort(self) -> None:
        self.is_cut = True


@pytest.mark.parametrize(("read_s", "is_read"), [(0.5, True), (25.0, False)])
async def test_clients_that_read_too_slowly_are_disconnected_a03(read_s: float, is_read: bool) -> None:
    """At 0.5 s per piece of 64 KB the client is fast enough. At 25 s it never stalls for 30 s, but takes too long."""
    found = connection.Connection(connection.Connections(cast("http_app.App", None)))
    client = SlowClient(read_s)
    found._transport, found._loop = client, cast("asyncio.AbstractEventLoop", client)
    found.pause_writing()
    found._write_resumed.set()  # type: ignore[union-attr] # the client reads on before the next piece
    await found._write_in_pieces(b"x" * 8 * MB)
    assert (client.received == 8 * MB, client.is_cut) == (is_read, not is_read)


@contextmanager
def served(database: Path) -> Iterator[tuple[psutil.Process, int]]:
    """The coordinator as a process of its own, and its port."""
    command = [sys.executable, "-m", "conductor.cli", "serve", "--port", "0", "--database", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            yield psutil.Process(process.pid), int(re.findall(r":(\d+)/api", process.stdout.readline())[0])
        finally:
            process.terminate()


@contextmanager
def memory_of(process: psutil.Process) -> Iterator[list[int]]:
    """The memory of a process, measured all the time."""
    measured, over = [process.memory_info().rss], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            measured.append(process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield measured
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_200_clients_that_do_not_read_cost_little_memory_a03(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The real process stays below 400 MB and answers health checks within a second."""
    took_s = []
    with served(tmp_path / "a.db") as (process, port), httpx.Client(base_url=f"http://127.0.0.1:{port}/api") as api:
        workflow = start_large_workflow(api)
        with memory_of(process) as measured, deaf_clients(port, 200, f"/api/workflow/{workflow}"):
            refused = 0
            while refused < 3:
                asked_at = time.monotonic()
                assert api.get("/health").status_code == 200
                took_s.append(time.monotonic() - asked_at)
                refused += api.get(f"/workflow/{workflow}").status_code == 503
        until(lambda: api.get(f"/workflow/{workflow}").status_code == 200)
    figures = (
        f"memory {measured[0] // MB} MB, at most {max(measured) // MB} MB; slowest health check {max(took_s):.3f} s"
    )
    record_property("figures", figures)
    assert max(measured) < 400 * MB
    assert max(took_s) < 1
