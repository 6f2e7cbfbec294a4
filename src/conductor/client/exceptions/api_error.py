"""What a server said no to, under its name in conductor-python."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.http.errors import ApiException

#: The same class: what is caught as one is caught as the other.
APIError = ApiException


class APIErrorCode(StrEnum):
    """The statuses that conductor-python has names for."""

    NOT_FOUND = "404"
    FORBIDDEN = "403"
    CONFLICT = "409"
    BAD_REQUEST = "400"
    REQUEST_TIMEOUT = "408"
    UNKNOWN = "0"
