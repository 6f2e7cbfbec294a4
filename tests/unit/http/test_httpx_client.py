"""A user's own `httpx.AsyncClient` does the work when it is given."""

import socket

import httpx
import pytest
from raw_server import CLOSE, RESET, SILENCE, answer

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import (
    AsyncRESTClientObject,
    ConnectError,
    ConnectionLost,
    RequestTimeout,
    TransportError,
)
from conductor.client.http.models.task import Task


@pytest.fixture
async def http_client():
    async with httpx.AsyncClient(headers={"X-Mine": "yes"}) as client:
        yield client


async def test_it_is_used_as_it_is(serve, http_client) -> None:
    server = await serve(lambda seen: answer(200, {"taskId": "t"}, X_Thing="v"))
    client = AsyncApiClient(Configuration(server.url), http_client=http_client)
    assert (await client.call_for(Task, "GET", "/tasks/t")).task_id == "t"
    response = await client.call("POST", "/tasks", body=b'{"a":1}')
    assert (response.status, response.headers.get("x-thing"), type(response.body)) == (200, "v", bytes)
    assert all(seen.headers["x-mine"] == "yes" for seen in server.requests)
    assert server.requests[1].body == b'{"a":1}'
    assert server.connections == 1


async def test_it_is_not_ours_to_close(serve, http_client) -> None:
    server = await serve(lambda seen: answer())
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    await client.close()
    assert not http_client.is_closed


async def test_its_errors_become_ours(serve, http_client) -> None:
    server = await serve(lambda seen: SILENCE if seen.target == "/silence" else RESET)
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    with pytest.raises(RequestTimeout, match="no answer within 0.1 s"):
        await client.request("GET", server.url + "/silence", timeout_s=0.1)
    with pytest.raises(ConnectionLost):
        await client.request("GET", server.url + "/reset")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError):
            await client.request("GET", f"http://127.0.0.1:{bound.getsockname()[1]}")
    await http_client.aclose()
    with pytest.raises(TransportError, match="closed"):
        await client.request("GET", server.url)


@pytest.mark.parametrize("ending", [CLOSE, RESET])
async def test_p35_holds_for_it_too(serve, http_client, ending) -> None:
    server = await serve(lambda seen: ending if seen.nth == 2 else answer(body="ok"))
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    for _ in range(4):
        assert (await client.request("GET", server.url)).body == b"ok"


async def test_timeouts_are_ours_not_its_default(serve) -> None:
    server = await serve(lambda seen: SILENCE)
    async with httpx.AsyncClient(timeout=None) as http_client:
        client = AsyncRESTClientObject(Configuration(server.url, timeout_s=0.1), http_client=http_client)
        with pytest.raises(RequestTimeout):
            await client.request("GET", server.url)
