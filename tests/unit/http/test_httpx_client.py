"""A user's own `httpx.AsyncClient` sends the requests if it is given."""

import gzip
import socket
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import (
    MAX_ERROR_BYTES,
    AnswerTooLarge,
    AsyncRESTClientObject,
    ConnectError,
    ConnectionLost,
    MalformedAnswer,
    RequestTimeout,
    TransportError,
)
from conductor.client.http.call import Call
from conductor.client.http.models.task import Task
from tests.unit.http.raw_server import CLOSE, RESET, SILENCE, answer


@pytest.fixture
async def http_client() -> Any:
    async with httpx.AsyncClient(headers={"X-Mine": "yes"}) as client:
        yield client


async def test_a_client_of_the_user_is_used_unchanged(serve: Any, http_client: Any) -> None:
    server = await serve(lambda seen: answer(200, {"taskId": "t"}, X_Thing="v"))
    client = AsyncApiClient(Configuration(server.url), http_client=http_client)
    assert (await client.call_for(Task, "GET", "/tasks/t")).task_id == "t"
    response = await client.call("POST", "/tasks", body=b'{"a":1}')
    assert (response.status, response.headers.get("x-thing"), type(response.body)) == (200, "v", bytes)
    assert all(seen.headers["x-mine"] == "yes" for seen in server.requests)
    assert server.requests[1].body == b'{"a":1}'
    assert server.connections == 1


async def test_a_client_of_the_user_is_not_closed(serve: Any, http_client: Any) -> None:
    server = await serve(lambda seen: answer())
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    await client.close()
    assert not http_client.is_closed


async def test_errors_of_httpx_become_errors_of_the_sdk(serve: Any, http_client: Any) -> None:
    server = await serve(lambda seen: SILENCE if seen.target == "/silence" else RESET)
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    with pytest.raises(RequestTimeout, match="no answer within 1 s"):
        await client.send(Call("GET", server.url + "/silence", timeout_s=1))
    with pytest.raises(ConnectionLost):
        await client.send(Call("GET", server.url + "/reset"))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError):
            await client.send(Call("GET", f"http://127.0.0.1:{bound.getsockname()[1]}"))
    await http_client.aclose()
    with pytest.raises(TransportError, match="closed"):
        await client.send(Call("GET", server.url))


@pytest.mark.parametrize("ending", [CLOSE, RESET])
async def test_p35_holds_for_a_client_of_the_user_too(serve: Any, http_client: Any, ending: Any) -> None:
    server = await serve(lambda seen: ending if seen.nth == 2 else answer(body="ok"))
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client)
    for _ in range(4):
        assert (await client.send(Call("GET", server.url))).body == b"ok"


async def test_timeouts_are_ours_not_its_default(serve: Any) -> None:
    server = await serve(lambda seen: SILENCE)
    async with httpx.AsyncClient(timeout=None) as http_client:
        client = AsyncRESTClientObject(Configuration(server.url, timeout_s=0.1), http_client=http_client)
        with pytest.raises(RequestTimeout):
            await client.send(Call("GET", server.url))


async def test_a_client_of_the_user_answers_to_a_client_of_the_user_have_the_same_size_limit(
    serve: Any, http_client: Any
) -> None:
    """After decompression."""
    bodies = {"/bomb": gzip.compress(bytes(10_000_000)), "/broken": b"this is no gzip"}
    server = await serve(lambda seen: answer(200, bodies[seen.target], Content_Encoding="gzip"))
    client = AsyncRESTClientObject(Configuration(server.url, max_answer_bytes=100_000), http_client=http_client)
    with pytest.raises(AnswerTooLarge, match="max_answer_bytes=100000"):
        await client.send(Call("GET", server.url + "/bomb"))
    with pytest.raises(MalformedAnswer):
        await client.send(Call("GET", server.url + "/broken"))


@pytest.mark.parametrize("library", ["pyreqwest", "httpx"])
async def test_only_the_beginning_of_a_large_error_is_read_a12(serve: Any, http_client: Any, library: str) -> None:
    """An error of 50 MB keeps its status and its first words; the next request gets its answer."""
    answers = {"/error": answer(503, b"overloaded" + bytes(50_000_000)), "/": answer(200, "ok")}
    server = await serve(lambda seen: answers[seen.target])
    client = AsyncRESTClientObject(Configuration(server.url), http_client=http_client if library == "httpx" else None)
    large = await client.send(Call("GET", server.url + "/error"))
    assert (large.status, len(large.body)) == (503, MAX_ERROR_BYTES)
    assert large.body.startswith(b"overloaded")
    assert (await client.send(Call("GET", server.url + "/"))).body == b"ok"
    await client.close()
