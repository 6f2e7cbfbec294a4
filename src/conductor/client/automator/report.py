"""Reporting a result until there is a verdict, and never after."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import secrets
from typing import TYPE_CHECKING

import msgspec

from conductor.client.automator.answer import Answer, NoVerdict, fate_of
from conductor.client.automator.delivery import Delivery
from conductor.client.automator.journal import Entry, Journal
from conductor.client.automator.lease import Lease, Stop
from conductor.client.event.task_runner_events import TaskUpdateCompleted, TaskUpdateFailure, TaskUpdateRetried
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.wire import MAX_LOGS_PER_REPORT, Verdict, printable

if TYPE_CHECKING:
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.worker.outcome import Ending
    from conductor.clock import Clock

logger = logging.getLogger(__name__)

#: No server's Retry-After holds a slot longer than this.
MAX_RETRY_AFTER_S = 60.0
#: Waits between attempts are longer by up to this share, so that a fleet does not come back as one.
JITTER = 0.1

#: A report id is a part that no two processes share, and a number.
_process_part = secrets.token_hex(6)
os.register_at_fork(after_in_child=lambda: globals().update(_process_part=secrets.token_hex(6)))
_numbers = itertools.count(1)


class _Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """A report as it travels; the output was encoded when the function returned, and is not encoded again."""

    task_id: str
    workflow_instance_id: str
    status: str
    output_data: msgspec.Raw
    report_id: str
    worker_id: str | None = None
    reason_for_incompletion: str | None = None
    callback_after_seconds: int = 0
    logs: list[TaskExecLog] = []
    lease_id: str | None = None
    sub_workflow_id: str | None = None
    external_output_payload_storage_path: str | None = None


_encoder = msgspec.json.Encoder()


class Reporter:
    """Sends the results of one process. `send` returns when there is a verdict, or when the journal has taken over."""

    def __init__(
        self,
        api: AsyncTaskResourceApi,
        delivery: Delivery,
        journal: Journal | None,
        events: SyncEventDispatcher,
        clock: Clock,
    ) -> None:
        self._api = api
        self._delivery = delivery
        self._journal = journal
        self._events = events
        self._clock = clock
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """The process is ending: no more waits between attempts; what cannot be sent now is left to the journal."""
        self._hurry.set()

    async def send(self, ending: Ending, lease: Lease) -> Verdict | None:
        """Report until a verdict. None: all attempts failed, and the event says whether the result is on disk."""
        if lease.lost:
            return None
        long_logs = _cut_logs(ending, lease)
        report = _Report(ending, lease, self._events, self._clock)
        report.journaled = self._journal is not None and self._journal.put(report.entry)
        lease.reported_as = report.entry.status
        lease.on_stop(lambda: self._strike_if_lost(report, lease))
        await self._send_logs(long_logs, lease)
        if lease.is_over():  # meanwhile
            return self._concluded(report, Verdict.CANCELLED, True, lease.stop_reason)
        failure: Exception
        for attempt in range(1, lease.config.update_attempts + 1):
            try:
                answer = await self._delivery.deliver(report.entry.body)
                if answer.final:
                    return self._concluded(report, *await self._judge(answer, report.entry, lease), answer.message)
                failure = NoVerdict(answer)
            except (ConductorError, OSError) as error:
                failure = error
            delay_s = self._delay_s(attempt, failure, lease)
            report.failed(failure, attempt, delay_s)
            await self._make_safe(report, attempt)
            over = delay_s is None or await self._clock.wait(self._hurry, delay_s)
            if lease.stopped is Stop.LOST:  # meanwhile
                return self._concluded(report, Verdict.CANCELLED, True, lease.stop_reason)
            if over:
                break
        report.given_up(self._journal.path if self._journal else None)
        if report.journaled and self._journal is not None:
            self._journal.wait_for_redelivery(report.entry)
        return None

    def _concluded(self, report: _Report, verdict: Verdict, inferred: bool, message: str) -> Verdict:
        if self._journal is not None:
            self._journal.done(report.entry)
        report.concluded(verdict, inferred=inferred, message=message)
        return verdict

    def _strike_if_lost(self, report: _Report, lease: Lease) -> None:
        """Lost for good while an attempt is under way: should this process die now, nobody shall send it again."""
        if lease.lost and self._journal is not None:
            self._journal.done(report.entry)

    async def _make_safe(self, report: _Report, attempt: int) -> None:
        """An attempt has failed: from now on the result must survive the machine, not only the process."""
        if attempt == 1 and report.journaled and self._journal is not None:
            await self._journal.sync()

    def _delay_s(self, attempt: int, failure: Exception, lease: Lease) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        refused = isinstance(failure, NoVerdict) and failure.answer.refused
        if refused or attempt >= lease.config.update_attempts or self._hurry.is_set():
            return None
        if isinstance(failure, NoVerdict) and failure.answer.retry_after_s:
            return min(failure.answer.retry_after_s, MAX_RETRY_AFTER_S)
        return lease.config.update_retry_delay_seconds * attempt * random.uniform(1.0, 1.0 + JITTER)

    async def _judge(self, answer: Answer, entry: Entry, lease: Lease) -> tuple[Verdict, bool]:
        """The verdict, and whether we had to infer it."""
        if answer.verdict is not None:
            return answer.verdict, False
        if answer.status >= 300:
            return Verdict.REJECTED, True
        unsure = lease.config.verify_reports or self._clock.monotonic() >= lease.deadline
        if unsure and entry.terminal:
            return await self.read_back(entry), True
        return Verdict.COMMITTED, True

    async def read_back(self, entry: Entry) -> Verdict:
        """Ask a plain server what became of a report: is the task as we left it, or somebody else's?"""
        try:
            task = await self._api.get_task(entry.task_id)
        except NotFoundException:
            return Verdict.CANCELLED
        except (ConductorError, OSError) as error:
            logger.warning("Task %s could not be read back: %s", entry.task_id, error)
            return Verdict.COMMITTED
        return fate_of(entry, task) or Verdict.COMMITTED

    async def _send_logs(self, logs: list[TaskExecLog], lease: Lease) -> None:
        """One by one, before the report. They are worth a try, not more."""
        for entry in logs:
            try:
                await self._api.log(lease.task.task_id, printable(entry.log or ""))
            except (ConductorError, OSError) as error:
                logger.warning("Logs of task %s could not be sent: %s", lease.task.task_id, error)
                return


def _cut_logs(ending: Ending, lease: Lease) -> list[TaskExecLog]:
    """A plain server keeps the first ten logs of a report: leave them in it, and return the others."""
    result = ending.result
    if lease.task.lease_id is not None or len(result.logs) <= MAX_LOGS_PER_REPORT:
        return []
    result.logs, rest = result.logs[:MAX_LOGS_PER_REPORT], result.logs[MAX_LOGS_PER_REPORT:]
    return rest


class _Report:
    """One report: how it travels, how often it was sent, and its words to the world."""

    def __init__(self, ending: Ending, lease: Lease, events: SyncEventDispatcher, clock: Clock) -> None:
        self._result = ending.result
        self._events = events
        self._clock = clock
        self._started = clock.monotonic()
        self._attempts = lease.config.update_attempts
        task = lease.task
        self._about = (lease.context.task_def_name, task.task_id, lease.config.worker_id, task.workflow_instance_id)
        self.entry = _entry(ending, lease, clock.wall_ms())
        self.journaled = False
        self._failures = 0
        self._cause: Exception = ConductorError("no attempt was made")

    def failed(self, cause: Exception, attempt: int, delay_s: float | None) -> None:
        """An attempt failed."""
        self._failures, self._cause = attempt, cause
        logger.error("Failed to update task (attempt %d/%d): %s", attempt, self._attempts, cause)
        self._events.emit(TaskUpdateRetried, *self._about, cause, attempt, delay_s)

    def given_up(self, place: object) -> None:
        """All attempts failed."""
        task_id, attempts = self._about[1], self._failures
        if self.journaled:
            text = "Task update failed after %d attempts; the result of task_id=%s waits in %s and is sent again"
            logger.error(text, attempts, task_id, place)
        else:
            logger.critical("Task update failed after %d attempts. Task result LOST for task_id=%s", attempts, task_id)
        self._events.emit(
            TaskUpdateFailure, *self._about, self._cause, attempts, self._result, journaled=self.journaled
        )

    def concluded(self, verdict: Verdict, *, inferred: bool, message: str) -> None:
        """There is a verdict: the worker's last word on the task, too."""
        task_id = self._about[1]
        if verdict is Verdict.COMMITTED:
            logger.debug("Updated task %s successfully", task_id)
        elif verdict is Verdict.CANCELLED:
            logger.warning("Result of task %s was discarded (CANCELLED): %s", task_id, message)
        else:
            logger.error("Report of task %s was REJECTED and is not sent again: %s", task_id, message)
        self._events.emit(
            TaskUpdateCompleted,
            *self._about,
            verdict,
            inferred=inferred,
            attempts=self._failures + 1,
            duration_ms=(self._clock.monotonic() - self._started) * 1000,
            reason=None if verdict is Verdict.COMMITTED else message,
        )


def _entry(ending: Ending, lease: Lease, now_ms: int) -> Entry:
    """The report as it travels and as it is kept."""
    result, task = ending.result, lease.task
    report_id = f"{_process_part}-{next(_numbers)}"
    wire = _Wire(
        task_id=result.task_id,
        workflow_instance_id=result.workflow_instance_id,
        status=result.status,
        output_data=msgspec.Raw(ending.output),
        report_id=report_id,
        worker_id=result.worker_id,
        reason_for_incompletion=result.reason_for_incompletion,
        callback_after_seconds=int(result.callback_after_seconds or 0),
        logs=result.logs,
        lease_id=task.lease_id,
        sub_workflow_id=result.sub_workflow_id,
        external_output_payload_storage_path=result.external_output_payload_storage_path,
    )
    return Entry(
        report_id=report_id,
        task_id=result.task_id,
        workflow_instance_id=result.workflow_instance_id,
        task_type=lease.context.task_def_name,
        worker_id=result.worker_id,
        poll_count=task.poll_count or 0,
        status=str(result.status),
        leased=task.lease_id is not None,
        written_ms=now_ms,
        body=_encoded(wire),
    )


def _encoded(wire: _Wire) -> bytes:
    try:
        return _encoder.encode(wire)
    except UnicodeEncodeError:
        # Half a surrogate pair in a reason or a log line, as from undecodable file names: shown as an escape.
        for field, value in msgspec.structs.asdict(wire).items():
            if isinstance(value, str):
                setattr(wire, field, printable(value))
        wire.logs = [msgspec.structs.replace(line, log=printable(line.log or "")) for line in wire.logs]
        return _encoder.encode(wire)
