"""The request of an HTTP task, and the meaning of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.coordinator.limits import MAX_HTTP_CALL_S
from conductor.coordinator.system.http_call import HttpAnswer, HttpFailure, parse_origin
from conductor.coordinator.system.http_task_worker import (
    InvalidHttpRequest,
    convert_answer,
    convert_invalid_request,
    read_request,
)


def asked(**fields: Any) -> dict[str, Any]:
    return {"http_request": {"uri": "http://127.0.0.1/x", "method": "GET", **fields}}


def test_a_request_has_conductors_defaults() -> None:
    request = read_request(asked())
    assert request.headers == {"Accept": "application/json", "Content-Type": "application/json"}
    assert (request.body, request.connect_timeout_s, request.read_timeout_s) == (None, 3.0, 3.0)


def test_the_request_may_stand_in_the_input_itself() -> None:
    assert read_request({"uri": "http://127.0.0.1/x", "method": "PUT"}).method == "PUT"


def test_times_are_milliseconds_and_zero_is_as_long_as_a_call_may_take() -> None:
    request = read_request(asked(connectionTimeOut=250, readTimeOut="0"))
    assert (request.connect_timeout_s, request.read_timeout_s) == (0.25, MAX_HTTP_CALL_S)
    assert read_request(asked(readTimeOut=10**12)).read_timeout_s == MAX_HTTP_CALL_S


def test_headers_without_a_value_are_left_out_and_others_are_written_as_text() -> None:
    headers = read_request(asked(headers={"X-A": 5, "X-B": None, "X-C": "c", "X-D": True})).headers
    assert {name: value for name, value in headers.items() if name.startswith("X-")} == {
        "X-A": "5",
        "X-C": "c",
        "X-D": "true",
    }


@pytest.mark.parametrize(
    ("body", "sent"), [({"a": 1}, b'{"a":1}'), ([1], b"[1]"), (5, b"5"), ("text", b"text"), ('{"a":1}', b'{"a":1}')]
)
def test_a_body_is_sent_as_json_unless_it_is_a_text(body: Any, sent: bytes) -> None:
    assert read_request(asked(method="POST", body=body)).body == sent


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "MUST have a 'http_request'"),
        ({"http_request": "http://x"}, "MUST have a 'http_request'"),
        ({"http_request": {"method": "GET"}}, "Missing HTTP URI"),
        ({"http_request": {"uri": None, "method": "GET"}}, "Missing HTTP URI"),
        ({"http_request": {"uri": "http://x"}}, "No HTTP method specified"),
        (asked(method="get"), "Invalid HTTP method: get"),
        (asked(method="CONNECT"), "Invalid HTTP method: CONNECT"),
        (asked(vipAddress="orders"), "vipAddress of http_request is not supported"),
        (asked(hedgingConfig={"maxAttempts": 2}), "hedgingConfig of http_request is not supported"),
        (asked(contentType="nonsense"), "contentType of http_request is 'nonsense'"),
        (asked(accept="a/b\r\nX: y"), "accept of http_request"),
        (asked(headers=[1]), "headers of http_request"),
        (asked(headers={"X Y": "z"}), "not a valid name of a header"),
        (asked(headers={"X-Y": "z\r\nX-Z: q"}), "cannot be sent"),
        (asked(headers={"X-Y": "é€"}), "cannot be sent"),
        (asked(readTimeOut="soon"), "readTimeOut of http_request is 'soon'"),
        (asked(connectionTimeOut=-1), "connectionTimeOut of http_request is '-1'"),
        (asked(method="POST", body={"a": 1}, contentType="text/plain"), "write the body as a text"),
    ],
)
def test_a_request_that_cannot_be_sent_fails_the_task_with_the_reason(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidHttpRequest, match=said) as found:
        read_request(given)
    assert convert_invalid_request(found.value).status == "FAILED"


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "ftp://x/", "gopher://x", "//x", "x", "http://", "http://a b/"])
def test_only_http_and_https_are_called(uri: str) -> None:
    with pytest.raises(HttpFailure):
        parse_origin(uri)


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("http://h", ("http", "h", 80)),
        ("https://H:8443/x?y", ("https", "h", 8443)),
        ("http://[::1]/", ("http", "::1", 80)),
    ],
)
def test_the_place_of_an_address(uri: str, place: tuple[str, str, int]) -> None:
    assert parse_origin(uri) == place


def answer(status: int, body: Any = None, text: str = "") -> HttpAnswer:
    return HttpAnswer(status, "Phrase", {"X-A": ["1", "2"]}, body, "GET", "http://h/x", text)


def test_a_success_has_status_headers_body_and_phrase() -> None:
    found = convert_answer(answer(201, {"a": 1}), async_complete=False)
    assert found.status == "COMPLETED"
    response = {"statusCode": 201, "reasonPhrase": "Phrase", "headers": {"X-A": ["1", "2"]}, "body": {"a": 1}}
    assert found.output == {"response": response}


def test_an_asynchronous_http_task_is_left_open() -> None:
    assert convert_answer(answer(200), async_complete=True).status == "IN_PROGRESS"
    assert convert_answer(answer(500), async_complete=True).status == "FAILED"


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (404, '{"no":1}', 'due to: 404 Phrase on GET request for "http://h/x": "{"no":1}"'),
        (500, "", 'due to: 500 Phrase on GET request for "http://h/x": [no body]'),
        (304, "", "No response from the remote service"),
    ],
)
def test_any_other_status_is_a_failure(status: int, text: str, said: str) -> None:
    found = convert_answer(answer(status, text=text), async_complete=False)
    assert found.status == "FAILED"
    assert found.reason is not None
    assert said in found.reason
