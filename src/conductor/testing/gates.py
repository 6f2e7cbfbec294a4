"""Requests held back until the test lets them go."""

from __future__ import annotations

from collections import Counter

from conductor.testing.request import Request
from conductor.testing.script import Route, check_route, fits
from conductor.testing.watch import Watch


class Gates:
    """Closed gates by route. A request waits at each closed gate of its route, before it has any effect."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._closed: list[Route] = []
        self._waiting: Counter[Route] = Counter()

    def close(self, route: Route) -> None:
        """Let no request of the route through from now on."""
        check_route(route)
        with self._watch.held:
            self._closed.append(route)

    def open(self, route: Route | None = None) -> None:
        """Let the held ones go, of one route or of all."""
        with self._watch.held:
            self._closed = [closed for closed in self._closed if route not in (None, closed)]
        self._watch.notify()

    def waiting(self, route: Route) -> int:
        """How many requests stand at the gate."""
        return self._waiting[route]

    async def go_through(self, request: Request) -> None:
        """Wait until no gate is in the way."""
        for route in list(self._closed):
            if fits(route, request):
                await self._wait_at(route)

    async def _wait_at(self, route: Route) -> None:
        self._waiting[route] += 1
        self._watch.notify()
        try:
            await self._watch.until(lambda: route not in self._closed, timeout_s=None)
        finally:
            self._waiting[route] -= 1
            self._watch.notify()
