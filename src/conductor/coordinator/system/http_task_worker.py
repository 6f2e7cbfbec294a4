"""HTTP tasks: from `http_request` to a call, and from its answer to an output, as Conductor has both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from conductor.coordinator.definitions.validation import REFUSED_HTTP_FIELDS
from conductor.coordinator.limits import HTTP_TIMEOUT_MS, MAX_HTTP_CALL_S
from conductor.coordinator.system.http_call import METHODS, HttpAnswer, HttpFailure, HttpRequest
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.protocol.wire import MAX_REASON_CHARS

MISSING_REQUEST = (
    "Missing HTTP request. Task input MUST have a 'http_request' key with the request as value: "
    "uri, method, and if needed headers, body, accept, contentType, connectionTimeOut, readTimeOut"
)
MISSING_URI = "Missing HTTP URI.  See documentation for HttpTask for required input parameters"
NO_METHOD = "No HTTP method specified"
_JSON = "application/json"


class InvalidHttpRequest(Exception):
    """An `http_request` that cannot be sent; its message says why."""


def read_request(given: Mapping[str, Any]) -> HttpRequest:
    """The request in a task's input. Raises WrongRequest."""
    asked = given.get("http_request", given if "uri" in given else None)
    if not isinstance(asked, dict):
        raise InvalidHttpRequest(MISSING_REQUEST)
    for name, instead in REFUSED_HTTP_FIELDS.items():
        if asked.get(name):
            raise InvalidHttpRequest(f"{name} of http_request is not supported by the coordinator: {instead}")
    uri, method = asked.get("uri"), asked.get("method")
    if uri is None or uri == "":
        raise InvalidHttpRequest(MISSING_URI)
    if method is None or method == "":
        raise InvalidHttpRequest(NO_METHOD)
    if method not in METHODS:
        raise InvalidHttpRequest(f"Invalid HTTP method: {method}; it can be {', '.join(METHODS)}")
    content_type = _media_type("contentType", asked)
    headers = {"Accept": _media_type("accept", asked), "Content-Type": content_type, **_headers(asked.get("headers"))}
    return HttpRequest(
        method,
        str(uri),
        headers,
        _body(asked.get("body"), content_type),
        _seconds("connectionTimeOut", asked),
        _seconds("readTimeOut", asked),
    )


def _media_type(name: str, asked: Mapping[str, Any]) -> str:
    value = asked.get(name) or _JSON
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if not isinstance(value, str) or "/" not in value or not value.isprintable() or not value.isascii():
        raise InvalidHttpRequest(f"{name} of http_request is '{value}'; it is a media type such as {_JSON}")
    return value


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidHttpRequest(f"headers of http_request is '{given}'; it is an object of names and values")
    headers = {}
    for name, value in given.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if not (name.isascii() and name.isprintable() and name and not set(name) & set(' :"(),/;<=>?@[]{}\\')):
            raise InvalidHttpRequest(f"'{name}' is no name of a header")
        if any(sign in text for sign in "\r\n\0") or not _latin(text):
            raise InvalidHttpRequest(f"the header {name} of http_request has a value that cannot be sent")
        headers[name] = text
    return headers


def _latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _body(body: Any, content_type: str) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        return body.encode()
    if "json" not in content_type.lower():
        raise InvalidHttpRequest(
            f"a body that is no text is sent as JSON; for contentType {content_type} write it as a text"
        )
    return msgspec.json.encode(body)


def _seconds(name: str, asked: Mapping[str, Any]) -> float:
    value = asked.get(name)
    if value is None or value == "":
        return HTTP_TIMEOUT_MS / 1000
    try:
        milliseconds = int(value)
    except (TypeError, ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise InvalidHttpRequest(f"{name} of http_request is '{value}'; it is a number of milliseconds")
    # 0 is for ever in Conductor.
    return min(milliseconds / 1000, MAX_HTTP_CALL_S) if milliseconds else float(MAX_HTTP_CALL_S)


def convert_answer(answer: HttpAnswer, *, async_complete: bool) -> SystemTaskResult:
    """What an answer means: a status of 200 to 299 is a success."""
    response = {
        "statusCode": answer.status,
        "reasonPhrase": answer.reason,
        "headers": answer.headers,
        "body": answer.body if 200 <= answer.status < 300 else None,
    }
    if 200 <= answer.status < 300:
        return SystemTaskResult("IN_PROGRESS" if async_complete else "COMPLETED", {"response": response})
    if answer.status < 400:
        return failed("No response from the remote service", response=response)
    said = f'"{answer.text}"' if answer.text else "[no body]"
    asked = f'{answer.method} request for "{answer.uri}"'
    return fail_call(f"{answer.status} {answer.reason} on {asked}: {said}"[:MAX_REASON_CHARS])


def convert_invalid_request(error: InvalidHttpRequest) -> SystemTaskResult:
    """A request that cannot be sent."""
    if str(error) in (MISSING_REQUEST, MISSING_URI, NO_METHOD):
        return failed(str(error))
    return fail_call(str(error))


def fail_call(why: str, *, final: bool = False) -> SystemTaskResult:
    """There was no answer, or one that is a failure."""
    return failed(f"Failed to invoke HTTP task due to: {why}", final=final, response=why)


def convert_failure(failure: HttpFailure) -> SystemTaskResult:
    """What it means that there was none."""
    return fail_call(str(failure), final=failure.final)
