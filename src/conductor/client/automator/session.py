"""Holds everything that the workers of one process share: connections, leases, reports, and the journal."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor.client.automator.delivery import Delivery
from conductor.client.automator.heartbeat import Heartbeat
from conductor.client.automator.isolation import Isolation
from conductor.client.automator.journal import HeldTask, Journal
from conductor.client.automator.lease import LeaseKeeper
from conductor.client.automator.poller import AbandonedPoll, Parking, PollTask
from conductor.client.automator.redelivery import Redelivery
from conductor.client.automator.reporter import Reporter
from conductor.client.automator.running_task import Stop
from conductor.client.automator.step_file import StepFile, remove_old_files
from conductor.client.automator.step_recorder import StepRecorder
from conductor.client.automator.thread_pool import ThreadPool
from conductor.client.event.task_runner_events import TaskLeaseExtended
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient, OnRequest
from conductor.client.http.async_rest import ConductorError
from conductor.common.machine import state_directory
from conductor.durable.errors import DurableError
from conductor.protocol.wire import FEATURE_BATCH_REPORTS, FEATURE_LEASES, FEATURE_REPORT_AND_POLL, FEATURE_STEPS

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.worker.resources import Resources
    from conductor.client.worker.worker_config import ResolvedConfig
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: At most this many `def` steps of `async def` workers run at the same time in one process.
MAX_STEP_THREADS = 64


class Session:
    """The connection of one process to one server. Use it as `async with`."""

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
        self.configuration = configuration
        self._on_request = on_request
        #: The dependencies that functions receive in addition to a task's input.
        self.resources = resources
        self.events = events
        self.clock = clock
        self._owns_client = http_client is None
        self.client = self._open_client(http_client)
        self.api = AsyncTaskResourceApi(self.client)
        # Parked polls have connections of their own, so that reports and heartbeats never wait for them.
        self._parked_client = self._open_client(http_client)
        self.parked_api = AsyncTaskResourceApi(self._parked_client)
        self.parking = Parking()
        #: The features that the server announces; a Conductor server announces none.
        self.features: frozenset[str] = frozenset()
        #: Whether the server is a coordinator: it grants leases, and answers a parked poll when it is asked to.
        self.leasing = False
        #: The largest body that the server accepts, in bytes; None if the server announces no limit.
        self.max_body: int | None = None
        self.leases = LeaseKeeper(lambda: Heartbeat(self._open_client(None)), events, clock)
        self.journal = make_journal(configuration, options)
        self.isolation = Isolation(self.journal, clock)
        self._delivery = Delivery(self.api, clock, self.journal.flush if self.journal else lambda: None)
        self.reporter = Reporter(self.api, self._delivery, self.journal, events, clock)
        self._max_age_s = options.journal_max_age_seconds
        self._redelivery = None if self.journal is None else self._make_redelivery(self.journal)
        self._redelivery_task: asyncio.Task[None] | None = None
        self._keeps_step_files = False
        self._step_threads = ThreadPool(MAX_STEP_THREADS, "durable-step", clock.monotonic)
        self._is_server_known = False
        self._abandoned_polls: set[AbandonedPoll] = set()
        self._user: asyncio.Task[Any] | None = None

    def _open_client(self, http_client: Any | None) -> AsyncApiClient:
        client = AsyncApiClient(self.configuration, http_client=http_client, clock=self.clock)
        client.on_request = self._on_request
        return client

    @property
    def is_cancelled(self) -> bool:
        """Whether the asyncio task that uses the session was cancelled, for example at the end of the event loop."""
        return self._user is not None and self._user.cancelling() > 0

    async def __aenter__(self) -> Session:
        self._user = asyncio.current_task()
        if self.journal is not None and self.journal.open():
            logger.debug("Result journal: %s", self.journal.path)
            self.events.register(TaskLeaseExtended, self._on_lease_extended)
        if self._redelivery is not None:
            self._redelivery_task = asyncio.create_task(self._redelivery.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._redelivery_task is not None:
            self._redelivery_task.cancel()
            await asyncio.gather(self._redelivery_task, return_exceptions=True)
        await self.reporter.close()
        self._step_threads.close()
        self.leases.close()
        if self.journal is not None:
            self.events.unregister(TaskLeaseExtended, self._on_lease_extended)
            self.journal.close()
        await self.client.close()
        if not self._abandoned_polls:
            await self._parked_client.close()

    def count_waiting_reports(self) -> Counter[str]:
        """Return the number of reports without a verdict by task type, in this journal and in adopted journals."""
        return Counter() if self._redelivery is None else self._redelivery.count_reports()

    def open_steps(self, running: RunningTask) -> StepRecorder | StepFile:
        """Return the store for the durable steps of a task: the coordinator, or a file for another kind of server.

        Raises:
            DurableError: The server has no place for steps, and the journal is disabled.
        """
        if running.task.lease_id is not None and FEATURE_STEPS in self.features:
            return StepRecorder(running, self._delivery, self.api, self.clock)
        if self.journal is None:
            raise DurableError(
                "this server cannot store durable steps, and the journal that would store them is disabled"
            )
        directory = self.journal.directory / "steps"
        if not self._keeps_step_files:
            self._keeps_step_files = True
            remove_old_files(directory, self._max_age_s, self.clock)
        return StepFile(running, directory, self.journal.server, self.client, self.clock)

    async def call_on_thread(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a `def` step of an `async def` worker on a thread, and return its result.

        The thread does not delay the end of the process.
        """
        value, error, _ = await self._step_threads.submit(function, argument)
        if error is not None:
            raise error
        return value

    def _make_redelivery(self, journal: Journal) -> Redelivery:
        return Redelivery(journal, self._delivery, self.api, self.events, max_age_s=self._max_age_s, clock=self.clock)

    def _on_lease_extended(self, event: TaskLeaseExtended) -> None:
        if self.journal is not None:
            self.journal.extend_lease(event.task_id, self.clock.wall_ms() + int(event.remaining_s * 1000))

    def learn(self, features: frozenset[str], max_body: int | None) -> None:
        """Store the features and limits that the server announces with a poll answer."""
        if not self._is_server_known:
            self._is_server_known = True
            # Most workers use no steps, so the line is at INFO only if the server cannot store steps.
            level = logging.DEBUG if FEATURE_STEPS in features else logging.INFO
            logger.log(level, "Durable steps are kept %s", self._describe_step_store(features))
        self.features = features
        self.max_body = self._delivery.max_body = max_body
        self._delivery.takes_batches = FEATURE_BATCH_REPORTS in features
        self._delivery.brings_next = FEATURE_REPORT_AND_POLL in features
        self.parking.unlimited = self.leasing = FEATURE_LEASES in features

    def _describe_step_store(self, features: frozenset[str]) -> str:
        if FEATURE_STEPS in features:
            return "by the coordinator"
        if self.journal is None:
            return "nowhere: the server is not a coordinator, and the journal is disabled"
        return f"on this machine, because the server is not a coordinator: directory={self.journal.directory / 'steps'}"

    async def requeue_held_tasks(self, limit_s: float) -> None:
        """Requeue the tasks that the journal still holds."""
        if self.journal is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._make_redelivery(self.journal).requeue_held_tasks(Stop.SHUTDOWN.value)

    def abandon_poll(self, polling: PollTask, worker_id: str, limit_s: float) -> bool:
        """Stop waiting for a poll, and requeue the tasks in its answer. Return False if the answer must be awaited."""
        if not self._owns_client:
            return False  # the owner of the HTTP client may close it before the poll is answered

        async def requeue(grants: list[Grant]) -> None:
            try:
                for grant in grants:
                    now_ms = self.clock.wall_ms()
                    task = HeldTask.of(grant, worker_id, self.clock.monotonic(), now_ms)
                    report = task.make_requeue_report(now_ms, Stop.SHUTDOWN.value)
                    await self.parked_api.send_report(report.body, timeout_s=limit_s)
                    logger.info("Task %s arrived after the workers had stopped and was requeued", report.task_id)
            except (ConductorError, OSError) as error:
                logger.error("A task that arrived after the workers had stopped could not be requeued: %s", error)
            finally:
                self._abandoned_polls.discard(abandoned)
                if not self._abandoned_polls:
                    await self._parked_client.close()

        abandoned = AbandonedPoll(polling, requeue, limit_s)
        self._abandoned_polls.add(abandoned)
        return True


def make_journal(configuration: Configuration, options: ResolvedConfig) -> Journal | None:
    """Return the journal of this process, still closed; None if it is disabled, or has no safe directory."""
    if not options.journal_enabled:
        return None
    try:
        directory = Path(options.journal_dir) if options.journal_dir else state_directory() / "journal"
    except OSError as error:
        logger.critical("No directory for the result journal (%s): workers continue without it", error)
        return None
    return Journal(directory, configuration.host, max_bytes=options.journal_max_bytes)
