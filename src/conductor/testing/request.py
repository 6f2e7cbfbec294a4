"""One request as the stub saw it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from conductor.protocol.wire import EXTEND_LEASE
from conductor.testing.http11 import RawRequest

#: Routes by the names scripts use. The first whose methods and path fit is the one.
_ROUTES = [
    ("poll", "GET POST", r"/tasks/poll/.+"),
    ("reports", "POST", r"/tasks/reports"),
    ("update", "POST", r"/tasks"),
    ("log", "POST", r"/tasks/[^/]+/log"),
    ("task", "GET", r"/tasks/[^/]+"),
    ("token", "GET POST", r"/token"),
    ("taskdefs", "GET POST PUT DELETE", r"/metadata/taskdefs(/.*)?"),
    ("schema", "GET POST DELETE", r"/schema(/.*)?"),
    ("workflow", "GET POST PUT DELETE", r"/workflow(/.*)?"),
]
#: Every name a script or gate may have. A heartbeat is an update that extends a lease; "other" is all the rest.
ROUTE_NAMES = frozenset({"heartbeat", "other"} | {name for name, _, _ in _ROUTES})


@dataclass(frozen=True)
class Request:
    """One request as the stub saw it. `path` is without the leading `/api`; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    #: Which connection it came over: equal numbers, same connection.
    connection_id: int
    at_monotonic: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, raw: RawRequest, connection_id: int) -> Request:
        """Read what came over the wire."""
        url = urlsplit(raw.target)
        path = unquote(url.path)
        # What is outside the API keeps a path that no route has.
        path = path.removeprefix("/api") if path.startswith("/api/") else f"/{path}"
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return cls(raw.method, path, query, raw.headers, raw.body, connection_id)

    @cached_property
    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    @cached_property
    def route(self) -> str:
        """The name by which scripts know it."""
        for name, methods, pattern in _ROUTES:
            if self.method in methods and re.fullmatch(pattern, self.path):
                return "heartbeat" if name == "update" and self._extends_lease else name
        return "other"

    @property
    def task_type(self) -> str | None:
        """The type of task a poll asks for."""
        return self.path.rpartition("/")[2] if self.route == "poll" else None

    @property
    def _extends_lease(self) -> bool:
        return isinstance(self.json, dict) and bool(self.json.get(EXTEND_LEASE))

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.method} {self.path}{'?' if query else ''}{query}"
