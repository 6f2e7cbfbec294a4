"""The answer to one HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: In place of a header's value that is not ASCII, as HTTP has it. No header that we know has this value.
UNREADABLE_VALUE = "\ufffd"


class Response(NamedTuple):
    """A whole answer. `headers` has lower-case names; a value that is not ASCII reads as `UNREADABLE_VALUE`."""

    status: int
    headers: Mapping[str, str]
    body: bytes
