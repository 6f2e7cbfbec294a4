"""`APIError`: the name of `ApiException` in conductor-python."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.http.errors import ApiException

APIError = ApiException


class APIErrorCode(StrEnum):
    """The HTTP statuses for which conductor-python has a name."""

    NOT_FOUND = "404"
    FORBIDDEN = "403"
    CONFLICT = "409"
    BAD_REQUEST = "400"
    REQUEST_TIMEOUT = "408"
    UNKNOWN = "0"
