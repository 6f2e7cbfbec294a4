"""Polls for tasks, and decides how many to request and when to poll again. `Poller.poll` is the entry point."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conductor.client.automator.polled_tasks import Grant, read_grants
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
#: The longest wait after a rejected poll (401, 403).
REJECTED_CAP_S = 60.0
#: The longest wait after a failed poll (5xx, network, malformed answer).
FAILED_CAP_S = 15.0
#: Waits after rejected and failed polls are shortened by up to this share, so that the workers of a fleet spread out.
JITTER = 0.2
#: An empty answer that arrives more than this time after the poll timeout counts as a failed poll.
TOO_SLOW_S = 5.0
#: The most parked polls per process on a Conductor server, where each one occupies a server thread.
MAX_PARKED_POLLS = 32
#: The request to answer a parked poll at once is repeated after this time.
RECALL_AGAIN_S = 0.5


class Parking:
    """Limits the parked polls that one process has at the same time."""

    def __init__(self, places: int = MAX_PARKED_POLLS) -> None:
        self._free = places
        #: True for a coordinator, which parks polls without a thread for each.
        self.unlimited = False

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Count one parked poll during the block. Yield False if the limit is reached."""
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
    """Polls for one worker. After `poll`, `wait_s` says how long to wait before the next poll.

    `poll` calls `_poll_parked` for an idle worker. Both call `_request` for each request, which calls one of
    `_on_answer`, `_on_rejected` and `_on_failed`.
    """

    def __init__(self, task_type: str, config: ResolvedConfig, session: Session) -> None:
        self._task_type = task_type
        self._config = config
        self._session = session
        self._events = session.events
        self._clock = session.clock
        self._empty = Backoff(FIRST_EMPTY_WAIT_S, config.poll_interval_millis / 1000)
        self._rejected = Backoff(2.0, REJECTED_CAP_S, jitter=JITTER)
        self._failed = Backoff(2.0, FAILED_CAP_S, jitter=JITTER)
        #: The most tasks to request: fewer after an answer that was too large.
        self._max_count = MAX_POLL_COUNT
        #: Seconds to wait before the next poll.
        self.wait_s = 0.0
        #: Whether the poll in flight is parked.
        self.is_parked = False
        #: True while the worker wants no more tasks: the poll in flight is the last one.
        self.is_quiet = False

    async def poll(self, free: int) -> list[Grant]:
        """Request up to `free` tasks, and return those that the server grants. Never raise an exception."""
        is_idle = self._empty.at_cap and not self._has_failed()
        if is_idle and self._config.idle_poll_timeout:
            with self._session.parking.place() as place:
                if place:
                    return await self._poll_parked(free)
        return await self._request(min(free, self._max_count), self._config.poll_timeout)

    async def _poll_parked(self, free: int) -> list[Grant]:
        """Send a long poll for one task. If a Conductor server grants it, request more. Return all granted tasks.

        The long poll requests only one task, because a Conductor server may wait until a batch is complete. With a
        coordinator the first task begins at once, and the next poll requests more tasks.
        """
        started = self._clock.monotonic()
        self.is_parked = True
        try:
            first = await self._request(1, self._config.idle_poll_timeout, api=self._session.parked_api)
        finally:
            self.is_parked = False
        if not first:
            # The duration of the parked poll counts as waiting, so only the rest of the poll interval remains.
            took = self._clock.monotonic() - started
            if not self._has_failed():
                self.wait_s = max(0.0, self._config.poll_interval_millis / 1000 - took)
            return first
        if free > 1 and not (self.is_quiet or self._session.leasing):
            return first + await self._request(min(free - 1, self._max_count), 0)
        return first

    async def _request(self, count: int, timeout_ms: int, *, api: AsyncTaskResourceApi | None = None) -> list[Grant]:
        self._events.emit(PollStarted, self._task_type, self._config.worker_id, count)
        sent_at = self._clock.monotonic()
        try:
            polled = await (api or self._session.api).poll_for_worker(
                self._task_type,
                worker_id=self._config.worker_id,
                domain=self._config.domain,
                count=count,
                timeout_ms=timeout_ms,
                slots=self._config.thread_count if self._session.leasing else None,
            )
        except AuthorizationException as error:
            self._on_rejected(error, self._clock.monotonic() - sent_at)
            return []
        except Exception as error:  # the worker must continue after any answer and any failure
            if isinstance(error, AnswerTooLarge):
                self._max_count = max(1, count // 2)
            self._on_failed(error, self._clock.monotonic() - sent_at)
            return []
        took = self._clock.monotonic() - sent_at
        if not polled.tasks and took > timeout_ms / 1000 + TOO_SLOW_S:
            self._on_failed(ConductorError(f"an empty answer took {took:.1f} s; poll timeout: {timeout_ms} ms"), took)
            return []
        if polled.features != self._session.features or polled.max_body != self._session.max_body:
            self._session.learn(polled.features, polled.max_body)
        grants, rejected = read_grants(polled, self._task_type, count, sent_at)
        if rejected and not grants:
            self._on_failed(MalformedAnswer(f"the answer has only tasks that are not executed: {rejected}"), took)
            return []
        if rejected:
            logger.warning("Poll for '%s' returned tasks that are not executed: %s", self._task_type, rejected)
        self._on_answer(len(grants), took)
        return grants

    def _on_answer(self, received: int, took_s: float) -> None:
        self._events.emit(PollCompleted, self._task_type, took_s * 1000, received)
        if self._has_failed():
            failures = self._failed.reset() + self._rejected.reset()
            logger.info("Polling for '%s' works again after %d failed polls", self._task_type, failures)
        if not received:
            self.wait_s = self._empty.next()
            return
        self.wait_s = 0.0
        self._max_count = min(self._max_count * 2, MAX_POLL_COUNT)
        self._empty.reset()

    def _on_rejected(self, error: AuthorizationException, took_s: float) -> None:
        self._events.emit(PollFailure, self._task_type, took_s * 1000, error)
        self.wait_s = self._rejected.next()
        logger.error("Authentication failed (failure count: %d)", self._rejected.count)
        if error.status == 403 and self._rejected.count == 1:  # the reason of a 401 is logged with the access token
            logger.warning(
                'The key may not poll: task_type=%s error="%s". Use a key that may, or change its roles',
                self._task_type,
                error.reason or error,
            )

    def _on_failed(self, error: Exception, took_s: float) -> None:
        self._events.emit(PollFailure, self._task_type, took_s * 1000, error)
        self.wait_s = self._failed.next()
        logger.log(
            logging.WARNING if self._session.configuration.logs_failed_polls else logging.DEBUG,
            "Poll for '%s' failed (%d in a row): %s; next in %.1f s",
            self._task_type,
            self._failed.count,
            error,
            self.wait_s,
        )

    def _has_failed(self) -> bool:
        return bool(self._failed.count or self._rejected.count)

    async def recall(self, polling: PollTask) -> None:
        """Ask a coordinator to answer the parked poll now. Repeat this, because the poll may reach the server later.

        The poll is not cancelled, because the HTTP library would still complete the request, and a task in the answer
        would be lost.
        """
        while not polling.done():
            try:
                await self._session.api.poll_for_worker(
                    self._task_type,
                    worker_id=self._config.worker_id,
                    domain=self._config.domain,
                    count=0,
                    timeout_ms=0,
                )
            except (ConductorError, OSError) as error:
                logger.debug("Parked poll for '%s' could not be ended early: %s", self._task_type, error)
            await asyncio.wait({polling}, timeout=RECALL_AGAIN_S)

    @property
    def may_ask_with_report(self) -> bool:
        """Whether a report may request the next task: the worker wants tasks, and the last poll did not fail."""
        return not (self.is_quiet or self._has_failed())

    def read_report_answers(self, answers: list[ReportAnswer]) -> list[Grant]:
        """Return the grants in the answers to reports: one task per answer."""
        by_request: dict[float, list[ReportAnswer]] = {}
        for answer in answers:
            by_request.setdefault(answer.sent_at, []).append(answer)
        granted: list[Grant] = []
        for sent_at, group in by_request.items():
            tasks = [answer.next_task for answer in group if isinstance(answer.next_task, Task)]
            unreadable = tuple(answer.next_task for answer in group if isinstance(answer.next_task, UnreadableTask))
            polled = PollAnswer(tasks, frozenset(), unreadable=unreadable)
            grants, rejected = read_grants(polled, self._task_type, len(group), sent_at)
            granted += grants
            if rejected:
                logger.warning(
                    "Reports of '%s' tasks were answered with next tasks that are not executed: %s",
                    self._task_type,
                    rejected,
                )
        return granted


class PollTask(asyncio.Task[list[Grant]]):
    """A poll in progress. The end of the event loop cancels it, unless the poll is abandoned."""

    def __init__(self, poll: Coroutine[Any, Any, list[Grant]]) -> None:
        super().__init__(poll, loop=asyncio.get_running_loop())
        self.is_abandoned = False

    def cancel(self, msg: object = None) -> bool:
        """Cancel the poll; do nothing and return False if it is abandoned."""
        return False if self.is_abandoned else super().cancel(msg)


class AbandonedPoll(asyncio.Task[None]):
    """Waits for the answer to a poll that the engine no longer waits for. This task cannot be cancelled.

    A Conductor server cannot be asked to forget a poll. If the connection were closed, the server would still deliver a
    task, which no worker would execute before its response timeout. A program that ends cancels the tasks of its event
    loop and waits for them, so the program waits here for the answer. That takes seconds at most.
    """

    def __init__(
        self,
        polling: PollTask,
        on_grants: Callable[[list[Grant]], Awaitable[None]],
        limit_s: float,
    ) -> None:
        polling.is_abandoned = True
        super().__init__(self._read(polling, on_grants, limit_s), loop=asyncio.get_running_loop())

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002
        """Ignore the request and return False, because the answer to the poll may contain a task."""
        return False

    @staticmethod
    async def _read(polling: PollTask, on_grants: Callable[[list[Grant]], Awaitable[None]], limit_s: float) -> None:
        await asyncio.wait({polling}, timeout=limit_s)
        if not polling.done():
            polling.is_abandoned = False
            polling.cancel()
            await asyncio.wait({polling})
        failed = polling.cancelled() or polling.exception() is not None
        await on_grants([] if failed else polling.result())
