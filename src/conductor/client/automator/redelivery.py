"""Sending again what no attempt could deliver: this process's own results, and those of processes that died.

What a dead process had finished is sent first; then what it had in hand is given back, so that others run it at once.
A task that `deaths` blames for the end of the process is reported as it decides.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from conductor.client.automator.delivery import NoVerdict, verdict_on
from conductor.client.automator.journal import AdoptedFile, Entry, Journal
from conductor.client.automator.process_deaths import DeathRecords, judge
from conductor.client.automator.reporter import too_large
from conductor.client.event.task_runner_events import TaskUpdateCompleted
from conductor.client.http.async_rest import NotFoundException
from conductor.common.backoff import Backoff
from conductor.protocol.wire import Verdict
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.automator.delivery import Delivery
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: While the server is away, the wait between two tries doubles from `FIRST_WAIT_S` up to this.
CAP_S = 120.0
#: The first wait for the results of dead processes. This process's own begin above the waits of their report.
FIRST_WAIT_S = 0.5


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
        self._waits = _Waits(FIRST_WAIT_S)
        #: Tries since the last one that got through.
        self._tries = 0
        self._adopted: list[AdoptedFile] = []

    async def run(self) -> None:
        """Adopt what dead processes left, then serve what reports give up, for ever."""
        await self.take_over(list(self._journal.adopt()))
        while True:
            entry, wait_s = await self._journal.waiting.get()
            self._waits = _Waits(wait_s)
            await self._clock.sleep(self._waits.next())
            await self._work_off(deque([entry]))

    async def take_over(self, files: list[AdoptedFile]) -> None:
        """Send what dead processes had finished, and give back what they had in hand, until all has its verdict."""
        self._adopted = files
        now_ms = self._clock.wall_ms()
        records = DeathRecords.of(self._journal)
        records.forget_old(now_ms, self._max_age_s)
        for file in files:
            for event in judge(file, records, now_ms):
                self._events.publish(event)
            if finished := [entry for entry in file.entries if entry.until_ms is None]:
                logger.info("Found %d unsent results of an ended process in %s", len(finished), file.path)
            in_hand = len(file.in_hand) + sum(entry.until_ms is not None for entry in file.entries)
            if in_hand:
                logger.warning("A worker process died with %d tasks in hand: they are given back", in_hand)
        # Reports about tasks of a dead process have an end; results do not, and are sent first.
        results = sorted((entry for file in files for entry in file.entries), key=lambda entry: entry.until_ms or 0)
        try:
            await self._work_off(
                deque([*results, *(task.hand_back(now_ms) for file in files for task in file.in_hand)])
            )
            for file in files:
                file.remove()
        finally:
            for file in files:
                file.let_go()

    async def give_back(self, reason: str) -> None:
        """Give back what this process itself has in hand: it will not finish it."""
        now_ms = self._clock.wall_ms()
        await self._work_off(deque(task.hand_back(now_ms, reason) for task in self._journal.in_hand))

    async def _work_off(self, entries: deque[Entry]) -> None:
        """Until none is left. One that the server cannot take yet goes to the end of the line.

        A result that joins the line is sent after its own wait, or as soon as another one gets through.
        """
        while entries:
            while not self._journal.waiting.empty():
                joining, wait_s = self._journal.waiting.get_nowait()
                entries.append(joining)
                if wait_s > self._waits.first_s:
                    self._waits = _Waits(wait_s)
            entry = entries.popleft()
            if self._too_old(entry):
                self._give_up(entry)
                continue
            sent_at, self._tries = self._clock.monotonic(), self._tries + 1
            try:
                verdict = await self._deliver(entry)
            except Exception as error:  # whatever it is: the others wait behind this one
                entries.append(entry)
                wait_s = self._waits.next()
                text = "Result of task %s still waits: %s; next try in %.1f s %s"
                logger.debug(text, entry.task_id, error, wait_s, _label_of(entry))
                await self._clock.sleep(wait_s)
                continue
            self._judged(entry, verdict, took_ms=(self._clock.monotonic() - sent_at) * 1000)

    def _judged(self, entry: Entry, verdict: Verdict, *, took_ms: float) -> None:
        tries, self._tries = self._tries, 0
        self._waits.reset()
        self._strike(entry)
        if entry.until_ms is not None and entry.terminal:
            text = "Task %s of a dead process is reported as %s: %s %s"
            logger.info(text, entry.task_id, entry.status, verdict, _label_of(entry))
        elif entry.until_ms is not None:
            logger.info("Unfinished task %s is given back: %s %s", entry.task_id, verdict, _label_of(entry))
        else:
            level = logging.INFO if verdict is Verdict.COMMITTED else logging.WARNING
            logger.log(level, "Kept result of task %s has its verdict: %s %s", entry.task_id, verdict, _label_of(entry))
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
        self._journal.strike(entry)
        for file in self._adopted:
            file.strike(entry)

    def _give_up(self, entry: Entry) -> None:
        self._strike(entry)
        if entry.until_ms is not None:
            logger.info("Task %s of a dead process need not be reported: its lease is over", entry.task_id)
            return
        logger.critical(
            "Result of task %s is older than %.0f s and is given up. Task result LOST for task_id=%s %s",
            entry.task_id,
            self._max_age_s,
            entry.task_id,
            _label_of(entry),
        )

    async def _deliver(self, entry: Entry) -> Verdict:
        """One try. A plain server cannot tell a late result from a fresh one, so the task is looked at first."""
        verdict = None if entry.leased else await self._look(entry)
        if verdict is not None:
            return verdict
        answer = await self._delivery.deliver(entry.body)
        if answer.too_large:
            answer = await self._delivery.deliver(too_large(entry, answer).body)
        verdict = answer.judgement
        if verdict is None:
            raise NoVerdict(answer)
        return verdict

    async def _look(self, entry: Entry) -> Verdict | None:
        try:
            return verdict_on(entry, await self._api.get_task(entry.task_id))
        except NotFoundException:
            return None  # perhaps a proxy's word: what the server says to the report itself counts

    def _too_old(self, entry: Entry) -> bool:
        now_ms = self._clock.wall_ms()
        if entry.until_ms is not None:
            return now_ms >= entry.until_ms
        return now_ms - entry.written_ms > self._max_age_s * 1000


class _Waits(Backoff):
    """The waits between the tries of one line of results. `first_s` is jittered already, if it comes from a report."""

    def __init__(self, first_s: float) -> None:
        self.first_s = max(first_s, FIRST_WAIT_S)
        super().__init__(self.first_s, max(self.first_s, CAP_S))


def _label_of(entry: Entry) -> str:
    return TaskLabel.of(entry.task_type, entry.task_id, entry.workflow_instance_id)
