"""Asking for work: how many tasks, and when to ask again."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conductor.client.automator.polled_tasks import Grant, grants_of
from conductor.client.event.task_runner_events import PollCompleted, PollFailure, PollStarted
from conductor.client.http.api.async_task_resource_api import PollAnswer, UnreadableTask
from conductor.client.http.async_rest import (
    AnswerTooLarge,
    AuthorizationException,
    ConductorError,
    MalformedAnswer,
)
from conductor.client.http.models.task import Task
from conductor.common.backoff import Backoff
from conductor.protocol.wire import MAX_POLL_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conductor.client.automator.delivery import ReportAnswer
    from conductor.client.automator.session import Session
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.worker.worker_config import ResolvedConfig

logger = logging.getLogger(__name__)

#: The wait after the first empty poll; it doubles up to the poll interval.
FIRST_EMPTY_WAIT_S = 0.001
#: Refused polls (401, 403) wait at most this long.
REFUSED_CAP_S = 60.0
#: Failed polls (5xx, network, nonsense) wait at most this long.
FAILED_CAP_S = 15.0
#: Waits after refusals and failures are shortened by up to this share, so that a fleet does not come back as one.
JITTER = 0.2
#: An empty answer that took this much longer than asked for means trouble behind the server, not idleness.
TOO_SLOW_S = 5.0
#: Parked long polls per process on a plain server, where each holds a server thread.
MAX_PARKED_POLLS = 32


class Parking:
    """The places for long polls of idle workers that one process may hold open at once."""

    def __init__(self, places: int = MAX_PARKED_POLLS) -> None:
        self._free = places
        #: Set for a coordinator, which parks polls without a thread for each.
        self.unlimited = False

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Take a place for the block, if there is one."""
        if self.unlimited:
            yield True
            return
        if self._free <= 0:
            yield False
            return
        self._free -= 1
        try:
            yield True
        finally:
            self._free += 1


class Poller:
    """Polls for one worker. `poll(free)` asks once; `wait_s` then says how long to wait before asking again."""

    def __init__(self, task_type: str, config: ResolvedConfig, session: Session) -> None:
        self._task_type = task_type
        self._config = config
        self._session = session
        self._events = session.events
        self._clock = session.clock
        self._empty = Backoff(FIRST_EMPTY_WAIT_S, config.poll_interval_millis / 1000)
        self._refused = Backoff(2.0, REFUSED_CAP_S, jitter=JITTER)
        self._failed = Backoff(2.0, FAILED_CAP_S, jitter=JITTER)
        #: Tasks in one answer at most: fewer after one that was too large to be read.
        self._most = MAX_POLL_COUNT
        #: Seconds to wait before the next poll.
        self.wait_s = 0.0
        #: Whether the poll under way is a long one that holds no task but may bring one.
        self.parked = False
        #: Set while no more tasks are wanted: the poll under way is then the last.
        self.quiet = False

    async def poll(self, free: int) -> list[Grant]:
        """Ask for up to `free` tasks. Never raises for anything a server or a network may do."""
        if (
            self._config.idle_poll_timeout
            and self._empty.count
            and self._empty.at_cap
            and not self._failed.count + self._refused.count
        ):
            with self._session.parking.place() as place:
                if place:
                    return await self._wait_for_work(free)
        return await self._ask(min(free, self._most), self._config.poll_timeout)

    async def recall(self) -> None:
        """Ask the server to answer the parked poll now, with nothing. Should that fail, the poll ends by itself, later.

        Not cancelled: the HTTP library goes on with a request that nobody waits for, and a task it brings is lost.
        """
        about = {"worker_id": self._config.worker_id, "domain": self._config.domain}
        try:
            await self._session.api.poll_for_worker(self._task_type, **about, count=0, timeout_ms=0)
        except (ConductorError, OSError) as error:
            logger.debug("The parked poll for '%s' could not be recalled: %s", self._task_type, error)

    async def _wait_for_work(self, free: int) -> list[Grant]:
        """Idle: one long poll for one task; when it rings, take the rest at once. Exact on every store.

        A coordinator holds back no part of a batch: there the first task is begun, and the next poll takes the rest.
        """
        started = self._clock.monotonic()
        self.parked = True
        try:
            first = await self._ask(1, self._config.idle_poll_timeout, api=self._session.parked_api)
        finally:
            self.parked = False
        if not first:
            # The long poll was the wait; only what is missing of the interval is waited for.
            took = self._clock.monotonic() - started
            if not (self._failed.count or self._refused.count):
                self.wait_s = max(0.0, self._config.poll_interval_millis / 1000 - took)
            return first
        if free > 1 and not (self.quiet or self._session.leasing):
            return first + await self._ask(min(free - 1, self._most), 0)
        return first

    async def _ask(self, count: int, timeout_ms: int, *, api: AsyncTaskResourceApi | None = None) -> list[Grant]:
        if PollStarted in self._events.heard:
            self._events.emit(PollStarted, self._task_type, self._config.worker_id, count)
        sent_at = self._clock.monotonic()
        try:
            polled = await (api or self._session.api).poll_for_worker(
                self._task_type,
                worker_id=self._config.worker_id,
                domain=self._config.domain,
                count=count,
                timeout_ms=timeout_ms,
            )
        except AuthorizationException as error:
            self._on_refused(error, self._clock.monotonic() - sent_at)
            return []
        except Exception as error:  # whatever it is: a worker does not end because of what a server says
            if isinstance(error, AnswerTooLarge):
                self._most = max(1, count // 2)
            self._on_failed(error, self._clock.monotonic() - sent_at)
            return []
        took = self._clock.monotonic() - sent_at
        if not polled.tasks and took > timeout_ms / 1000 + TOO_SLOW_S:
            self._on_failed(ConductorError(f"an empty answer took {took:.1f} s, {timeout_ms} ms were asked for"), took)
            return []
        if polled.features != self._session.features or polled.max_body != self._session.max_body:
            self._session.learn(polled.features, polled.max_body)
        grants, refused = grants_of(polled, self._task_type, count, sent_at)
        if refused and not grants:
            self._on_failed(MalformedAnswer(refused), took)
            return []
        if refused:
            logger.warning("Poll for '%s' brought %s", self._task_type, refused)
        self._on_answer(len(grants), took)
        return grants

    @property
    def may_ask_with_report(self) -> bool:
        """Whether a report may ask for the next task: polls are wanted, and the last one did not fail."""
        return not (self.quiet or self._failed.count or self._refused.count)

    def grants_of_reports(self, answers: list[ReportAnswer]) -> list[Grant]:
        """Return what the answers to reports grant: one task each."""
        by_request: dict[float, list[ReportAnswer]] = {}
        for answer in answers:
            by_request.setdefault(answer.sent_at, []).append(answer)
        granted: list[Grant] = []
        for sent_at, some in by_request.items():
            tasks = [answer.next_task for answer in some if isinstance(answer.next_task, Task)]
            unreadable = tuple(answer.next_task for answer in some if isinstance(answer.next_task, UnreadableTask))
            polled = PollAnswer(tasks, frozenset(), unreadable=unreadable)
            grants, refused = grants_of(polled, self._task_type, len(some), sent_at)
            granted += grants
            if refused:
                logger.warning("Reports for '%s' brought %s", self._task_type, refused)
        return granted

    def _on_answer(self, received: int, took_s: float) -> None:
        if PollCompleted in self._events.heard:
            self._events.emit(PollCompleted, self._task_type, took_s * 1000, received)
        if self._failed.count or self._refused.count:
            troubles = self._failed.reset() + self._refused.reset()
            logger.info("Polling for '%s' works again after %d failed polls", self._task_type, troubles)
        if not received:
            self.wait_s = self._empty.next()
            return
        self.wait_s = 0.0
        self._most = min(self._most * 2, MAX_POLL_COUNT)
        if self._empty.count:
            self._empty.reset()

    def _on_refused(self, error: AuthorizationException, took_s: float) -> None:
        self._events.emit(PollFailure, self._task_type, took_s * 1000, error)
        self.wait_s = self._refused.next()
        logger.error("Authentication failed (failure count: %d)", self._refused.count)

    def _on_failed(self, error: Exception, took_s: float) -> None:
        self._events.emit(PollFailure, self._task_type, took_s * 1000, error)
        self.wait_s = self._failed.next()
        logger.warning(
            "Poll for '%s' failed (%d in a row): %s; next in %.1f s",
            self._task_type,
            self._failed.count,
            error,
            self.wait_s,
        )
