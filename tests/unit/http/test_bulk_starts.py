"""Many starts on servers that have no bulk starts, and on coordinators that fail in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http import bulk_starts
from conductor.client.http.errors import AuthorizationException, BulkStartError, ConnectionLost, NotFoundException
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow_client import AsyncWorkflowClient
from tests.unit.http.raw_server import CLOSE, RawServer, Seen, answer

Serve = Callable[..., Awaitable[RawServer]]
FEATURES = {"Conductor_Features": "leases, batch-reports, bulk-starts"}


def requests(count: int, **more: Any) -> list[StartWorkflowRequest]:
    return [StartWorkflowRequest(name="flow", input={"n": n}, **more) for n in range(count)]


async def start(server: RawServer, count: int, **more: Any) -> list[str]:
    async with AsyncWorkflowClient(Configuration(server.url)) as workflows:
        return await workflows.start_workflows(requests(count, **more))


def starts_of(server: RawServer) -> list[Any]:
    return [seen.json for seen in server.requests if seen.method == "POST"]


@pytest.mark.parametrize("version", [answer(200, "3.32.1"), answer(404, {"status": 404, "message": "No static"})])
async def test_a_conductor_server_gets_single_starts_eight_at_a_time(serve: Serve, version: bytes) -> None:
    arrived = asyncio.Semaphore(0)
    full = asyncio.Event()

    async def script(seen: Seen) -> bytes:
        if seen.target.endswith("/version"):
            return version
        assert seen.target.endswith("/workflow")
        arrived.release()
        if server.open_connections == bulk_starts.SINGLE_STARTS_AT_ONCE:
            full.set()
        await asyncio.wait_for(full.wait(), 60)
        return answer(200, f"id-{seen.json['input']['n']}")

    server = await serve(script)
    assert await start(server, 20) == [f"id-{n}" for n in range(20)]
    assert server.most_open == bulk_starts.SINGLE_STARTS_AT_ONCE


async def test_only_a_get_asks_what_kind_of_server_it_is_and_once(serve: Serve) -> None:
    server = await serve(lambda seen: answer(200, "3.32.1" if seen.target.endswith("/version") else "id"))
    async with AsyncWorkflowClient(Configuration(server.url)) as workflows:
        for _ in range(2):
            await workflows.start_workflows(requests(1))
    assert [seen.method for seen in server.requests] == ["GET", "POST", "POST"]


async def test_a_single_start_that_is_refused_does_not_hurt_the_others(serve: Serve) -> None:
    def script(seen: Seen) -> bytes:
        if seen.target.endswith("/version"):
            return answer(200, "3.32.1")
        n = seen.json["input"]["n"]
        return answer(404, {"status": 404, "message": "No such workflow"}) if n == 3 else answer(200, f"id-{n}")

    server = await serve(script)
    with pytest.raises(BulkStartError) as caught:
        await start(server, 12)
    results = caught.value.results
    assert isinstance(results[3], NotFoundException)
    assert [result for result in results if isinstance(result, str)] == [f"id-{n}" for n in range(12) if n != 3]


async def test_a_server_that_refuses_the_key_is_not_asked_a_thousand_times(serve: Serve) -> None:
    refused = answer(403, {"status": 403, "message": "not yours"})
    server = await serve(lambda seen: answer(200, "3.32.1") if seen.target.endswith("/version") else refused)
    with pytest.raises(AuthorizationException):
        await start(server, 1000)
    assert len(starts_of(server)) <= bulk_starts.SINGLE_STARTS_AT_ONCE


async def test_bulks_before_a_lost_connection_count_and_nothing_is_sent_after_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_starts, "MAX_BULK_STARTS", 4)

    def script(seen: Seen) -> Any:
        if seen.target.endswith("/version"):
            return answer(200, "1.0.0", **FEATURES)
        return (
            CLOSE if seen.json[0]["input"]["n"] == 4 else answer(200, [f"id-{one['input']['n']}" for one in seen.json])
        )

    server = await serve(script)
    with pytest.raises(BulkStartError) as caught:
        await start(server, 12)
    assert caught.value.results[:4] == [f"id-{n}" for n in range(4)]
    assert all(isinstance(result, ConnectionLost) for result in caught.value.results[4:])
    assert [len(sent) for sent in starts_of(server)] == [4, 4]


async def test_a_bulk_of_keyed_starts_is_sent_again_after_a_lost_connection(serve: Serve) -> None:
    def script(seen: Seen) -> Any:
        if seen.target.endswith("/version"):
            return answer(200, "1.0.0", **FEATURES)
        return CLOSE if len(starts_of(server)) == 1 else answer(200, ["id-0", "id-1"])

    server = await serve(script)
    assert await start(server, 2, idempotency_key="k") == ["id-0", "id-1"]


async def test_a_server_that_took_the_coordinators_place_gets_single_starts(serve: Serve) -> None:
    def script(seen: Seen) -> Any:
        if seen.target.endswith("/version"):
            return answer(200, "1.0.0", **FEATURES)
        if seen.target.endswith("/start/bulk"):
            return answer(404, {"status": 404, "message": "No static resource api/workflow/start/bulk."})
        return answer(200, "id")

    server = await serve(script)
    assert await start(server, 2) == ["id", "id"]


async def test_large_requests_are_divided(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_starts, "MAX_REQUEST_BYTES", 200)

    def script(seen: Seen) -> Any:
        if seen.target.endswith("/version"):
            return answer(200, "1.0.0", **FEATURES)
        return answer(200, [f"id-{one['input']['n']}" for one in seen.json])

    server = await serve(script)
    assert await start(server, 20) == [f"id-{n}" for n in range(20)]
    assert len(starts_of(server)) > 1
    assert all(len(seen.body) <= 202 for seen in server.requests)
