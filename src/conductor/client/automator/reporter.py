"""Reporting how a task ended until there is a verdict, and never after."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from conductor.client.automator.delivery import NOT_SENT, NoVerdict, ReportAnswer, verdict_on
from conductor.client.automator.journal import Entry
from conductor.client.automator.running_task import Stop
from conductor.client.event.task_runner_events import TaskUpdateCompleted, TaskUpdateFailure, TaskUpdateRetried
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.text import escape_surrogates
from conductor.protocol.wire import MAX_LOGS_PER_REPORT, MAX_REASON_CHARS, Verdict
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.automator.delivery import Delivery
    from conductor.client.automator.journal import Journal
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.http.models.task_exec_log import TaskExecLog
    from conductor.client.worker.outcome import TaskOutcome
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: No server's Retry-After holds a slot longer than this.
MAX_RETRY_AFTER_S = 60.0
#: Waits between attempts are longer by up to this share, so that a fleet does not come back as one.
JITTER = 0.1

#: A report id is a part that no two processes share, and a number.
_process_part = secrets.token_hex(6)
os.register_at_fork(after_in_child=lambda: globals().update(_process_part=secrets.token_hex(6)))
_numbers = itertools.count(1)


class Reporter:
    """Sends the reports of one process."""

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

    async def send(
        self, outcome: TaskOutcome, running: RunningTask, asks_next: Callable[[], bool] | None = None
    ) -> ReportAnswer | None:
        """Report until a verdict, or until all attempts have failed: then the journal takes over.

        Returns:
            The answer with the verdict, which may bring the next task if `asks_next` said so; None without a verdict.
        """
        if running.lost:
            if self._journal is not None:
                self._journal.put_down(running.task.task_id, running.task.poll_count)
            return None
        further_logs = _cut_logs(outcome.result) if running.task.lease_id is None and outcome.result.logs else []
        report = _Report(outcome, running, self._journal, self._events, self._clock)
        running.on_stop = self._strike_if_lost
        if running.stopped is not None:
            self._strike_if_lost(running)
        if further_logs:
            report.write()
            await self._send_logs(further_logs, running)
            if running.is_over():  # meanwhile
                report.lost()
                return None
        question = _NextTaskQuestion(asks_next)
        for attempt in range(1, running.config.update_attempts + 1):
            failure: Exception
            try:
                answer = await self._delivery.deliver(running.entry.body, running.is_ours, question.for_attempt())
                verdict = answer.verdict
                if verdict is None:
                    if answer.too_large and not (report.shrunk or running.lost):
                        report.shrink(answer)
                        answer = await self._delivery.deliver(running.entry.body, running.is_ours)
                    verdict = answer.judgement
                if answer is NOT_SENT:
                    report.lost()
                    return None
                if verdict is not None:
                    if answer.verdict is None and verdict is Verdict.COMMITTED and self._unsure(running):
                        verdict = await self._read_back(running.entry)
                    report.judged(verdict, answer.message, inferred=answer.verdict is None)
                    return answer
                failure = NoVerdict(answer)
            except Exception as error:  # whatever it is: what the task has done must not be lost
                failure = error
            delay_s = self._delay_s(attempt, failure, running)
            report.failed(failure, attempt, delay_s)
            if attempt == 1:
                await report.make_safe()
            last = delay_s is None or await self._clock.wait(self._hurry, delay_s)
            if running.stopped is Stop.LOST:  # meanwhile
                report.lost()
                return None
            if last:
                break
        report.given_up()
        return None

    def _delay_s(self, attempt: int, failure: Exception, running: RunningTask) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        answer: ReportAnswer | None = failure.answer if isinstance(failure, NoVerdict) else None
        refused = answer is not None and answer.refused
        if refused or attempt >= running.config.update_attempts or self._hurry.is_set():
            return None
        if answer is not None and answer.retry_after_s:
            return min(answer.retry_after_s, MAX_RETRY_AFTER_S)
        return _wait_s(running, attempt)

    def _strike_if_lost(self, running: RunningTask) -> None:
        """Lost for good while an attempt is under way: should this process die now, nobody shall send it again."""
        if running.lost and self._journal is not None:
            self._journal.strike_soon(running.entry)

    def _unsure(self, running: RunningTask) -> bool:
        """A plain server says yes to late reports, too: one that may have been late is looked at again."""
        late = self._clock.monotonic() >= running.deadline
        return running.entry.terminal and (late or running.config.verify_reports)

    async def _read_back(self, entry: Entry) -> Verdict:
        """Ask a plain server what became of a report: is the task as we left it, or somebody else's?"""
        try:
            task = await self._api.get_task(entry.task_id)
        except NotFoundException:
            return Verdict.CANCELLED
        except (ConductorError, OSError) as error:
            logger.warning("Task %s could not be read back: %s %s", entry.task_id, error, _label_of(entry))
            return Verdict.COMMITTED
        return verdict_on(entry, task) or Verdict.COMMITTED

    async def _send_logs(self, logs: list[TaskExecLog], running: RunningTask) -> None:
        """One by one, before the report. They are worth a try, not more."""
        for line in logs:
            try:
                await self._api.add_task_log(running.task.task_id, escape_surrogates(line.log or ""))
            except (ConductorError, OSError) as error:
                text = "Logs of task %s could not be sent: %s %s"
                logger.warning(text, running.task.task_id, error, running.label)
                return


class _NextTaskQuestion:
    """Whether the attempts of one report ask for the next task: none does after one that did not.

    The coordinator requeues the task that an earlier answer brought when the same report comes without the question. So
    an attempt without it that is delayed on its way must not find a task that a later attempt has brought.
    """

    def __init__(self, asks_next: Callable[[], bool] | None) -> None:
        self._asks_next = asks_next
        self._asked = True

    def for_attempt(self) -> Callable[[], bool] | None:
        """Return what the delivery asks when it sends the next attempt; None: that attempt does not ask."""
        asked, self._asked = self._asked, False
        return self._ask if asked else None

    def _ask(self) -> bool:
        self._asked = self._asks_next is not None and self._asks_next()
        return self._asked


def _wait_s(running: RunningTask, attempt: int) -> float:
    """Seconds to wait after a failed attempt."""
    return running.config.update_retry_delay_seconds * attempt * random.uniform(1.0, 1.0 + JITTER)


def _cut_logs(result: TaskResult) -> list[TaskExecLog]:
    """A plain server keeps the first ten logs of a report: leave them in it, and return the others."""
    result.logs, further = result.logs[:MAX_LOGS_PER_REPORT], result.logs[MAX_LOGS_PER_REPORT:]
    return further


class _Report:
    """One report: how it travels, where it is kept, how often it was sent, and its words to the world."""

    #: Whether it stands in for one that was too large.
    shrunk = False
    _failures = 0
    _cause: Exception | None = None

    def __init__(
        self,
        outcome: TaskOutcome,
        running: RunningTask,
        journal: Journal | None,
        events: SyncEventDispatcher,
        clock: Clock,
    ) -> None:
        self._running = running
        self._result = outcome.result
        self._events = events
        self._clock = clock
        self._started = clock.monotonic()
        running.entry = _entry(outcome, running, clock.wall_ms())
        running.reported_as = running.entry.status
        #: Where it is kept until its verdict, from before it is sent; None: in memory only.
        self._journal = journal
        if journal is not None:
            journal.put_soon(running.entry)

    def write(self) -> None:
        """Have it on disk now, and not only before it is sent."""
        if self._journal is not None:
            self._journal.flush()

    def shrink(self, answer: ReportAnswer) -> None:
        """It is too large for the server, which has read nothing of it: say that, in its place."""
        running, large = self._running, self._running.entry
        running.entry, self.shrunk = too_large(large, answer), True
        running.reported_as = running.entry.status
        self._result = TaskResult.decode(running.entry.body)
        logger.error("Task %s: %s", large.task_id, self._result.reason_for_incompletion)
        if self._journal is not None:
            self._journal.put_soon(running.entry)
            self._journal.strike(large)

    async def make_safe(self) -> None:
        """An attempt has failed: from now on the result must survive the machine, not only the process."""
        if self._journal is not None and self._is_kept():
            await self._journal.sync()

    def _is_kept(self) -> bool:
        """Whether it is on disk. A disk that was full when it was first written may have room by now."""
        if self._journal is None or self._running.lost:
            return False
        return self._journal.keeps(self._running.entry) or self._journal.put(self._running.entry)

    def failed(self, cause: Exception, attempt: int, delay_s: float | None) -> None:
        """An attempt failed."""
        self._failures, self._cause = attempt, cause
        text = "Failed to update task (attempt %d/%d): %s %s"
        logger.error(text, attempt, self._running.config.update_attempts, cause, self._running.label)
        self._events.emit(TaskUpdateRetried, *self._running.about, cause, attempt, delay_s)

    def given_up(self) -> None:
        """All attempts failed: what is in the journal is sent again in the background."""
        entry, attempts, label = self._running.entry, self._failures, self._running.label
        task_id, kept = entry.task_id, self._is_kept()
        cause = self._cause or ConductorError("no attempt was made")
        if self._journal is not None and kept:
            text = "Task update failed after %d attempts; the result of task_id=%s waits in %s and is sent again %s"
            logger.error(text, attempts, task_id, self._journal.path, label)
        else:
            text = "Task update failed after %d attempts. Task result LOST for task_id=%s %s"
            logger.critical(text, attempts, task_id, label)
        self._publish_failure(cause, journaled=kept)
        if self._journal is None:
            return
        if kept:
            self._journal.wait_for_redelivery(entry, _wait_s(self._running, self._running.config.update_attempts))
        else:
            self._journal.put_down(task_id, entry.poll_count)

    def lost(self) -> None:
        """Discard the result: the server has taken the task away before the report got through."""
        if self._cause is not None:
            self._publish_failure(self._cause, journaled=False)
        self.judged(Verdict.CANCELLED, self._running.stop_reason)

    def _publish_failure(self, cause: Exception, *, journaled: bool) -> None:
        about, attempts = self._running.about, self._failures
        self._events.emit(TaskUpdateFailure, *about, cause, attempts, self._result, journaled=journaled)

    def judged(self, verdict: Verdict, message: str, *, inferred: bool = True) -> None:
        """There is a verdict: the worker's last word on the task, too."""
        running = self._running
        running.on_stop = None
        if self._journal is not None:
            self._journal.strike_soon(running.entry)
        if verdict is not Verdict.COMMITTED or logger.isEnabledFor(logging.DEBUG):
            self._log(verdict, message)
        if TaskUpdateCompleted not in self._events.heard:
            return
        self._events.emit(
            TaskUpdateCompleted,
            *running.about,
            verdict,
            inferred=inferred,
            attempts=self._failures + 1,
            duration_ms=(self._clock.monotonic() - self._started) * 1000,
            reason=None if verdict is Verdict.COMMITTED else message,
        )

    def _log(self, verdict: Verdict, message: str) -> None:
        task_id, label = self._running.task.task_id, self._running.label
        if verdict is Verdict.COMMITTED:
            logger.debug("Updated task %s successfully %s", task_id, label)
        elif verdict is Verdict.CANCELLED:
            logger.warning("Result of task %s was discarded (CANCELLED): %s %s", task_id, message, label)
        else:
            logger.error("Report of task %s was REJECTED and is not sent again: %s %s", task_id, message, label)


def _label_of(entry: Entry) -> str:
    return TaskLabel.of(entry.task_type, entry.task_id, entry.workflow_instance_id)


def _entry(outcome: TaskOutcome, running: RunningTask, now_ms: int) -> Entry:
    """The report as it travels and as it is kept."""
    task, result = running.task, outcome.result
    result.report_id = _new_report_id()
    result.lease_id = task.lease_id
    result.extend_lease = False  # what a function returns is a result, never a heartbeat
    return Entry(
        report_id=result.report_id,
        task_id=result.task_id,
        workflow_instance_id=result.workflow_instance_id,
        task_type=running.about[0],
        worker_id=result.worker_id,
        poll_count=task.poll_count,
        status=str(result.status),
        leased=task.lease_id is not None,
        written_ms=now_ms,
        body=_encoded(result, outcome.output),
    )


def too_large(entry: Entry, answer: ReportAnswer) -> Entry:
    """The report in place of one that the server does not take for its size: the task has failed, for good."""
    head = _head.decode(entry.body)
    limit = "" if answer.max_body is None else f" of {answer.max_body} bytes"
    said = "" if answer.max_body is not None else f" (413: {answer.message})"
    report = TaskResult(
        task_id=entry.task_id,
        workflow_instance_id=entry.workflow_instance_id,
        worker_id=entry.worker_id,
        status=TaskResultStatus.FAILED_WITH_TERMINAL_ERROR,
        reason_for_incompletion=f"the result of {len(entry.body)} bytes is over the server's limit{limit}{said}: "
        "keep large data elsewhere and return where it is"[:MAX_REASON_CHARS],
        lease_id=head.lease_id,
        report_id=_new_report_id(),
    )
    return msgspec.structs.replace(
        entry, report_id=report.report_id, status=str(report.status), body=_encoder.encode(report)
    )


class _Head(msgspec.Struct, rename="camel"):
    """Of an encoded report, what its replacement needs; the rest is skipped."""

    lease_id: str | None = None


_head = msgspec.json.Decoder(_Head)


def _new_report_id() -> str:
    return f"{_process_part}-{next(_numbers)}"


def _encoded(result: TaskResult, output: bytes) -> bytes:
    """The output was encoded when the function returned, and is not encoded again."""
    output_data, result.output_data = result.output_data, msgspec.Raw(output)  # type: ignore[assignment]
    try:
        return _encoder.encode(result)
    except UnicodeEncodeError:
        # Half a surrogate pair in a reason or a log line, as from undecodable file names: shown as an escape.
        for field, value in msgspec.structs.asdict(result).items():
            if isinstance(value, str):
                setattr(result, field, escape_surrogates(value))
        result.logs = [msgspec.structs.replace(line, log=escape_surrogates(line.log or "")) for line in result.logs]
        return _encoder.encode(result)
    finally:
        result.output_data = output_data


_encoder = msgspec.json.Encoder()
