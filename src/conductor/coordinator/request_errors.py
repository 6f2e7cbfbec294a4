"""Errors of requests: an HTTP status and the error body of Conductor."""

from __future__ import annotations

import functools
import socket

from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import VERDICT_FIELD, Verdict

VALIDATION_FAILED = "Validation failed, check below errors for detail."


class ApiError(Exception):
    """An error answer. Any code below the routes can raise it; `http/app.py` encodes it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        verdict: Verdict | None = None,
        problems: list[tuple[str, str]] | None = None,
        retryable: bool = False,
        code: str | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.verdict = verdict
        self.problems = problems or []
        self.retryable = retryable
        #: A machine-readable code. For example, clients renew their token on EXPIRED_TOKEN.
        self.code = code
        #: Whether the server closes the connection after the answer, because it does not read the rest of the request.
        self.closes = closes

    def in_one_line(self) -> str:
        """Return all problems in one line, for a log or the reason of a failure."""
        return "; ".join(f"{path}: {message}" for path, message in self.problems) or self.message

    def body(self) -> JsonObject:
        """Return the error as Conductor's ErrorResponse. Fields without a value are left out."""
        body: JsonObject = {"status": self.status, "message": self.message, "retryable": self.retryable}
        if self.code is not None:
            body |= {"code": self.code, "error": self.code}
        if not self.problems:
            body["instance"] = _instance()
        else:
            body["validationErrors"] = [{"path": path, "message": message} for path, message in self.problems]
        if self.verdict is not None:
            body[VERDICT_FIELD] = self.verdict
        return body


@functools.cache
def _instance() -> str:
    """Return the host name, which Conductor's errors contain as `instance`."""
    return socket.gethostname()


def bad_request(message: str) -> ApiError:
    """Return an error for a wrong request (400)."""
    return ApiError(400, message)


def invalid(problems: list[tuple[str, str]]) -> ApiError:
    """Return an error with one message per wrong field (400)."""
    return ApiError(400, VALIDATION_FAILED, problems=problems)


def not_found(message: str) -> ApiError:
    """Return an error for an unknown resource (404)."""
    return ApiError(404, message)


def conflict(message: str) -> ApiError:
    """Return an error for a conflict with the current state (409)."""
    return ApiError(409, message)
