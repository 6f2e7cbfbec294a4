"""What the workers of one process share: connections, leases, reports, and the journal behind them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor.client.automator.abandoned_poll import LastPoll
from conductor.client.automator.delivery import Delivery
from conductor.client.automator.heartbeat import Heartbeat
from conductor.client.automator.isolation import Isolation
from conductor.client.automator.journal import Journal, Taken
from conductor.client.automator.lease import LeaseKeeper
from conductor.client.automator.poller import Parking
from conductor.client.automator.redelivery import Redelivery
from conductor.client.automator.reporter import Reporter
from conductor.client.automator.running_task import Stop
from conductor.client.event.task_runner_events import TaskLeaseExtended
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient, OnRequest
from conductor.client.http.async_rest import ConductorError
from conductor.common.machine import state_directory
from conductor.protocol.wire import FEATURE_BATCH_REPORTS, FEATURE_LEASES, FEATURE_REPORT_AND_POLL

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.http.models.task import Task
    from conductor.client.worker.resources import Resources
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.common.clock import Clock

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
        resources: Resources | None = None,
    ) -> None:
        self._configuration = configuration
        self._on_request = on_request
        #: What functions are given besides a task's input.
        self.resources = resources
        self.events = events
        self.clock = clock
        self.client = self._client(http_client)
        self.api = AsyncTaskResourceApi(self.client)
        # Parked polls have connections of their own: reports and heartbeats never wait behind them.
        self._parked_client = self._client(http_client)
        self.parked_api = AsyncTaskResourceApi(self._parked_client)
        self.parking = Parking()
        #: What the server says it can do; a plain one says nothing.
        self.features: frozenset[str] = frozenset()
        #: Whether it is a coordinator: it gives leases, and answers a long poll early when it is asked to.
        self.leasing = False
        #: The largest body it takes, in bytes; None when it does not say.
        self.max_body: int | None = None
        self.leases = LeaseKeeper(lambda: Heartbeat(self._client(None)), events, clock)
        self.journal = journal_of(configuration, options)
        self.isolation = Isolation(self.journal, clock)
        self._delivery = Delivery(self.api, clock, self.journal.flush if self.journal else lambda: None)
        self.reporter = Reporter(self.api, self._delivery, self.journal, events, clock)
        self._max_age_s = options.journal_max_age_seconds
        self._redelivery: asyncio.Task[None] | None = None
        #: Polls that nobody waits for any more, but whose answer may still bring a task.
        self._last_polls: set[LastPoll] = set()
        self._owns_client = http_client is None
        self._user: asyncio.Task[Any] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether whoever uses it has been cancelled; perhaps everything on the event loop has."""
        return self._user is not None and self._user.cancelling() > 0

    async def __aenter__(self) -> Session:
        self._user = asyncio.current_task()
        if self.journal is not None:
            if self.journal.open():
                logger.info("Results wait for their verdict in %s", self.journal.path)
                self.events.register(TaskLeaseExtended, self._on_lease_extended)
            self._redelivery = asyncio.create_task(self._redeliver(self.journal).run())
        return self

    def _redeliver(self, journal: Journal) -> Redelivery:
        return Redelivery(journal, self._delivery, self.api, self.events, max_age_s=self._max_age_s, clock=self.clock)

    async def __aexit__(self, *_: object) -> None:
        if self._redelivery is not None:
            self._redelivery.cancel()
            await asyncio.gather(self._redelivery, return_exceptions=True)
        self.leases.close()
        if self.journal is not None:
            self.events.unregister(TaskLeaseExtended, self._on_lease_extended)
            self.journal.close()
        await self.client.close()
        if not self._last_polls:
            await self._parked_client.close()

    def put_down(self, task: Task) -> None:
        """A task has ended, with a report or without: there is nothing to give back any more."""
        if self.journal is not None:
            self.journal.put_down(task.task_id, task.poll_count)

    async def give_back(self, limit_s: float) -> None:
        """Give back what is still in hand, as far as there is a journal that knows it."""
        if self.journal is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._redeliver(self.journal).give_back(Stop.SHUTDOWN.value)

    def leave_behind(self, polling: asyncio.Task[list[Grant]], worker_id: str, limit_s: float) -> bool:
        """Stop waiting for a poll, and give back what it may still bring. False: then it must be waited for."""
        if not self._owns_client:
            return False  # its owner may close it as soon as we have stopped

        async def give_back(grants: list[Grant]) -> None:
            try:
                for grant in grants:
                    now_ms = self.clock.wall_ms()
                    taken = Taken.of(grant, worker_id, self.clock.monotonic(), now_ms)
                    entry = taken.hand_back(now_ms, Stop.SHUTDOWN.value)
                    await self.parked_api.send_report(entry.body, timeout_s=limit_s)
                    logger.info("Task %s came after the end, and is handed back", entry.task_id)
            except (ConductorError, OSError) as error:
                logger.error("A task that came after the end could not be handed back: %s", error)
            finally:
                self._last_polls.discard(last)
                if not self._last_polls:
                    await self._parked_client.close()

        last = LastPoll(polling, give_back, limit_s)
        self._last_polls.add(last)
        return True

    def _on_lease_extended(self, event: TaskLeaseExtended) -> None:
        if self.journal is not None:
            self.journal.extend(event.task_id, self.clock.wall_ms() + int(event.remaining_s * 1000))

    def learn(self, features: frozenset[str], max_body: int | None) -> None:
        """What the server can do and takes, as it says with every poll answer."""
        self.features = features
        self.max_body = self._delivery.max_body = max_body
        self._delivery.batches = FEATURE_BATCH_REPORTS in features
        self._delivery.brings_next = FEATURE_REPORT_AND_POLL in features
        self.parking.unlimited = self.leasing = FEATURE_LEASES in features

    def _client(self, http_client: Any | None) -> AsyncApiClient:
        client = AsyncApiClient(self._configuration, http_client=http_client, clock=self.clock)
        client.on_request = self._on_request
        return client


def journal_of(configuration: Configuration, options: ResolvedConfig) -> Journal | None:
    """The journal of this process, still closed; None when there is to be none, or no safe place for it."""
    if not options.journal_enabled:
        return None
    try:
        directory = Path(options.journal_dir) if options.journal_dir else state_directory() / "journal"
    except OSError as error:
        logger.critical("There is no place for the result journal (%s): work goes on without it", error)
        return None
    return Journal(directory, configuration.host, max_bytes=options.journal_max_bytes)
