"""The answer to an HTTP request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

#: Replaces a header value that is not ASCII.
UNREADABLE_VALUE = "\ufffd"


class Response(NamedTuple):
    """A complete answer. The names in `headers` are lower case; a value that is not ASCII is `UNREADABLE_VALUE`."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def read_all(self, name: str) -> list[str]:
        """Return all values of a header that may come several times."""
        value = self.headers.get(name.lower())
        if value is None:
            return []
        read: Callable[[str], list[str]] = getattr(self.headers, "get_list", lambda _: [value])
        return read(name.lower())
