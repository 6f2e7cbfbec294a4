"""What can go wrong between a program and the server.

ConductorError
├── ApiException                the server answered with an error status
│   ├── AuthorizationException  401, 403
│   └── NotFoundException       404
├── TransportError              no answer
│   ├── ConnectError            no connection: refused, unknown host, TLS
│   ├── RequestTimeout          no answer in time
│   └── ConnectionLost          the connection ended before the answer
└── MalformedAnswer             an answer that is not what the API promises
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from conductor.client.http.response import Response

#: Of an error body that is not Conductor's, a message quotes this much.
MAX_QUOTED_CHARS = 300


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
    """

    def __init__(
        self,
        status: int | None = None,
        reason: str | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> None:
        super().__init__(status, reason, body, headers, request)
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


class _ErrorBody(msgspec.Struct):
    """Conductor's error body, as far as people need it."""

    message: str | None = None
    validationErrors: list[dict[str, Any]] | None = None  # noqa: N815 (the name on the wire)


def _reason(response: Response) -> str:
    try:
        body = msgspec.json.decode(response.body, type=_ErrorBody)
    except msgspec.DecodeError:
        return _one_line(response.body.decode("utf-8", "replace"))
    details = "; ".join(str(error.get("message")) for error in body.validationErrors or () if error.get("message"))
    return _one_line(" ".join(part for part in (body.message, details) if part))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTED_CHARS else line[: MAX_QUOTED_CHARS - 1] + "…"


def _class_for(status: int) -> type[ApiException]:
    if status in (401, 403):
        return AuthorizationException
    return NotFoundException if status == 404 else ApiException
