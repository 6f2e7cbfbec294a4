"""Sends the report about a task, with retries, until the server gives a verdict."""

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

from conductor.client.automator.delivery import NOT_SENT, NoVerdict, ReportAnswer, find_verdict
from conductor.client.automator.journal import PendingReport
from conductor.client.automator.server_probe import ServerProbe, is_unreachable
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

#: The longest Retry-After that is followed in full, because a waiting report occupies a slot.
MAX_RETRY_AFTER_S = 60.0
#: Waits between attempts are lengthened by up to this share, so that the workers of a fleet spread out.
JITTER = 0.1

#: A report id consists of a part that is unique to the process, and a number.
_process_part = secrets.token_hex(6)
os.register_at_fork(after_in_child=lambda: globals().update(_process_part=secrets.token_hex(6)))
_numbers = itertools.count(1)

_encoder = msgspec.json.Encoder()


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
        self._probe = ServerProbe(api.api_client, clock)
        self._is_stopping = False
        #: The event of each waiting report. Setting an event makes its report try again immediately.
        self._waits: set[asyncio.Event] = set()

    def hurry(self) -> None:
        """Stop waiting between attempts, because the process ends. Reports that fail now stay in the journal."""
        self._is_stopping = True
        for wait in self._waits:
            wait.set()

    async def close(self) -> None:
        """Stop probing whether the server is reachable."""
        await self._probe.close()

    async def send(
        self, outcome: TaskOutcome, running: RunningTask, may_ask_next: Callable[[], bool] | None = None
    ) -> ReportAnswer | None:
        """Send the report until there is a verdict or all attempts have failed.

        A report in the journal is then sent again by `Redelivery`.

        Args:
            outcome: How the task ended.
            running: The task.
            may_ask_next: Called for each attempt. Returns whether the attempt requests another task.

        Returns:
            The answer with the verdict; None if there is no verdict.
        """
        if running.is_lost():
            if self._journal is not None:
                self._journal.remove_task(running.task.task_id, running.task.poll_count)
            return None
        # A Conductor server stores only the first `MAX_LOGS_PER_REPORT` log lines of a report, so the other lines are
        # sent one by one before the report.
        more_logs: list[TaskExecLog] = []
        if running.task.lease_id is None and outcome.result.logs:
            logs = outcome.result.logs
            outcome.result.logs, more_logs = logs[:MAX_LOGS_PER_REPORT], logs[MAX_LOGS_PER_REPORT:]
        report = running.report = _make_report(outcome, running, self._clock.wall_ms())
        if self._journal is not None:
            self._journal.add_soon(report)
        attempts = _ReportAttempts(outcome.result, running, self._journal, self._events, self._clock)
        if more_logs:
            if self._journal is not None:
                self._journal.flush()
            await self._send_logs(more_logs, running)
            if running.is_over():  # the lease has ended while the lines were sent
                attempts.on_lost()
                return None
        asked_before = True

        def ask() -> bool:
            nonlocal asked_before
            asked_before = may_ask_next is not None and may_ask_next()
            return asked_before

        for attempt in range(1, running.config.update_attempts + 1):
            failure: Exception
            try:
                # After an attempt that did not request the next task, no attempt does. When a report arrives again
                # without the request, the coordinator requeues the task that it has granted for this report. A delayed
                # attempt without the request would therefore take away the task of a later attempt.
                may_ask, asked_before = asked_before, False
                answer = await self._delivery.deliver(report.body, running.is_ours, ask if may_ask else None)
                if answer.verdict is None and answer.is_too_large and not (attempts.is_replaced or running.is_lost()):
                    report = running.report = attempts.replace(report, make_too_large_report(report, answer))
                    answer = await self._delivery.deliver(report.body, running.is_ours)
                elif answer.verdict is Verdict.REJECTED and attempts.is_suspension:
                    # For example, a step starts a workflow, which the worker's key does not permit. Report a failure
                    # instead. Otherwise the task stays open until its lease ends, and the next attempt is rejected
                    # again.
                    report = running.report = attempts.replace(report, make_failed_report(report, answer.message))
                    answer = await self._delivery.deliver(report.body, running.is_ours)
                if answer is NOT_SENT:
                    attempts.on_lost()
                    return None
                verdict = answer.judgement
                if verdict is not None:
                    if answer.verdict is None and verdict is Verdict.COMMITTED and self._is_unsure(running, report):
                        verdict = await self._read_back(report)
                    attempts.on_verdict(verdict, answer.message, inferred=answer.verdict is None)
                    return answer
                failure = NoVerdict(answer)
            except Exception as error:  # catch all errors: without another attempt the result would be lost
                failure = error
            delay_s = self._next_delay_s(attempt, failure, running)
            attempts.on_failure(failure, attempt, delay_s)
            if attempt == 1:
                await attempts.sync()
            is_last = delay_s is None or await self._wait(delay_s, attempt, failure)
            if running.is_lost():  # the lease was lost during the wait
                attempts.on_lost()
                return None
            if is_last:
                break
        attempts.give_up(_backoff_s(running, running.config.update_attempts))
        return None

    def on_stop(self, running: RunningTask) -> None:
        """Remove the report of a task whose lease was lost while the report was sent, so that no process resends it."""
        if running.is_lost() and running.report is not None and self._journal is not None:
            self._journal.remove_soon(running.report)

    def _next_delay_s(self, attempt: int, failure: Exception, running: RunningTask) -> float | None:
        """Return the seconds until the next attempt; None if no other attempt is made."""
        answer: ReportAnswer | None = failure.answer if isinstance(failure, NoVerdict) else None
        is_unauthorized = answer is not None and answer.is_unauthorized
        if is_unauthorized or attempt >= running.config.update_attempts or self._is_stopping:
            return None
        if answer is not None and answer.retry_after_s:
            return min(answer.retry_after_s, MAX_RETRY_AFTER_S)
        return _backoff_s(running, attempt)

    async def _wait(self, delay_s: float, attempt: int, failure: Exception) -> bool:
        """Wait for the next attempt. Return True if the process is ending.

        The second attempt is made earlier if the server was unreachable and is reachable again. Later attempts keep
        their waits, so that a server that starts and fails again and again does not use up all attempts at once.
        """
        wait = asyncio.Event()
        self._waits.add(wait)
        try:
            if attempt == 1 and is_unreachable(failure):
                self._probe.watch(wait)
            if not self._is_stopping:
                await self._clock.wait(wait, delay_s)
        finally:
            self._waits.discard(wait)
            self._probe.unwatch(wait)
        return self._is_stopping

    def _is_unsure(self, running: RunningTask, report: PendingReport) -> bool:
        """Return whether the task must be read back, because a Conductor server does not reject late reports."""
        is_late = self._clock.monotonic() >= running.deadline
        return report.terminal and (is_late or running.config.verify_reports)

    async def _read_back(self, report: PendingReport) -> Verdict:
        """Read the task from a Conductor server, and return the verdict on the report that its state implies."""
        try:
            task = await self._api.get_task(report.task_id)
        except NotFoundException:
            return Verdict.CANCELLED
        except (ConductorError, OSError) as error:
            label = TaskLabel.of(report.task_type, report.task_id, report.workflow_instance_id)
            logger.warning(
                "Task could not be read to verify its report, so the report counts as committed: %s %s", error, label
            )
            return Verdict.COMMITTED
        return find_verdict(report, task) or Verdict.COMMITTED

    async def _send_logs(self, logs: list[TaskExecLog], running: RunningTask) -> None:
        """Send log lines one by one, each with one attempt."""
        for line in logs:
            try:
                await self._api.add_task_log(running.task.task_id, escape_surrogates(line.log or ""))
            except (ConductorError, OSError) as error:
                logger.warning("Logs of the task could not be sent: %s %s", error, running.label)
                return


def _backoff_s(running: RunningTask, attempt: int) -> float:
    return running.config.update_retry_delay_seconds * attempt * random.uniform(1.0, 1.0 + JITTER)


class _ReportAttempts:
    """Records the attempts to send one report: in the journal, in log lines and in events."""

    def __init__(
        self,
        result: TaskResult,
        running: RunningTask,
        journal: Journal | None,
        events: SyncEventDispatcher,
        clock: Clock,
    ) -> None:
        self._running = running
        self._result = result
        self._journal = journal
        self._events = events
        self._clock = clock
        self._started = clock.monotonic()
        self._failures = 0
        self._error: Exception | None = None
        #: Whether the report has replaced one that the server did not accept.
        self.is_replaced = False

    @property
    def _report(self) -> PendingReport:
        assert self._running.report is not None  # noqa: S101
        return self._running.report

    @property
    def is_suspension(self) -> bool:
        """Whether the report suspends the task until one of its durable steps stops waiting."""
        return bool(self._result.suspended)

    def replace(self, report: PendingReport, small: PendingReport) -> PendingReport:
        """Replace a report that the server does not accept with one that fails the task. Return the new report."""
        self.is_replaced = True
        self._result = TaskResult.decode(small.body)
        logger.error("Task %s: %s", report.task_id, self._result.reason_for_incompletion)
        if self._journal is not None:
            self._journal.add_soon(small)
            self._journal.remove(report)
        return small

    async def sync(self) -> None:
        """Sync the report to disk after a failed attempt, so that it also survives a failure of the machine."""
        if self._journal is not None and self._ensure_journaled():
            await self._journal.sync()

    def _ensure_journaled(self) -> bool:
        """Return whether the report is on disk. Add it if the disk was full before and has room now."""
        if self._journal is None or self._running.is_lost():
            return False
        return self._journal.has(self._report) or self._journal.add(self._report)

    def on_failure(self, error: Exception, attempt: int, delay_s: float | None) -> None:
        """Log a failed attempt, and publish an event."""
        self._failures, self._error = attempt, error
        text = "Failed to update task (attempt %d/%d): %s %s"
        logger.error(text, attempt, self._running.config.update_attempts, error, self._running.label)
        self._events.emit(TaskUpdateRetried, *self._running.about, error, attempt, delay_s)

    def give_up(self, wait_s: float) -> None:
        """Publish that all attempts failed. A report in the journal is sent again in the background, after `wait_s`."""
        report, attempts, label = self._report, self._failures, self._running.label
        is_journaled = self._ensure_journaled()
        if self._journal is not None and is_journaled:
            text = "Task update failed after %d attempts; the result waits in %s and is sent again %s"
            logger.error(text, attempts, self._journal.path, label)
        else:
            text = "Task update failed after %d attempts. Task result LOST for task_id=%s %s"
            logger.critical(text, attempts, report.task_id, label)
        self._publish_failure(self._error or ConductorError("no attempt was made"), journaled=is_journaled)
        if self._journal is None:
            return
        if is_journaled:
            self._journal.redeliver(report, wait_s)
        else:
            self._journal.remove_task(report.task_id, report.poll_count)

    def on_lost(self) -> None:
        """Discard the result, because the lease was lost before the report arrived."""
        if self._error is not None:
            self._publish_failure(self._error, journaled=False)
        self.on_verdict(Verdict.CANCELLED, self._running.stop_reason)

    def _publish_failure(self, error: Exception, *, journaled: bool) -> None:
        about, attempts = self._running.about, self._failures
        self._events.emit(TaskUpdateFailure, *about, error, attempts, self._result, journaled=journaled)

    def on_verdict(self, verdict: Verdict, message: str, *, inferred: bool = True) -> None:
        """Remove the report from the journal, and publish the verdict."""
        if self._journal is not None:
            self._journal.remove_soon(self._report)
        running = self._running
        if verdict is Verdict.CANCELLED:
            logger.warning("Result was discarded (CANCELLED): %s %s", message, running.label)
        elif verdict is Verdict.REJECTED:
            logger.error("Report was REJECTED and is not sent again: %s %s", message, running.label)
        elif logger.isEnabledFor(logging.DEBUG):
            logger.debug("Updated task %s successfully %s", running.task.task_id, running.label)
        self._events.emit(
            TaskUpdateCompleted,
            *running.about,
            verdict,
            inferred=inferred,
            attempts=self._failures + 1,
            duration_ms=(self._clock.monotonic() - self._started) * 1000,
            reason=None if verdict is Verdict.COMMITTED else message,
        )


def _make_report(outcome: TaskOutcome, running: RunningTask, now_ms: int) -> PendingReport:
    task, result = running.task, outcome.result
    result.report_id = _new_report_id()
    result.lease_id = task.lease_id
    result.extend_lease = False  # a result that the user's function made must not count as a heartbeat
    return PendingReport(
        report_id=result.report_id,
        task_id=result.task_id,
        workflow_instance_id=result.workflow_instance_id,
        task_type=running.about[0],
        worker_id=result.worker_id,
        poll_count=task.poll_count,
        status=str(result.status),
        leased=task.lease_id is not None,
        written_ms=now_ms,
        body=_encode(result, outcome.output),
    )


def _encode(result: TaskResult, output: bytes) -> bytes:
    """Encode a result. Its output was encoded when the function returned."""
    output_data, result.output_data = result.output_data, msgspec.Raw(output)  # type: ignore[assignment]
    try:
        return _encoder.encode(result)
    except UnicodeEncodeError:
        # A reason or a log line contains a lone surrogate, for example from an undecodable file name. Escape it.
        for field, value in msgspec.structs.asdict(result).items():
            if isinstance(value, str):
                setattr(result, field, escape_surrogates(value))
        result.logs = [msgspec.structs.replace(line, log=escape_surrogates(line.log or "")) for line in result.logs]
        return _encoder.encode(result)
    finally:
        result.output_data = output_data


class _LeaseOfReport(msgspec.Struct, rename="camel"):
    lease_id: str | None = None


_lease_decoder = msgspec.json.Decoder(_LeaseOfReport)


def make_too_large_report(report: PendingReport, answer: ReportAnswer) -> PendingReport:
    """Return the replacement for a report that is too large for the server: the task fails with a terminal error."""
    limit = "" if answer.max_body is None else f" of {answer.max_body} bytes"
    message = "" if answer.max_body is not None else f" (413: {answer.message})"
    return make_failed_report(
        report,
        f"the result of {len(report.body)} bytes is over the server's limit{limit}{message}: "
        "store large data elsewhere and return a reference to it",
    )


def make_failed_report(report: PendingReport, reason: str) -> PendingReport:
    """Return the replacement for a report that the server does not accept: the task fails with a terminal error."""
    result = TaskResult(
        task_id=report.task_id,
        workflow_instance_id=report.workflow_instance_id,
        worker_id=report.worker_id,
        status=TaskResultStatus.FAILED_WITH_TERMINAL_ERROR,
        reason_for_incompletion=reason[:MAX_REASON_CHARS],
        lease_id=_lease_decoder.decode(report.body).lease_id,
        report_id=_new_report_id(),
    )
    return msgspec.structs.replace(
        report, report_id=result.report_id, status=str(result.status), body=_encoder.encode(result)
    )


def _new_report_id() -> str:
    return f"{_process_part}-{next(_numbers)}"
