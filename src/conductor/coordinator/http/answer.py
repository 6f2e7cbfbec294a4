"""Answers: the values that route handlers return and connections send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from conductor.coordinator.http.memory_budget import Reservation
from conductor.coordinator.request_errors import ApiError
from conductor.protocol.wire import VERDICT_HEADER

#: Value of `Retry-After` for a request that is rejected because the coordinator is busy.
RETRY_AFTER_S = 1

JSON = b"application/json"
TEXT = b"text/plain;charset=UTF-8"


class Answer(NamedTuple):
    """Status, headers and body of an answer."""

    status: int = 200
    body: bytes = b""
    content_type: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: True if the connection must be closed after this answer.
    closes: bool = False
    #: Called if the memory for large answers is exhausted. Undoes the request, and returns a small answer or raises an
    #: error.
    fallback: Callable[[], Awaitable[Answer]] | None = None
    #: The memory that is reserved for a large body until it is sent.
    reservation: Reservation | None = None
    #: The parts of a body of unknown length, sent in place of `body`. The connection is closed after them.
    stream: AsyncGenerator[bytes] | None = None


#: Status 200 without a body, which Conductor sends for operations that return nothing.
DONE = Answer()
NO_CONTENT = Answer(204)


def as_json(value: object, *headers: tuple[str, str], status: int = 200) -> Answer:
    """Return a JSON answer."""
    return Answer(status, msgspec.json.encode(value), JSON, headers)


def as_text(value: str, *headers: tuple[str, str]) -> Answer:
    """Return a plain text answer, the form in which Conductor sends ids."""
    return Answer(200, value.encode(), TEXT, headers)


def error_answer(error: ApiError) -> Answer:
    """Return the answer for an error: Conductor's error body, and the headers for its verdict and for a retry."""
    headers = ((VERDICT_HEADER, str(error.verdict)),) if error.verdict is not None else ()
    if error.status == 503 and error.retryable:
        headers = (*headers, ("Retry-After", str(RETRY_AFTER_S)))
    return Answer(error.status, msgspec.json.encode(error.body()), JSON, headers, error.closes)
