"""One HTTP request, as it is handed down to the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Call(NamedTuple):
    """A request, whole: it can be sent again as it is, or with other headers."""

    method: str
    url: str
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    #: Seconds for the answer, in place of the Configuration's.
    timeout_s: float | None = None
    #: False for a request that must not reach the server twice, not even when its connection was lost.
    resend: bool = True
    #: The path without its values, for metrics.
    template: str = ""
    #: Asked before the request is sent a second time: what it is about may be over meanwhile. None: always wanted.
    wanted: Callable[[], bool] | None = None

    def is_wanted(self) -> bool:
        """Whether it may still be sent."""
        return self.wanted is None or self.wanted()
