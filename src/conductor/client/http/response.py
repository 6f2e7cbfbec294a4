"""The answer to one HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Response(NamedTuple):
    """A whole answer. `headers` has lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes
