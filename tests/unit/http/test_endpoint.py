"""How the arguments of a call travel to a REST endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import Endpoint, quote_segment
from conductor.client.http.errors import ApiException, NotFoundException, RequestTimeout
from tests.unit.http.raw_server import SILENCE, Seen, answer


async def send(serve: Any, endpoint: Endpoint, arguments: dict[str, Any], reply: object = answer()) -> Seen:
    """Call an endpoint and return the request that the server saw."""
    server = await serve(lambda seen: reply)
    client = AsyncApiClient(Configuration(server.url))
    await endpoint.send(client, arguments, None)
    await client.close()
    (seen,) = server.requests
    return seen  # type: ignore[no-any-return]


async def test_arguments_fill_path_body_and_query_in_camel_case(serve: Any) -> None:
    endpoint = Endpoint("POST", "/workflow/{workflowId}/rerun", body="request")
    seen = await send(serve, endpoint, {"workflow_id": "a/b", "request": {"x": 1}, "include_tasks": True})
    assert seen.target == "/api/workflow/a%2Fb/rerun?includeTasks=true"
    assert seen.json == {"x": 1}


async def test_a_wire_name_replaces_the_name_of_the_argument(serve: Any) -> None:
    endpoint = Endpoint("GET", "/schema/{name}", wire_names={"schema_name": "name", "worker_id": "workerid"})
    seen = await send(serve, endpoint, {"schema_name": "s", "worker_id": "me"})
    assert seen.target == "/api/schema/s?workerid=me"


@pytest.mark.parametrize("nothing", [None, ""])
async def test_an_empty_argument_is_not_in_the_query(serve: Any, nothing: Any) -> None:
    seen = await send(serve, Endpoint("GET", "/tasks/queue/size"), {"task_type": "a", "domain": nothing})
    assert seen.target == "/api/tasks/queue/size?taskType=a"


async def test_a_missing_body_is_an_empty_object(serve: Any) -> None:
    assert (await send(serve, Endpoint("POST", "/workflow"), {"body": None})).json == {}


async def test_a_text_body_travels_as_it_is(serve: Any) -> None:
    endpoint = Endpoint("POST", "/tasks/{taskId}/log", as_text=True, content_type="text/plain")
    seen = await send(serve, endpoint, {"task_id": "t", "body": '"quoted"'})
    assert seen.body == b'"quoted"'
    assert seen.headers["content-type"] == "text/plain"


async def test_timeout_s_limits_the_call_and_does_not_travel(serve: Any) -> None:
    with pytest.raises(RequestTimeout, match=r"GET \S+/tasks/t: no answer within 0.1 s"):
        await send(serve, Endpoint("GET", "/tasks/{taskId}"), {"task_id": "t", "timeout_s": 0.1}, SILENCE)


async def test_wait_for_seconds_travels_and_extends_the_time_limit(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.client.http.endpoint.WAIT_GRACE_S", 0.1)
    with pytest.raises(RequestTimeout, match=r"waitForSeconds=0.2: no answer within 0.3 s"):
        await send(serve, Endpoint("GET", "/workflow"), {"wait_for_seconds": 0.2}, SILENCE)


NO_ROUTE = answer(404, {"message": "No static resource api/x."})


async def test_the_error_of_an_optional_endpoint_names_the_servers_that_have_it(serve: Any) -> None:
    with pytest.raises(NotFoundException, match="this server has no GET /x, which Orkes Conductor has"):
        await send(serve, Endpoint("GET", "/x", only_on="Orkes Conductor"), {}, NO_ROUTE)


async def test_the_error_of_any_other_endpoint_is_the_servers_own(serve: Any) -> None:
    with pytest.raises(ApiException, match="No static resource"):
        await send(serve, Endpoint("GET", "/x"), {}, NO_ROUTE)


def test_a_segment_has_no_slash_and_no_space() -> None:
    assert quote_segment("a/b c") == "a%2Fb%20c"
