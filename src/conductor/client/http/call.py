"""An HTTP request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Call(NamedTuple):
    """A complete request, which can be sent again.

    Attributes:
        timeout_s: Seconds for the answer, in place of the Configuration's.
        resend: False for a request that must not reach the server twice, even if its connection is lost.
        template: The path with placeholders for its values, for metrics.
        wanted: Called before the request is sent again. If it returns False, the request is not sent again.
    """

    method: str
    url: str
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    timeout_s: float | None = None
    resend: bool = True
    template: str = ""
    wanted: Callable[[], bool] | None = None

    def is_wanted(self) -> bool:
        """Return whether the request may be sent a second time."""
        return self.wanted is None or self.wanted()
