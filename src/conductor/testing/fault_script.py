"""What a test tells the stub: to misbehave with some requests, in some order (`Script`), or to hold them (`Gates`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from conductor.protocol.wire import Verdict
from conductor.testing.request import ROUTE_NAMES, Request
from conductor.testing.wait_until import Watch


@dataclass(frozen=True, slots=True)
class Pass:
    """Behave as usual."""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with this status and do nothing. Without a body an error status gets Conductor's error body."""

    status: int
    #: Bytes and text travel as they are, anything else as JSON.
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then behave as `then` says."""

    seconds: float
    then: Behaviour = Pass()


@dataclass(frozen=True, slots=True)
class Reset:
    """Cut the connection with an RST; with `applied` the request has its effect first: only the answer is lost."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Never answer, and keep the connection; with `applied` the request has its effect nevertheless."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """Do nothing and answer 200 with this body; with `raw` the bytes are the whole answer, and the connection ends."""

    data: bytes = b'[{"taskId": '
    raw: bool = False


@dataclass(frozen=True, slots=True)
class CloseAfter:
    """Answer as usual, promising to keep the connection, and close it."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Answer a report or heartbeat with this verdict, as a coordinator would; only COMMITTED has an effect."""

    verdict: Verdict


Behaviour: TypeAlias = Pass | Status | Delay | Reset | HalfOpen | Malformed | CloseAfter | Judge

#: The name of a route, or a function that picks requests.
RequestChoice: TypeAlias = str | Callable[[Request], bool]


@dataclass(slots=True)
class _Entry:
    route: RequestChoice
    behaviours: deque[Behaviour]
    repeat: bool

    def next(self) -> Behaviour:
        behaviour = self.behaviours.popleft()
        if self.repeat:
            self.behaviours.append(behaviour)
        return behaviour


class Script:
    """Behaviours in the order in which they are played, one a request. When none is left, the stub behaves well."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, route: RequestChoice, behaviours: tuple[Behaviour, ...], *, repeat: bool) -> None:
        """Play these, one a request, for requests of that route; for ever with `repeat`."""
        check_route(route)
        self._entries.append(_Entry(route, deque(behaviours), repeat))

    def clear(self, route: RequestChoice | None = None) -> None:
        """Forget what is left, of one route or of all."""
        self._entries = [entry for entry in self._entries if route is not None and entry.route != route]

    def play(self, request: Request) -> Behaviour:
        """What to do with this request."""
        for entry in self._entries:
            if entry.behaviours and fits(entry.route, request):
                return entry.next()
        return Pass()


def fits(route: RequestChoice, request: Request) -> bool:
    """Whether the request is of that route."""
    return request.route == route if isinstance(route, str) else route(request)


def check_route(route: RequestChoice) -> None:
    """Refuse a name that no request will ever have."""
    if isinstance(route, str) and route not in ROUTE_NAMES:
        raise ValueError(f"no route is named {route!r}; use one of {', '.join(sorted(ROUTE_NAMES))}, or a function")


class Gates:
    """Closed gates by route. A request waits at each closed gate of its route, before it has any effect."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._closed: list[RequestChoice] = []
        self._waiting: Counter[RequestChoice] = Counter()

    def close(self, route: RequestChoice) -> None:
        """Let no request of the route through from now on."""
        check_route(route)
        with self._watch.held:
            self._closed.append(route)

    def open(self, route: RequestChoice | None = None) -> None:
        """Let the held ones go, of one route or of all."""
        with self._watch.held:
            self._closed = [closed for closed in self._closed if route not in (None, closed)]
        self._watch.notify()

    def waiting(self, route: RequestChoice) -> int:
        """How many requests stand at the gate."""
        return self._waiting[route]

    async def go_through(self, request: Request) -> None:
        """Wait until no gate is in the way."""
        for route in list(self._closed):
            if fits(route, request):
                await self._wait_at(route)

    async def _wait_at(self, route: RequestChoice) -> None:
        self._waiting[route] += 1
        self._watch.notify()
        try:
            await self._watch.until(lambda: route not in self._closed, timeout_s=None)
        finally:
            self._waiting[route] -= 1
            self._watch.notify()
