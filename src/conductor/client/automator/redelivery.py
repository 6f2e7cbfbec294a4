"""Sending again what no attempt could deliver: this process's own results, and those of processes that died."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from conductor.client.automator.answer import fate_of
from conductor.client.automator.journal import AdoptedFile, Entry, Journal
from conductor.client.automator.poll import Backoff
from conductor.client.event.task_runner_events import TaskUpdateCompleted
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.wire import Verdict

if TYPE_CHECKING:
    from conductor.client.automator.delivery import Delivery
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.clock import Clock

logger = logging.getLogger(__name__)

#: While the server is away, the wait between two tries grows up to this.
CAP_S = 30.0


class Redelivery:
    """Works through the journal in the background until every result has its verdict or is too old."""

    def __init__(
        self,
        journal: Journal,
        delivery: Delivery,
        api: AsyncTaskResourceApi,
        events: SyncEventDispatcher,
        *,
        max_age_s: float,
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._delivery = delivery
        self._api = api
        self._events = events
        self._max_age_s = max_age_s
        self._clock = clock
        self._backoff = Backoff(0.5, CAP_S, jitter=0.2)
        self._adopted: list[AdoptedFile] = []

    async def run(self) -> None:
        """Adopt what dead processes left, then serve what reports give up, for ever."""
        self._adopted = list(self._journal.adopt())
        try:
            for file in self._adopted:
                await self._take_over(file)
            while True:
                await self._work_off(deque([await self._journal.waiting.get()]))
        finally:
            for file in self._adopted:
                file.release()

    async def _take_over(self, file: AdoptedFile) -> None:
        if file.entries:
            logger.info("Found %d unsent results of an ended process in %s", len(file.entries), file.path)
        await self._work_off(deque(file.entries))
        file.remove()

    async def _work_off(self, entries: deque[Entry]) -> None:
        """Until none is left. One that the server cannot take yet goes to the end of the line."""
        while entries:
            while not self._journal.waiting.empty():
                entries.append(self._journal.waiting.get_nowait())
            entry = entries.popleft()
            if self._too_old(entry):
                self._give_up(entry)
                continue
            sent_at = self._clock.monotonic()
            try:
                verdict = await self._deliver(entry)
            except (ConductorError, OSError) as error:
                entries.append(entry)
                wait_s = self._backoff.next()
                logger.debug("Result of task %s still waits: %s; next try in %.1f s", entry.task_id, error, wait_s)
                await self._clock.sleep(wait_s)
                continue
            self._concluded(entry, verdict, took_ms=(self._clock.monotonic() - sent_at) * 1000)

    def _concluded(self, entry: Entry, verdict: Verdict, *, took_ms: float) -> None:
        tries = self._backoff.reset() + 1
        self._strike(entry)
        level = logging.INFO if verdict is Verdict.COMMITTED else logging.WARNING
        logger.log(level, "Kept result of task %s has its verdict: %s", entry.task_id, verdict)
        self._events.emit(
            TaskUpdateCompleted,
            entry.task_type,
            entry.task_id,
            entry.worker_id or "",
            entry.workflow_instance_id,
            verdict,
            inferred=not entry.leased,
            attempts=tries,
            duration_ms=took_ms,
        )

    def _strike(self, entry: Entry) -> None:
        self._journal.done(entry)
        for file in self._adopted:
            file.done(entry)

    def _give_up(self, entry: Entry) -> None:
        self._strike(entry)
        logger.critical(
            "Result of task %s is older than %.0f s and is given up. Task result LOST for task_id=%s",
            entry.task_id,
            self._max_age_s,
            entry.task_id,
        )

    async def _deliver(self, entry: Entry) -> Verdict:
        """One try. A plain server cannot tell a late result from a fresh one, so the task is looked at first."""
        fate = None if entry.leased else await self._fate(entry)
        if fate is not None:
            return fate
        answer = await self._delivery.deliver(entry.body)
        if answer.verdict is not None:
            return answer.verdict
        if not answer.final:
            raise ConductorError(f"the server answered {answer.status}: {answer.message}")
        return Verdict.COMMITTED if answer.status < 300 else Verdict.REJECTED

    async def _fate(self, entry: Entry) -> Verdict | None:
        try:
            return fate_of(entry, await self._api.get_task(entry.task_id))
        except NotFoundException:
            return None  # perhaps a proxy's word: what the server says to the report itself counts

    def _too_old(self, entry: Entry) -> bool:
        return self._clock.wall_ms() - entry.written_ms > self._max_age_s * 1000
