"""The behaviours that a test can script (`FaultScript`), and gates that hold requests back (`Gates`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from conductor.protocol.wire import Verdict
from conductor.testing.request import ROUTE_NAMES, Request
from conductor.testing.wait_until import Watch


@dataclass(frozen=True, slots=True)
class Pass:
    """Answer normally."""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with a status code and ignore the request.

    Attributes:
        status: The HTTP status code.
        body: Bytes and text are sent unchanged, anything else as JSON. Without a body, an error status gets
            Conductor's error body.
        headers: Additional headers.
    """

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait for `seconds` on the stub's clock, then behave as `then` says."""

    seconds: float
    then: Behaviour = Pass()


@dataclass(frozen=True, slots=True)
class Reset:
    """Cut the connection with an RST. With `applied`, process the request first, so that only the answer is lost."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Never answer and keep the connection open. With `applied`, process the request first."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """Ignore the request and answer 200 with `data` as the body.

    With `raw`, `data` is the whole answer including status line and headers, and the connection is closed.
    """

    data: bytes = b'[{"taskId": '
    raw: bool = False


@dataclass(frozen=True, slots=True)
class CloseAfter:
    """Answer normally without announcing a close, then close the connection."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Answer a report or heartbeat with this verdict, as the coordinator would.

    The stub processes the request only if the verdict is COMMITTED.
    """

    verdict: Verdict


Behaviour: TypeAlias = Pass | Status | Delay | Reset | HalfOpen | Malformed | CloseAfter | Judge

#: The name of a route, or a function that selects requests.
RequestChoice: TypeAlias = str | Callable[[Request], bool]


@dataclass(slots=True)
class _ScriptEntry:
    route: RequestChoice
    behaviours: deque[Behaviour]
    repeat: bool


class FaultScript:
    """The behaviours of a test, applied in order, one per request. After the last one, the stub answers normally."""

    def __init__(self) -> None:
        self._entries: list[_ScriptEntry] = []

    def add(self, route: RequestChoice, behaviours: tuple[Behaviour, ...], *, repeat: bool) -> None:
        """Play these behaviours, one per request of the route. With `repeat`, start over after the last one."""
        check_route(route)
        self._entries.append(_ScriptEntry(route, deque(behaviours), repeat))

    def clear(self, route: RequestChoice | None = None) -> None:
        """Remove the remaining behaviours of one route, or of all routes."""
        self._entries = [entry for entry in self._entries if route is not None and entry.route != route]

    def next_behaviour(self, request: Request) -> Behaviour:
        for entry in self._entries:
            if entry.behaviours and matches(entry.route, request):
                behaviour = entry.behaviours.popleft()
                if entry.repeat:
                    entry.behaviours.append(behaviour)
                return behaviour
        return Pass()


def matches(route: RequestChoice, request: Request) -> bool:
    return request.route == route if isinstance(route, str) else route(request)


def check_route(route: RequestChoice) -> None:
    """Raise ValueError for an unknown route name."""
    if isinstance(route, str) and route not in ROUTE_NAMES:
        raise ValueError(f"no route is named {route!r}; use one of {', '.join(sorted(ROUTE_NAMES))}, or a function")


class Gates:
    """Closed gates by route. A request waits at each closed gate of its route before it is processed."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._closed: list[RequestChoice] = []
        self._waiting: Counter[RequestChoice] = Counter()

    def close(self, route: RequestChoice) -> None:
        check_route(route)
        with self._watch.held:
            self._closed.append(route)

    def open(self, route: RequestChoice | None = None) -> None:
        """Let the waiting requests of one route through, or of all routes."""
        with self._watch.held:
            self._closed = [closed for closed in self._closed if route not in (None, closed)]
        self._watch.notify()

    def count_waiting(self, route: RequestChoice) -> int:
        return self._waiting[route]

    async def pass_through(self, request: Request) -> None:
        """Wait until every gate of this request's route is open."""
        for route in list(self._closed):
            if matches(route, request):
                await self._wait_at(route)

    async def _wait_at(self, route: RequestChoice) -> None:
        self._waiting[route] += 1
        self._watch.notify()
        try:
            await self._watch.until(lambda: route not in self._closed, timeout_s=None)
        finally:
            self._waiting[route] -= 1
            self._watch.notify()
