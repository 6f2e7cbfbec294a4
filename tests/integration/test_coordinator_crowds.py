"""The coordinator under many and large requests, behind slow ones, and on a disk that fails it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.http import connection
from conductor.coordinator.http.memory_budget import MemoryBudget, Reservation
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.transaction import Tx

MB = 0x100000


def answer_of(client: socket.socket) -> tuple[bytes, dict[str, Any]]:
    """Read the head and the body of an error; they may come in two pieces."""
    client.settimeout(30)
    found = b""
    while not found.endswith(b"}"):
        found += client.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    return head, json.loads(body)


@pytest.fixture(scope="module")
def closed() -> Iterator[Coordinator]:
    with Coordinator(auth_key="key", auth_secret="secret") as found:
        yield found


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with Coordinator() as found, httpx.Client(base_url=found.url) as client:
        yield client


class TestConnectionsWithoutAKey:
    """Clients that open connections and send nothing, or half a request, keep no other client out."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "MAX_CONNECTIONS", 5)

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b"GET /api/version HTTP/1.1\r\nhost: loc",
            b"POST /api/token HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
            b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
            b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        ],
    )
    def test_they_make_room(self, closed: Coordinator, sent: bytes) -> None:
        with ExitStack() as clients:
            for _ in range(30):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", closed.port), 30))
                client.sendall(sent)
            for _ in range(10):
                assert httpx.get(f"{closed.url}/version").status_code == 401

    def test_a_client_with_a_key_that_waits_for_an_answer_keeps_its_connection(self, closed: Coordinator) -> None:
        token = httpx.post(f"{closed.url}/token", json={"keyId": "key", "keySecret": "secret"}).json()["token"]
        polled: list[int] = []

        def poll() -> None:
            headers = {"X-Authorization": token}
            polled.append(httpx.get(f"{closed.url}/tasks/poll/batch/x?timeout=2000", headers=headers).status_code)

        polls = [threading.Thread(target=poll) for _ in range(3)]
        for thread in polls:
            thread.start()
        assert closed.core is not None
        while len(closed.core.tasks.parked) < 3:
            time.sleep(0.01)
        with ExitStack() as clients:
            for _ in range(30):
                clients.enter_context(socket.create_connection(("127.0.0.1", closed.port), 30))
            for thread in polls:
                thread.join()
        assert polled == [200, 200, 200]


class TestTokensBeforeBodies:
    def test_a_request_without_a_token_is_refused_before_its_body_is_read(self, closed: Coordinator) -> None:
        head = b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000000\r\n\r\n"
        with ExitStack() as clients:
            waiting = [
                clients.enter_context(socket.create_connection(("127.0.0.1", closed.port), 30)) for _ in range(150)
            ]
            for client in waiting:
                client.sendall(head)
            for client in waiting:
                status, body = answer_of(client)
                assert (status.split()[1], body["error"]) == (b"401", "INVALID_TOKEN")
            assert httpx.get(f"{closed.url}/health").status_code == 200

    def test_bodies_are_small_where_no_token_is_needed(self, closed: Coordinator) -> None:
        answer = httpx.post(f"{closed.url}/token", json={"keyId": "k" * 70_000, "keySecret": "s"})
        assert (answer.status_code, answer.json()["status"]) == (413, 413)

    def test_a_refused_client_that_asked_first_is_not_asked_for_its_body(self, closed: Coordinator) -> None:
        head = b"POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n"
        with socket.create_connection(("127.0.0.1", closed.port)) as client:
            client.sendall(head)
            status, _ = answer_of(client)
            assert status.startswith(b"HTTP/1.1 401")
            assert b"connection: close" in status.lower()


class TestBudgets:
    def test_bodies_share_one_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The one that finds no room is answered 503, which a worker tries again; small ones are not held up."""
        monkeypatch.setattr("conductor.coordinator.http.memory_budget.RESERVE_TIMEOUT_S", 0.05)
        head = b"POST /api/workflow HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (10 * MB)
        with Coordinator() as found, ExitStack() as clients:
            for _ in range(6):
                clients.enter_context(socket.create_connection(("127.0.0.1", found.port))).sendall(head + b"[")
            with httpx.Client(base_url=found.url, timeout=30) as api:
                while (answer := api.post("/workflow", content=b" " * (10 * MB))).status_code != 503:
                    pass
                assert (answer.json()["status"], answer.json()["retryable"]) == (503, True)
                assert api.post("/metadata/taskdefs", json=[{"name": "small"}]).status_code == 200
                clients.close()
                while (answer := api.post("/workflow", content=b" " * (10 * MB))).status_code == 503:
                    pass
                assert answer.status_code == 400

    async def test_waiting_reservations_are_granted_in_order(self) -> None:
        budget = MemoryBudget(100 * MB, "large requests")
        first, second, third = Reservation(budget), Reservation(budget), Reservation(budget)
        await first.grow(90 * MB)
        waiting = [asyncio.create_task(second.grow(20 * MB)), asyncio.create_task(third.grow(5 * MB))]
        await asyncio.sleep(0)
        assert (second.size, third.size) == (0, 0)
        first.end()
        await asyncio.gather(*waiting)
        assert budget.free == 75 * MB
        second.end()
        third.end()
        third.end()
        assert budget.free == 100 * MB

    async def test_a_reservation_that_gives_up_leaves_the_budget_unchanged(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("conductor.coordinator.http.memory_budget.RESERVE_TIMEOUT_S", 0)
        budget = MemoryBudget(MB, "large requests")
        held, other, small = Reservation(budget), Reservation(budget), Reservation(budget)
        await held.grow(MB // 2)
        with pytest.raises(ApiError, match="too many large requests"):
            await other.grow(MB)
        cancelled = asyncio.create_task(other.grow(MB))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await small.grow(MB // 4)
        held.end()
        small.end()
        assert budget.free == MB


@contextmanager
def held_up(coordinator: Coordinator, method: str, jobs: int) -> Iterator[None]:
    """Hold `jobs` calls of core.reader.read_long or core.write until the block ends."""
    core, go, begun = coordinator.core, threading.Event(), threading.Semaphore(0)
    assert core is not None
    ask: Callable[[Callable[[Tx], None]], Any] = getattr(core.store, method)
    loop = coordinator._server._loop  # type: ignore[union-attr]

    def hold(_tx: Tx) -> None:
        begun.release()
        go.wait(60)

    held = [asyncio.run_coroutine_threadsafe(ask(hold), loop) for _ in range(jobs)]
    begun.acquire(timeout=30)
    try:
        yield
    finally:
        go.set()
        for one in held:
            one.result(30)


class TestReaders:
    def test_a_cheap_question_does_not_wait_behind_searches(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as found, held_up(found, "read_long", 10):
            assert httpx.get(f"{found.url}/metadata/taskdefs", timeout=30).json() == []
            assert httpx.get(f"{found.url}/health", timeout=30).status_code == 200

    def test_searches_are_the_long_reads(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as found, httpx.Client(base_url=found.url, timeout=30) as api:
            with held_up(found, "read_long", 10):
                for path in ("/workflow/search", "/workflow/search-v2", "/tasks/search", "/workflow/search-by-tasks"):
                    with pytest.raises(httpx.ReadTimeout):
                        api.get(path, timeout=0.1)
            assert api.get("/workflow/search").status_code == 200

    def test_readers_are_closed_with_the_file(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as found:
            with held_up(found, "read_long", 3):
                pass
            assert Path(f"{tmp_path}/a.db-wal").exists()
        assert not Path(f"{tmp_path}/a.db-wal").exists()


class TestHealth:
    def test_a_writer_that_hangs_is_not_healthy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("conductor.coordinator.store.write_probe.ANSWER_TIMEOUT_S", 0.05)
        with Coordinator(tmp_path / "a.db") as found, httpx.Client(base_url=found.url, timeout=30) as api:
            with held_up(found, "write", 1):
                for _ in range(3):
                    answer = api.get("/health")
                    assert (answer.status_code, answer.json()["healthy"]) == (503, False)
                    assert "has not answered" in answer.json()["healthResults"][0]["message"]
                assert found.core is not None
                assert len(found.core.store._pacer) <= 1
            monkeypatch.undo()
            assert api.get("/health").json()["healthy"] is True

    def test_a_file_that_cannot_be_written_is_not_healthy_until_it_can(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as found, httpx.Client(base_url=found.url, timeout=30) as other:
            assert found.core is not None
            database = found.core.store._db
            database.execute("PRAGMA query_only = 1")
            assert other.post("/metadata/taskdefs", json=[{"name": "a"}]).status_code == 500
            for _ in range(2):
                answer = other.get("/health")
                assert (answer.status_code, answer.json()["healthy"]) == (503, False)
                assert "could not be written" in answer.json()["healthResults"][0]["message"]
            database.execute("PRAGMA query_only = 0")
            assert other.get("/health").status_code == 200

    def test_a_commit_that_failed_counts_until_something_is_written(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "a.db") as found, httpx.Client(base_url=found.url, timeout=30) as other:
            assert found.core is not None
            found.core.store.failure = "disk is full"
            assert other.get("/metadata/taskdefs").status_code == 200
            assert found.core.store.failure == "disk is full"
            assert other.get("/health").status_code == 200
            assert found.core.store.failure is None


class TestAbsent:
    @pytest.mark.parametrize(
        ("method", "path", "what"),
        [
            ("GET", "/event/queue/config", "queues of other systems (/api/event/queue)"),
            ("POST", "/event/queue/config/kafka/a", "queues of other systems (/api/event/queue)"),
            ("GET", "/scheduler/schedules/nightly/tags", "tags of schedules (/api/scheduler/schedules/{name}/tags)"),
            ("GET", "/secrets/token/tags", "tags of secrets (/api/secrets/{key}/tags)"),
            ("GET", "/webhook/x/y", "webhooks (/api/webhook)"),
            ("GET", "/workflow/externalstoragelocation", "external storage of payloads"),
            ("GET", "/tasks/externalstoragelocation", "external storage of payloads"),
            ("POST", "/agent", "agents (/api/agent)"),
        ],
    )
    def test_an_unsupported_route_is_refused_with_its_name(
        self, api: httpx.Client, method: str, path: str, what: str
    ) -> None:
        answer = api.request(method, path)
        assert answer.status_code == 404
        assert answer.json()["message"].startswith(f"this coordinator has no {what}")

    def test_an_unknown_id_is_still_an_unknown_id(self, api: httpx.Client) -> None:
        for name in ("search-xyz", "event", "testing"):
            assert api.get(f"/workflow/{name}").json()["message"] == f"No such workflow found by id: {name}"
        assert api.get("/workflow/test/correlated/x").json() == []
        assert api.get("/nothing").json()["message"] == "No static resource api/nothing."
