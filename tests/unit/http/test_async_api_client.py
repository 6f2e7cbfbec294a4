"""Calls: their URLs, the types of their results, and their error messages."""

import logging
from typing import Any

import msgspec
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import (
    ApiException,
    ConnectionLost,
    MalformedAnswer,
    NotFoundException,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from tests.unit.http.raw_server import RESET, answer


@pytest.fixture
async def client_for(serve: Any) -> Any:
    clients: list[Any] = []

    async def make(script: Any, **options: Any) -> Any:
        server = await serve(script)
        clients.append(AsyncApiClient(Configuration(server.url, **options)))
        clients[-1].server = server
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


async def test_call_raises_for_no_status(client_for: Any) -> None:
    client = await client_for(lambda seen: answer(500, "broken"))
    response = await client.call("GET", "/tasks/x")
    assert (response.status, response.body) == (500, b"broken")


async def test_queries_leave_out_what_is_none(client_for: Any) -> None:
    client = await client_for(lambda seen: answer())
    query = {"a": "x y&z", "b": None, "c": True, "d": 5, "e": ["1", "2"], "f": False}
    await client.call("GET", "/x", query=query)
    await client.call("GET", "/x", query={"b": None})
    assert [seen.target for seen in client.server.requests] == [
        "/api/x?a=x+y%26z&c=true&d=5&e=1&e=2&f=false",
        "/api/x",
    ]


async def test_a_body_has_its_content_type_and_no_body_has_none(client_for: Any) -> None:
    client = await client_for(lambda seen: answer())
    await client.call("POST", "/x", body=b"{}")
    await client.call("GET", "/x")
    await client.call("POST", "/x", body=b"hi", content_type="text/plain")
    assert [seen.headers.get("content-type") for seen in client.server.requests] == [
        "application/json",
        None,
        "text/plain",
    ]


async def test_answers_become_types(client_for: Any) -> None:
    bodies = {
        "/api/task": answer(200, {"taskId": "t", "unknown": 1}),
        "/api/tasks": answer(200, [{"taskId": "t"}]),
        "/api/id": answer(200, "an-id"),
        "/api/quoted": answer(200, {"a": 1}).replace(b'{"a": 1}', b'"q-id"  '),
        "/api/number": answer(200, "7"),
        "/api/nothing": answer(204),
        "/api/sizes": answer(200, {"a": 1}),
    }
    client = await client_for(lambda seen: bodies[seen.target])
    assert (await client.call_for(Task, "GET", "/task")).task_id == "t"
    assert [task.task_id for task in await client.call_for(list[Task], "GET", "/tasks")] == ["t"]
    assert await client.call_for(str, "GET", "/id") == "an-id"
    assert await client.call_for(str, "GET", "/quoted") == "q-id"
    assert await client.call_for(int, "GET", "/number") == 7
    assert await client.call_for(dict[str, int], "GET", "/sizes") == {"a": 1}
    assert await client.call_for(list[Task], "GET", "/nothing") == []
    assert await client.call_for(dict[str, int], "GET", "/nothing") == {}
    assert await client.call_for(str, "GET", "/nothing") == ""


@pytest.mark.parametrize("body", ["", "nonsense", "[1]", '{"taskId": 5}', '{"taskId"', b"\xff\xfe"])
async def test_a_body_that_is_not_what_was_promised_is_named(client_for: Any, body: Any) -> None:
    client = await client_for(lambda seen: answer(200, body))
    with pytest.raises(MalformedAnswer, match="GET /tasks/x answered 200 with a body that is not a Task: "):
        await client.call_for(Task, "GET", "/tasks/x")


async def test_text_that_is_not_utf8_is_malformed(client_for: Any) -> None:
    client = await client_for(lambda seen: answer(200, b"\xff\xfe"))
    with pytest.raises(MalformedAnswer):
        await client.call_for(str, "GET", "/x")


async def test_an_error_says_what_was_asked_and_what_was_answered(client_for: Any) -> None:
    body = {"status": 404, "message": "No such taskType found by name: foo", "retryable": False}
    client = await client_for(lambda seen: answer(404, body))
    with pytest.raises(NotFoundException) as raised:
        await client.call_for(TaskDef, "GET", "/metadata/taskdefs/foo")
    assert str(raised.value) == "GET /metadata/taskdefs/foo answered 404: No such taskType found by name: foo"
    assert msgspec.json.decode(raised.value.body or b"") == body


async def test_a_redirect_is_an_error_that_names_the_status(client_for: Any) -> None:
    client = await client_for(lambda seen: answer(301, Location="https://elsewhere"))
    with pytest.raises(ApiException, match="answered 301"):
        await client.call_for(Task, "GET", "/tasks/x")


async def test_the_hook_hears_of_every_request(client_for: Any) -> None:
    client = await client_for(lambda seen: RESET if seen.target == "/api/lost" else answer(404))
    heard = []
    client.on_request = lambda *args: heard.append(args)
    await client.call("GET", "/tasks/5", template="/tasks/{taskId}")
    await client.call("GET", "/tasks/5")
    with pytest.raises(ConnectionLost):
        await client.call("POST", "/lost", body=b"", resend=False)
    assert [entry[:3] for entry in heard] == [
        ("GET", "/tasks/{taskId}", 404),
        ("GET", "/tasks/5", 404),
        ("POST", "/lost", 0),
    ]
    assert all(entry[3] >= 0 for entry in heard)


async def test_models_and_plain_json_both_ways() -> None:
    client = AsyncApiClient(Configuration())
    assert client.deserialize_model({"taskId": "t"}, Task).task_id == "t"
    assert client.deserialize_model(b'[{"taskId":"t"}]', list[Task])[0].task_id == "t"
    assert client.sanitize_for_serialization(TaskDef(name="a", retry_count=5))["retryCount"] == 5
    assert client.sanitize_for_serialization({"a": [TaskDef(name="b")], 1: None})["a"][0]["name"] == "b"


async def test_nothing_secret_is_logged(client_for: Any, caplog: pytest.LogCaptureFixture) -> None:
    from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings

    client = await client_for(
        lambda seen: answer(500, "no"), authentication_settings=AuthenticationSettings("id", "s3cret")
    )
    with caplog.at_level(logging.DEBUG):
        await client.call("GET", "/x")
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(client.configuration)
