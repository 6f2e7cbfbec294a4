"""Retries reports that could not be delivered: those of this process, and those of dead processes.

The reports of a dead process are sent first; then the tasks that it held are requeued, so that other workers execute
them at once. A task that `process_deaths` blames for the death is reported as decided there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from typing import TYPE_CHECKING

from conductor.client.automator.adopted_journal import AdoptedJournal, adopt_files
from conductor.client.automator.delivery import NoVerdict, find_verdict
from conductor.client.automator.journal import Journal, PendingReport
from conductor.client.automator.process_deaths import DeathRecords, judge
from conductor.client.automator.reporter import make_too_large_report
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

#: The first wait between two attempts for reports of dead processes. Reports of this process begin with the longer wait
#: that `Reporter` gives them.
FIRST_WAIT_S = 0.5
#: How often a process looks for journals of processes that have ended since its start.
ADOPT_EVERY_S = 20.0
#: While the server is unreachable, the wait between two attempts doubles up to this time.
MAX_WAIT_S = 120.0


class Redelivery:
    """Sends the reports of the journal in the background until each has its verdict or is too old."""

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
        #: The number of attempts since the last successful one.
        self._attempts = 0
        self._adopted: list[AdoptedJournal] = []

    def count_reports(self) -> Counter[str]:
        """Return the number of reports without a verdict by task type, in this journal and in adopted journals."""
        adopted = Counter(report.task_type for file in self._adopted for report in file.reports)
        return self._journal.count_reports() + adopted

    async def run(self) -> None:
        """Take over the journals of dead processes, then send the reports that `Reporter` gives up.

        A process that ends later, for example the predecessor in a rolling restart, may leave a journal too. So the
        directory is searched again every `ADOPT_EVERY_S` seconds.
        """
        await self.take_over(list(adopt_files(self._journal)))
        await asyncio.gather(self._send_undelivered(), self._adopt_periodically())

    async def _send_undelivered(self) -> None:
        while True:
            report, wait_s = await self._journal.undelivered.get()
            self._waits = _Waits(wait_s)
            await self._clock.sleep(self._waits.next())
            await self._send_all(deque([report]))

    async def _adopt_periodically(self) -> None:
        while True:
            await asyncio.sleep(ADOPT_EVERY_S)  # real time: other processes do not follow a test's clock
            if files := list(adopt_files(self._journal)):
                await self.take_over(files)

    async def take_over(self, files: list[AdoptedJournal]) -> None:
        """Send the reports of dead processes and requeue their tasks, until each has its verdict."""
        self._adopted = files
        now_ms = self._clock.wall_ms()
        records = DeathRecords.of(self._journal)
        records.forget_old(now_ms, self._max_age_s)
        for file in files:
            for event in judge(file, records, now_ms):
                self._events.publish(event)
            if results := [report for report in file.reports if report.until_ms is None]:
                logger.info("Found %d unsent results of an ended process in %s", len(results), file.path)
            unfinished = len(file.tasks) + len(file.reports) - len(results)
            if unfinished:
                logger.warning("A worker process died: unfinished_tasks=%d", unfinished)
        # Results come first. Reports about unfinished tasks follow in the order of `until_ms`, when they become
        # useless.
        reports = sorted((report for file in files for report in file.reports), key=lambda report: report.until_ms or 0)
        requeues = [task.make_requeue_report(now_ms) for file in files for task in file.tasks]
        try:
            await self._send_all(deque([*reports, *requeues]))
            for file in files:
                file.remove_file()
        finally:
            for file in files:
                file.close_file()

    async def requeue_held_tasks(self, reason: str) -> None:
        """Requeue the tasks that this process holds, because it will not finish them."""
        now_ms = self._clock.wall_ms()
        await self._send_all(deque(task.make_requeue_report(now_ms, reason) for task in self._journal.held_tasks))

    async def _send_all(self, queue: deque[PendingReport]) -> None:
        """Send reports until the queue is empty. A report that fails goes to the end of the queue.

        A report that `Reporter` gives up meanwhile joins the queue. Waits after failures are then at least as long as
        the wait that `Reporter` gave to this report.
        """
        while queue:
            while not self._journal.undelivered.empty():
                new, wait_s = self._journal.undelivered.get_nowait()
                queue.append(new)
                if wait_s > self._waits.first_s:
                    self._waits = _Waits(wait_s)
            report = queue.popleft()
            if self._is_too_old(report):
                self._discard(report)
                continue
            sent_at, self._attempts = self._clock.monotonic(), self._attempts + 1
            try:
                verdict = await self._deliver(report)
            except Exception as error:  # catch all errors, because the other reports must still be sent
                queue.append(report)
                wait_s = self._waits.next()
                logger.debug("Result could not be sent: %s; next attempt in %.1f s %s", error, wait_s, _label(report))
                await self._clock.sleep(wait_s)
                continue
            self._on_verdict(report, verdict, took_ms=(self._clock.monotonic() - sent_at) * 1000)

    def _is_too_old(self, report: PendingReport) -> bool:
        now_ms = self._clock.wall_ms()
        if report.until_ms is not None:
            return now_ms >= report.until_ms
        return now_ms - report.written_ms > self._max_age_s * 1000

    def _discard(self, report: PendingReport) -> None:
        self._remove(report)
        if report.until_ms is not None:
            logger.info("Task of a dead process is not reported: its lease has expired %s", _label(report))
            return
        logger.critical(
            "Result is older than %.0f s and is given up. Task result LOST for task_id=%s %s",
            self._max_age_s,
            report.task_id,
            _label(report),
        )

    async def _deliver(self, report: PendingReport) -> Verdict:
        """Send a report once, and return its verdict.

        A Conductor server does not reject late results. So for a task without a lease, read the task first: if the
        worker no longer holds the task, the state of the task gives the verdict, and the report is not sent.
        """
        if not report.leased:
            try:
                verdict = find_verdict(report, await self._api.get_task(report.task_id))
                if verdict is not None:
                    return verdict
            except NotFoundException:
                pass  # a proxy may have sent this status, so send the report, too
        answer = await self._delivery.deliver(report.body)
        if answer.is_too_large:
            answer = await self._delivery.deliver(make_too_large_report(report, answer).body)
        verdict = answer.judgement
        if verdict is None:
            raise NoVerdict(answer)
        return verdict

    def _on_verdict(self, report: PendingReport, verdict: Verdict, *, took_ms: float) -> None:
        attempts, self._attempts = self._attempts, 0
        self._waits.reset()
        self._remove(report)
        if report.until_ms is not None and report.terminal:
            logger.info("Task of a dead process is reported as %s: %s %s", report.status, verdict, _label(report))
        elif report.until_ms is not None:
            logger.info("Unfinished task is requeued: %s %s", verdict, _label(report))
        else:
            level = logging.INFO if verdict is Verdict.COMMITTED else logging.WARNING
            logger.log(level, "Result in the journal has its verdict: %s %s", verdict, _label(report))
        self._events.emit(
            TaskUpdateCompleted,
            report.task_type,
            report.task_id,
            report.worker_id or "",
            report.workflow_instance_id,
            verdict,
            inferred=not report.leased,
            attempts=attempts,
            duration_ms=took_ms,
        )

    def _remove(self, report: PendingReport) -> None:
        self._journal.remove(report)
        for file in self._adopted:
            file.remove(report)


class _Waits(Backoff):
    """The waits between attempts. No jitter is added, because the `first_s` of a report already has it."""

    def __init__(self, first_s: float) -> None:
        self.first_s = max(first_s, FIRST_WAIT_S)
        super().__init__(self.first_s, max(self.first_s, MAX_WAIT_S))


def _label(report: PendingReport) -> str:
    return TaskLabel.of(report.task_type, report.task_id, report.workflow_instance_id)
