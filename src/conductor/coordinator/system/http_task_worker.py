"""HTTP tasks: convert `http_request` to a call, and its answer to an output, both as Conductor does."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from conductor.coordinator.definitions.validation import UNSUPPORTED_HTTP_FIELDS
from conductor.coordinator.limits import HTTP_TIMEOUT_MS, MAX_HTTP_CALL_S
from conductor.coordinator.system.http_call import METHODS, HttpAnswer, HttpFailure, HttpRequest
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.protocol.json_types import Json, JsonObject
from conductor.protocol.wire import MAX_REASON_CHARS

MISSING_REQUEST = (
    "Missing HTTP request. Task input MUST have a 'http_request' key with the request as value: "
    "uri, method, and if needed headers, body, accept, contentType, connectionTimeOut, readTimeOut"
)
MISSING_URI = "Missing HTTP URI.  See documentation for HttpTask for required input parameters"
NO_METHOD = "No HTTP method specified"
_JSON = "application/json"


class InvalidHttpRequest(Exception):
    """An `http_request` that cannot be sent; the message says why."""


def read_request(task_input: Mapping[str, Json]) -> HttpRequest:
    """Return the request in a task's input. Raises InvalidHttpRequest."""
    fields = task_input.get("http_request", task_input if "uri" in task_input else None)
    if not isinstance(fields, dict):
        raise InvalidHttpRequest(MISSING_REQUEST)
    for name, instead in UNSUPPORTED_HTTP_FIELDS.items():
        if fields.get(name):
            raise InvalidHttpRequest(f"{name} of http_request is not supported by the coordinator: {instead}")
    uri, method = fields.get("uri"), fields.get("method")
    if uri is None or uri == "":
        raise InvalidHttpRequest(MISSING_URI)
    if method is None or method == "":
        raise InvalidHttpRequest(NO_METHOD)
    if method not in METHODS:
        raise InvalidHttpRequest(f"Invalid HTTP method: {method}; it can be {', '.join(METHODS)}")
    content_type = _read_media_type("contentType", fields)
    accept = _read_media_type("accept", fields)
    return HttpRequest(
        method,
        str(uri),
        {"Accept": accept, "Content-Type": content_type, **_read_headers(fields.get("headers"))},
        _encode_body(fields.get("body"), content_type),
        _read_timeout_s("connectionTimeOut", fields),
        _read_timeout_s("readTimeOut", fields),
    )


def _read_media_type(name: str, fields: JsonObject) -> str:
    value = fields.get(name) or _JSON
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if not isinstance(value, str) or "/" not in value or not value.isprintable() or not value.isascii():
        raise InvalidHttpRequest(f"{name} of http_request is '{value}'; it must be a media type such as {_JSON}")
    return value


def _read_headers(field: object) -> dict[str, str]:
    if field is None:
        return {}
    if not isinstance(field, dict):
        raise InvalidHttpRequest(f"headers of http_request is '{field}'; it must be an object of names and values")
    headers = {}
    for name, value in field.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if not (name.isascii() and name.isprintable() and name and not set(name) & set(' :"(),/;<=>?@[]{}\\')):
            raise InvalidHttpRequest(f"'{name}' is not a valid name of a header")
        if any(sign in text for sign in "\r\n\0") or not _is_latin1(text):
            raise InvalidHttpRequest(
                f"the header {name} of http_request has a value that cannot be sent; use Latin-1 without line breaks"
            )
        headers[name] = text
    return headers


def _is_latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _encode_body(body: object, content_type: str) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        return body.encode()
    if "json" not in content_type.lower():
        raise InvalidHttpRequest(
            f"a body that is not a text is sent as JSON; for contentType {content_type} write the body as a text"
        )
    return msgspec.json.encode(body)


def _read_timeout_s(name: str, fields: JsonObject) -> float:
    value = fields.get(name)
    if value is None or value == "":
        return HTTP_TIMEOUT_MS / 1000
    try:
        milliseconds = int(value)
    except (TypeError, ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise InvalidHttpRequest(f"{name} of http_request is '{value}'; it must be a number of milliseconds")
    # 0 means no timeout in Conductor.
    return min(milliseconds / 1000, MAX_HTTP_CALL_S) if milliseconds else float(MAX_HTTP_CALL_S)


def convert_answer(answer: HttpAnswer, *, async_complete: bool) -> SystemTaskResult:
    """Return the result of a task whose call was answered: a status from 200 to 299 is a success."""
    succeeded = 200 <= answer.status < 300
    response = {
        "statusCode": answer.status,
        "reasonPhrase": answer.reason,
        "headers": answer.headers,
        "body": answer.body if succeeded else None,
    }
    if succeeded:
        return SystemTaskResult("IN_PROGRESS" if async_complete else "COMPLETED", {"response": response})
    if answer.status < 400:
        return failed("No response from the remote service", response=response)
    body = f'"{answer.text}"' if answer.text else "[no body]"
    request = f'{answer.method} request for "{answer.uri}"'
    return _fail_call(f"{answer.status} {answer.reason} on {request}: {body}"[:MAX_REASON_CHARS])


def convert_invalid_request(error: InvalidHttpRequest) -> SystemTaskResult:
    """Return the result of a task whose request cannot be sent."""
    if str(error) in (MISSING_REQUEST, MISSING_URI, NO_METHOD):
        return failed(str(error))
    return _fail_call(str(error))


def convert_failure(failure: HttpFailure) -> SystemTaskResult:
    """Return the result of a task whose call got no answer."""
    return _fail_call(str(failure), final=failure.final)


def _fail_call(reason: str, *, final: bool = False) -> SystemTaskResult:
    return failed(f"Failed to invoke HTTP task due to: {reason}", final=final, response=reason)
