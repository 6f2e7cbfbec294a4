"""What the stub shall do with which request, and in which order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from conductor.testing.behaviours import Behaviour, Pass
from conductor.testing.request import ROUTE_NAMES, Request

#: The name of a route, or a function that picks requests.
Route: TypeAlias = str | Callable[[Request], bool]


@dataclass(slots=True)
class _Entry:
    route: Route
    behaviours: deque[Behaviour]
    repeat: bool

    def next(self) -> Behaviour:
        behaviour = self.behaviours.popleft()
        if self.repeat:
            self.behaviours.append(behaviour)
        return behaviour


class Script:
    """Behaviours in the order they are to be played. A request plays one; where nothing is left, the stub behaves."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, route: Route, behaviours: tuple[Behaviour, ...], *, repeat: bool) -> None:
        """Play these, one a request, for requests of that route; for ever with `repeat`."""
        check_route(route)
        self._entries.append(_Entry(route, deque(behaviours), repeat))

    def clear(self, route: Route | None = None) -> None:
        """Forget what is left, of one route or of all."""
        self._entries = [entry for entry in self._entries if route is not None and entry.route != route]

    def play(self, request: Request) -> Behaviour:
        """What to do with this request."""
        for entry in self._entries:
            if entry.behaviours and fits(entry.route, request):
                return entry.next()
        return Pass()


def fits(route: Route, request: Request) -> bool:
    """Whether the request is of that route."""
    return request.route == route if isinstance(route, str) else route(request)


def check_route(route: Route) -> None:
    """Refuse a name that no request will ever have."""
    if isinstance(route, str) and route not in ROUTE_NAMES:
        raise ValueError(f"no route is named {route!r}; use one of {', '.join(sorted(ROUTE_NAMES))}, or a function")
