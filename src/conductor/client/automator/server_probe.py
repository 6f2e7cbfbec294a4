"""Notices when an unreachable server is reachable again, so that waiting reports are sent soon after a restart.

A failed report waits 10 seconds for its second attempt and occupies a slot meanwhile. A restart of a coordinator takes
about two seconds. `ServerProbe` sends a cheap request every second or so, and ends the wait early.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from conductor.client.automator.delivery import NoVerdict
from conductor.client.http.errors import ConductorError, TransportError
from conductor.common.backoff import Backoff

if TYPE_CHECKING:
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: The wait after the first failed probe. Each further failure doubles the wait, up to the cap.
FIRST_WAIT_S = 0.5
CAP_S = 2.0
#: Each wait is shortened by a random share of at most `JITTER`, so that not all workers send probes at the same time.
JITTER = 0.2
#: A probe without an answer fails after this time.
PROBE_TIMEOUT_S = 5.0


class ServerProbe:
    """Probes one server for all waiting reports of a process."""

    def __init__(self, api: AsyncApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._waiting: set[asyncio.Event] = set()
        self._probing: asyncio.Task[None] | None = None

    def watch(self, event: asyncio.Event) -> None:
        """Set the event when the server is reachable again. A server that is reachable now does not set it."""
        self._waiting.add(event)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())

    def unwatch(self, event: asyncio.Event) -> None:
        """Stop watching for this event."""
        self._waiting.discard(event)

    async def close(self) -> None:
        """End the probe in progress."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    async def _probe(self) -> None:
        waits = Backoff(FIRST_WAIT_S, CAP_S, jitter=JITTER)
        while self._waiting and not await self._is_reachable():
            await self._clock.sleep(waits.next())
        waiting, self._waiting = self._waiting, set()
        if waits.count and waiting:
            logger.info("Server is reachable again: waiting_reports=%d", len(waiting))
            for event in waiting:
                event.set()

    async def _is_reachable(self) -> bool:
        try:
            response = await self._api.call("GET", "/version", timeout_s=PROBE_TIMEOUT_S)
        except (ConductorError, OSError):
            return False
        return response.status < 500


def is_unreachable(failure: Exception) -> bool:
    """Return whether the error of a report suggests that the server, or the server behind a proxy, is not running."""
    if isinstance(failure, NoVerdict):
        return failure.answer.status in (502, 503, 504)
    return isinstance(failure, TransportError)
