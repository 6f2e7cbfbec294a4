"""What a client did wrong, as Conductor says it: an HTTP status and an error body."""

from __future__ import annotations

import functools
import socket
from typing import Any

from conductor.protocol.wire import VERDICT_FIELD, Verdict

VALIDATION_FAILED = "Validation failed, check below errors for detail."


class ApiError(Exception):
    """An answer that is not a success. Raised anywhere below the routes, encoded in one place."""

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
        #: a machine's word for it; clients renew their token on EXPIRED_TOKEN
        self.code = code
        #: what is left of the request is not read: the connection ends with the answer
        self.closes = closes

    def in_one_line(self) -> str:
        """All that is wrong, for a log or the reason of a failure."""
        return "; ".join(f"{path}: {message}" for path, message in self.problems) or self.message

    def body(self) -> dict[str, Any]:
        """Conductor's ErrorResponse, without what is absent."""
        body: dict[str, Any] = {"status": self.status, "message": self.message, "retryable": self.retryable}
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
    """Which server this was, as Conductor names it."""
    return socket.gethostname()


def bad_request(message: str) -> ApiError:
    """400: the request itself is wrong."""
    return ApiError(400, message)


def invalid(problems: list[tuple[str, str]]) -> ApiError:
    """400 with one line per wrong field."""
    return ApiError(400, VALIDATION_FAILED, problems=problems)


def not_found(message: str) -> ApiError:
    """404."""
    return ApiError(404, message)


def conflict(message: str) -> ApiError:
    """409."""
    return ApiError(409, message)
