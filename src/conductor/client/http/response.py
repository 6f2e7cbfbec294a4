"""The answer to an HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: Replaces a header value that is not ASCII.
UNREADABLE_VALUE = "\ufffd"


class Response(NamedTuple):
    """A complete answer. The names in `headers` are lower case; a value that is not ASCII is `UNREADABLE_VALUE`."""

    status: int
    headers: Mapping[str, str]
    body: bytes
