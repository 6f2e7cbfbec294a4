"""What the workers of one process share: connections, leases, reports, and the journal behind them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor.client.automator.delivery import Delivery
from conductor.client.automator.heartbeat import Heartbeat
from conductor.client.automator.journal import Journal, default_directory
from conductor.client.automator.lease import LeaseKeeper
from conductor.client.automator.poll import Parking
from conductor.client.automator.redelivery import Redelivery
from conductor.client.automator.report import Reporter
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient, OnRequest
from conductor.wire import FEATURE_BATCH_REPORTS, FEATURE_LEASES

if TYPE_CHECKING:
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.clock import Clock

logger = logging.getLogger(__name__)


class Session:
    """One process's dealings with one server. Use it as `async with`."""

    def __init__(
        self,
        configuration: Configuration,
        options: ResolvedConfig,
        events: SyncEventDispatcher,
        clock: Clock,
        *,
        http_client: Any | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._configuration = configuration
        self._on_request = on_request
        self.events = events
        self.clock = clock
        self.client = self._client(http_client)
        self.api = AsyncTaskResourceApi(self.client)
        # Parked polls have connections of their own: reports and heartbeats never wait behind them.
        self._parked_client = self._client(http_client)
        self.parked_api = AsyncTaskResourceApi(self._parked_client)
        self.parking = Parking()
        self.leases = LeaseKeeper(lambda: Heartbeat(self._client(None)), events, clock)
        self._journal = _journal(configuration, options)
        self._delivery = Delivery(self.api)
        self.reporter = Reporter(self.api, self._delivery, self._journal, events, clock)
        self._max_age_s = options.journal_max_age_seconds
        self._redelivery: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Session:
        if self._journal is not None:
            if self._journal.open():
                logger.info("Results wait for their verdict in %s", self._journal.path)
            work = Redelivery(
                self._journal, self._delivery, self.api, self.events, max_age_s=self._max_age_s, clock=self.clock
            )
            self._redelivery = asyncio.create_task(work.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._redelivery is not None:
            self._redelivery.cancel()
            await asyncio.gather(self._redelivery, return_exceptions=True)
        self.leases.close()
        if self._journal is not None:
            self._journal.close()
        await self.client.close()
        await self._parked_client.close()

    def learn(self, features: frozenset[str]) -> None:
        """What the server can do, as it says with every poll answer."""
        self._delivery.batches = FEATURE_BATCH_REPORTS in features
        self.parking.unlimited = FEATURE_LEASES in features

    @property
    def recalls_polls(self) -> bool:
        """Whether the server answers a long poll early when it is asked to; a plain server does not."""
        return self.parking.unlimited

    def _client(self, http_client: Any | None) -> AsyncApiClient:
        client = AsyncApiClient(self._configuration, http_client=http_client, clock=self.clock)
        client.on_request = self._on_request
        return client


def _journal(configuration: Configuration, options: ResolvedConfig) -> Journal | None:
    if not options.journal_enabled:
        return None
    directory = Path(options.journal_dir) if options.journal_dir else default_directory()
    return Journal(directory, configuration.host, max_bytes=options.journal_max_bytes)
