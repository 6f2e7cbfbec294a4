"""The errors of calls to a server.

ConductorError
├── ApiException                the server answered with an error status
│   ├── AuthorizationException  401, 403
│   └── NotFoundException       404
├── TransportError              no answer
│   ├── ConnectError            no connection: refused, unknown host, TLS
│   ├── RequestTimeout          no answer in time
│   └── ConnectionLost          the connection ended before the answer
├── MalformedAnswer             the answer is not what the API defines
│   └── AnswerTooLarge          the answer is larger than the Configuration allows
└── BulkStartError              some workflows of a bulk start were not started
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from conductor.client.http.response import Response
from conductor.common.text import escape
from conductor.protocol.json_types import JsonObject

#: The exceptions of decoding a body: not JSON, not UTF-8, wrong types, nested too deeply, numbers out of range.
UNREADABLE = (ValueError, RecursionError, OverflowError)

#: The longest quotation of a body in an error message.
MAX_QUOTED_CHARS = 300
#: The title of a web page is read only if it is within this many bytes from the start of the page.
MAX_PAGE_BYTES = 4096


class ConductorError(Exception):
    """Base of the errors of calls to a server."""


class ApiException(ConductorError):
    """The server answered with an error status.

    Attributes:
        status: The HTTP status (also as `code`).
        reason: The message of the server, in one line.
        body: The body of the answer as text.
        headers: The headers of the answer, with lower-case names.
        request: The call, such as `GET /metadata/taskdefs/foo`.
        transient: Whether a later attempt may succeed.

    Args:
        http_resp: An answer of another HTTP library, from which the other attributes are read.
    """

    def __init__(
        self,
        status: int | None = None,
        reason: str | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
        request: str | None = None,
        *,
        http_resp: Any = None,
        transient: bool = False,
    ) -> None:
        if http_resp is not None:  # tests written for conductor-python create the exception with `http_resp`
            status = getattr(http_resp, "status", None) or getattr(http_resp, "status_code", status)
            reason = getattr(http_resp, "reason", None) or reason
            body = _text_of(http_resp) if body is None else body
            headers = headers or _headers_of(http_resp)
        super().__init__(status, reason, body, headers, request)
        self.transient = transient
        self.status = status
        self.code = status
        self.reason = reason
        self.body = body
        self.headers = dict(headers or {})
        self.request = request

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.request or 'the server'} answered {self.status}{reason}"

    @property
    def message(self) -> str | None:
        """The `reason`, under its name in conductor-python."""
        return self.reason

    def is_not_found(self) -> bool:
        """Return whether the status is 404."""
        return self.status == 404

    @staticmethod
    def of(response: Response, request: str) -> ApiException:
        """Return the exception for an answer with an error status."""
        body = response.body.decode("utf-8", "replace")
        reason = _reason(response)
        return _class_for(response.status)(response.status, reason, body, dict(response.headers), request)


class AuthorizationException(ApiException):
    """The status is 401 or 403: the access token is missing, wrong or without the required permission."""


class NotFoundException(ApiException):
    """The status is 404: the server has no such object, or no such endpoint."""


class TransportError(ConductorError):
    """No answer came. It is unknown whether the server executed the request."""


class ConnectError(TransportError):
    """No connection was made: refused, unknown host, TLS or proxy error. The server did not get the request."""


class RequestTimeout(TransportError):
    """No answer came in time."""


class ConnectionLost(TransportError):
    """The connection ended before the answer was complete."""


class MalformedAnswer(ConductorError):
    """The status is a success, but the body is not what the API defines."""


def _text_of(answer: Any) -> str | None:
    found = getattr(answer, "text", None) or getattr(answer, "data", None)
    found = found() if callable(found) else found
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def _headers_of(answer: Any) -> Mapping[str, str]:
    for name in ("getheaders", "headers"):
        found = getattr(answer, name, None)
        found = found() if callable(found) else found
        if isinstance(found, Mapping):
            return {str(key).lower(): str(value) for key, value in found.items()}
    return {}


class AnswerTooLarge(MalformedAnswer):
    """The answer is larger than `Configuration(max_answer_bytes=…)`. The rest of it was not read."""


class BulkStartError(ConductorError):
    """Some workflows of `start_workflows` were not started; the others were.

    Attributes:
        results: In the order of the requests, the id of the workflow or the exception of its start. After a
            `TransportError` it is unknown whether the workflow was started: send the request again with the same
            `idempotency_key`.
    """

    def __init__(self, results: Sequence[str | ConductorError]) -> None:
        self.results = list(results)
        errors = [result for result in self.results if not isinstance(result, str)]
        super().__init__(f"{len(errors):,} of {len(self.results):,} workflows were not started; the first: {errors[0]}")


class _ErrorBody(msgspec.Struct):
    message: str | None = None
    validationErrors: list[JsonObject] | None = None  # noqa: N815 (the name on the wire)


def describe_web_page(response: Response) -> str | None:
    """Describe an answer that is a web page and so not from a Conductor server. Return None for other answers."""
    start = response.body[:MAX_PAGE_BYTES].decode("utf-8", "replace").lstrip()
    if not (start.startswith("<") or response.headers.get("content-type", "").startswith("text/html")):
        return None
    title = re.search(r"<title>([^<]*)", start, re.IGNORECASE)
    name = f" ({_one_line(title[1])!r})" if title and title[1].strip() else ""
    server = response.headers.get("server")
    sender = f" from {_one_line(server)}" if server else ""
    return f"a web page{name}{sender}, which no Conductor server sends: is the URL right, or is a proxy in between?"


def _reason(response: Response) -> str:
    web_page = describe_web_page(response)
    if web_page is not None:
        return web_page
    try:
        body = msgspec.json.decode(response.body, type=_ErrorBody)
    except UNREADABLE:
        return _one_line(response.body[:MAX_PAGE_BYTES].decode("utf-8", "replace"))
    details = "; ".join(str(error.get("message")) for error in body.validationErrors or () if error.get("message"))
    return _one_line(" ".join(part for part in (body.message, details) if part))


def _one_line(text: str) -> str:
    line = escape(" ".join(text.split()))
    return line if len(line) <= MAX_QUOTED_CHARS else line[: MAX_QUOTED_CHARS - 1] + "…"


def _class_for(status: int) -> type[ApiException]:
    if status in (401, 403):
        return AuthorizationException
    return NotFoundException if status == 404 else ApiException
