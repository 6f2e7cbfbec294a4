"""What can go wrong between a program and the server.

ConductorError
├── ApiException                the server answered with an error status
│   ├── AuthorizationException  401, 403
│   └── NotFoundException       404
├── TransportError              no answer
│   ├── ConnectError            no connection: refused, unknown host, TLS
│   ├── RequestTimeout          no answer in time
│   └── ConnectionLost          the connection ended before the answer
├── MalformedAnswer             an answer that is not what the API promises
│   └── AnswerTooLarge          an answer over the limit of the Configuration
└── BulkStartError              some of the workflows of a bulk start were not started
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from conductor.client.http.response import Response
from conductor.common.text import escape

#: What reading a body may raise, whoever wrote it: no JSON, not UTF-8, wrong types, too deep, numbers out of range.
UNREADABLE = (ValueError, RecursionError, OverflowError)

#: Of an error body that is not Conductor's, a message quotes this much.
MAX_QUOTED_CHARS = 300
#: The title of a web page is looked for in this much of it.
MAX_PAGE_BYTES = 4096


class ConductorError(Exception):
    """Anything that can go wrong between this program and the server."""


class ApiException(ConductorError):
    """The server answered with an error status.

    Attributes:
        status: The HTTP status (also as `code`).
        reason: What the server said about it, in one line.
        body: The answer's body as text.
        headers: The answer's headers, names in lower case.
        request: The call, as in `GET /metadata/taskdefs/foo`.

    `http_resp` is an answer of another HTTP library, from which the rest is read.
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
        if http_resp is not None:  # an answer, as conductor-python's tests make the exception
            status = getattr(http_resp, "status", None) or getattr(http_resp, "status_code", status)
            reason = getattr(http_resp, "reason", None) or reason
            body = _text_of(http_resp) if body is None else body
            headers = headers or _headers_of(http_resp)
        super().__init__(status, reason, body, headers, request)
        #: Whether trying again later may help, as whoever made it knows.
        self.transient = transient
        self.status = status
        self.code = status
        self.reason = reason
        self.body = body
        self.headers = dict(headers or {})
        self.request = request

    def __str__(self) -> str:
        said = f": {self.reason}" if self.reason else ""
        return f"{self.request or 'the server'} answered {self.status}{said}"

    @property
    def message(self) -> str | None:
        """`reason` under its name in conductor-python."""
        return self.reason

    def is_not_found(self) -> bool:
        """True for 404."""
        return self.status == 404

    @staticmethod
    def of(response: Response, request: str) -> ApiException:
        """The exception for an error answer: of the class for its status, with the server's own words."""
        body = response.body.decode("utf-8", "replace")
        reason = _reason(response)
        return _class_for(response.status)(response.status, reason, body, dict(response.headers), request)


class AuthorizationException(ApiException):
    """401 or 403: no access token, a wrong one, or one without the right to do this."""


class NotFoundException(ApiException):
    """404: there is no such thing, or no such endpoint."""


class TransportError(ConductorError):
    """No answer came. Whether the request had an effect is unknown."""


class ConnectError(TransportError):
    """No connection could be made: refused, unknown host, TLS or proxy trouble. The request had no effect."""


class RequestTimeout(TransportError):
    """No answer came in time."""


class ConnectionLost(TransportError):
    """The connection ended before the answer was complete."""


class MalformedAnswer(ConductorError):
    """The server answered with success, but with something that is not what the API promises."""


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
    """The answer is larger than `Configuration(max_answer_bytes=…)` allows, and was not read to its end."""


class BulkStartError(ConductorError):
    """Some workflows of `start_workflows` were not started; the others were.

    Attributes:
        results: In the order of the requests: the id of a started workflow, or the exception of one that was not. After
            a `TransportError` it is unknown whether a workflow was started: send the same request with the same
            `idempotency_key` again.
    """

    def __init__(self, results: Sequence[str | ConductorError]) -> None:
        self.results = list(results)
        errors = [result for result in self.results if not isinstance(result, str)]
        super().__init__(f"{len(errors):,} of {len(self.results):,} workflows were not started; the first: {errors[0]}")


class _ErrorBody(msgspec.Struct):
    """Conductor's error body, as far as people need it."""

    message: str | None = None
    validationErrors: list[dict[str, Any]] | None = None  # noqa: N815 (the name on the wire)


def not_conductor(response: Response) -> str | None:
    """What answered in place of a Conductor server, in a few words; None when it is no web page."""
    start = response.body[:MAX_PAGE_BYTES].decode("utf-8", "replace").lstrip()
    if not (start.startswith("<") or response.headers.get("content-type", "").startswith("text/html")):
        return None
    title = re.search(r"<title>([^<]*)", start, re.IGNORECASE)
    named = f" ({_one_line(title[1])!r})" if title and title[1].strip() else ""
    server = response.headers.get("server")
    sender = f" from {_one_line(server)}" if server else ""
    return f"a web page{named}{sender}, as no Conductor server does: is the URL right, or is a proxy in between?"


def _reason(response: Response) -> str:
    foreign = not_conductor(response)
    if foreign is not None:
        return foreign
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
