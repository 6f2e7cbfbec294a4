"""Holds prefetched tasks: tasks beyond the worker's slots (option `prefetch`) that wait for a slot.

A prefetched task sends no heartbeats. If no slot becomes free within `MAX_WAIT_S`, or within a third of its lease, the
task is requeued at the coordinator, which then does not count the delivery. The lease thread requeues the tasks, so
that a blocked event loop does not delay them. Both threads use the queue under its lock: the thread that removes a task
from the queue either starts or requeues it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.automator.journal import HeldTask
from conductor.client.automator.running_task import task_timeout_s

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.automator.session import Session
    from conductor.client.worker.worker_config import ResolvedConfig

logger = logging.getLogger(__name__)

#: A task that has waited this long for a slot is requeued.
MAX_WAIT_S = 1.0
#: A task that has waited for this share of its response timeout is requeued.
MAX_WAIT_SHARE = 1 / 3
#: Task types with a shorter task timeout or response timeout, in seconds, are not prefetched.
MIN_TIMEOUT_S = 10.0
#: A failed requeue is repeated after this long.
REPEAT_S = 0.5
#: The reason in the report that requeues a task.
NO_SLOT = "no slot of the worker became free"


class _WaitingTask(NamedTuple):
    grant: Grant
    requeue_at: float


class PrefetchQueue:
    """The prefetched tasks of one worker. `put`, `take` and `requeue_all` run on the workers' event loop.

    The worker may hold at most `prefetch` tasks, and at most as many as it has finished since it last requeued a
    prefetched task. So a worker with slow tasks soon holds none.
    """

    def __init__(self, config: ResolvedConfig, session: Session, on_requeued: Callable[[], None]) -> None:
        self._config = config
        self._session = session
        self._clock = session.clock
        self._on_requeued = on_requeued
        self._lock = threading.Lock()
        self._waiting: deque[_WaitingTask] = deque()
        #: Tasks whose requeue is not answered yet, by task and lease.
        self._requeueing: dict[tuple[str, str | None], Grant] = {}
        self._is_watched = False
        self._finished = 0
        self._is_suitable = False

    @property
    def held(self) -> int:
        """The number of tasks that wait for a slot, or whose requeue is not answered yet."""
        with self._lock:
            return len(self._waiting) + len(self._requeueing)

    def allowance(self) -> int:
        """Return how many tasks may wait now."""
        if not (self._is_suitable and self._session.leasing):
            return 0
        return min(self._config.prefetch, self._finished)

    def on_finished(self) -> None:
        """Count a function that has returned."""
        self._finished += 1

    def on_polled(self, grants: list[Grant]) -> None:
        """Learn from the tasks of a poll whether tasks of this type may be prefetched."""
        self._is_suitable = all(_can_wait(grant) for grant in grants)

    def put(self, grant: Grant) -> None:
        """Hold a task until a slot is free."""
        now, lease_s = self._clock.monotonic(), grant.response_timeout_s
        requeue_at = min(now + MAX_WAIT_S, grant.sent_at + lease_s * MAX_WAIT_SHARE) if _can_wait(grant) else now
        with self._lock:
            self._waiting.append(_WaitingTask(grant, requeue_at))
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            self._session.leases.run_on_thread(self._watch())

    def take(self) -> Grant | None:
        """Return the task that has waited longest, or None."""
        with self._lock:
            return self._waiting.popleft().grant if self._waiting else None

    def requeue_all(self) -> None:
        """Requeue every waiting task now, because the worker takes no more tasks."""
        with self._lock:
            self._waiting = deque(waiting._replace(requeue_at=0.0) for waiting in self._waiting)
            if not self._waiting:
                return
        self._session.leases.run_on_thread(self._requeue(self._take_due()))

    def journal_as_never_started(self) -> None:
        """Add reports to the journal that requeue the waiting tasks. The process that adopts the journal sends them."""
        if self._session.journal is None:
            return
        with self._lock:
            left = [*self._requeueing.values(), *(waiting.grant for waiting in self._waiting)]
        now_ms = self._clock.wall_ms()
        for task in self._make_held_tasks(left):
            self._session.journal.add(task.make_requeue_report(now_ms, NO_SLOT, never_started=True))

    def _make_held_tasks(self, grants: list[Grant]) -> list[HeldTask]:
        now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        return [HeldTask.of(grant, self._config.worker_id, now, now_ms) for grant in grants]

    async def _watch(self) -> None:
        """Requeue tasks that wait too long, until no task waits. Runs on the lease thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_watched = False
                    return
                wait_s = self._waiting[0].requeue_at - self._clock.monotonic()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
            else:
                await self._requeue(self._take_due())

    def _take_due(self) -> list[Grant]:
        now, due = self._clock.monotonic(), []
        with self._lock:
            while self._waiting and self._waiting[0].requeue_at <= now:
                due.append(self._waiting.popleft().grant)
            self._requeueing |= {_key(grant): grant for grant in due}
        return due

    async def _requeue(self, grants: list[Grant]) -> None:
        if not grants:
            return
        self._finished = 0
        name = grants[0].task.task_def_name or grants[0].task.task_type
        logger.info("Requeueing prefetched tasks: task_type=%s tasks=%d reason=%r", name, len(grants), NO_SLOT)
        tasks, now_ms = self._make_held_tasks(grants), self._clock.wall_ms()
        lease_ends = max(grant.sent_at + grant.response_timeout_s for grant in grants)
        bodies = [task.make_requeue_report(now_ms, NO_SLOT, never_started=True).body for task in tasks]
        level = logging.WARNING
        try:
            while not await self._session.leases.requeue(bodies, level) and self._clock.monotonic() < lease_ends:
                level = logging.DEBUG  # one warning per outage
                await self._clock.sleep(REPEAT_S)
        finally:
            with self._lock:
                for grant in grants:
                    del self._requeueing[_key(grant)]
            self._session.leases.call_on_workers_loop(lambda: self._remove_from_journal(tasks))

    def _remove_from_journal(self, tasks: list[HeldTask]) -> None:
        if self._session.journal is not None:
            for task in tasks:
                self._session.journal.remove_task(task.task_id, task.poll_count, task.lease_id)
        self._on_requeued()


def _key(grant: Grant) -> tuple[str, str | None]:
    return grant.task.task_id, grant.task.lease_id


def _can_wait(grant: Grant) -> bool:
    """Return whether a task may wait for a slot.

    The timeouts of the task must be at least `MIN_TIMEOUT_S`. A task that is only reported, not executed, does not
    wait.
    """
    timeout_s = task_timeout_s(grant.task.task_definition)
    is_long_enough = timeout_s is None or timeout_s >= MIN_TIMEOUT_S
    return grant.make_outcome is None and is_long_enough and grant.response_timeout_s >= MIN_TIMEOUT_S
