"""A request as the stub received it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from conductor.protocol.wire import EXTEND_LEASE
from conductor.testing.http11 import RawRequest

JsonObject: TypeAlias = dict[str, Any]

#: Route name, methods and path. The first matching row gives a request its route name. The default is "other".
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
#: Every route name that a script or gate accepts. "heartbeat" is an update that extends a lease.
ROUTE_NAMES = frozenset({"heartbeat", "other"} | {name for name, _, _ in _ROUTES})


@dataclass(frozen=True)
class Request:
    """A request as the stub received it.

    Attributes:
        method: The HTTP method.
        path: The path without the leading `/api`.
        query: The query parameters.
        headers: The headers; names are in lower case.
        body: The raw body.
        connection_id: Number of the connection; equal numbers mean the same connection.
        at_monotonic: Time of arrival, in seconds of `time.monotonic`.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection_id: int
    at_monotonic: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, raw: RawRequest, connection_id: int) -> Request:
        """Convert a request from the wire."""
        url = urlsplit(raw.target)
        path = unquote(url.path)
        # A path outside the API gets a second slash, so that it matches no route.
        path = path.removeprefix("/api") if path.startswith("/api/") else f"/{path}"
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return cls(raw.method, path, query, raw.headers, raw.body, connection_id)

    @cached_property
    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    @cached_property
    def route(self) -> str:
        """The route name, as scripts use it."""
        for name, methods, pattern in _ROUTES:
            if self.method in methods and re.fullmatch(pattern, self.path):
                is_heartbeat = name == "update" and isinstance(self.json, dict) and self.json.get(EXTEND_LEASE)
                return "heartbeat" if is_heartbeat else name
        return "other"

    @property
    def task_type(self) -> str | None:
        """The task type of a poll; None for other requests."""
        return self.path.rpartition("/")[2] if self.route == "poll" else None

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.method} {self.path}{'?' if query else ''}{query}"
