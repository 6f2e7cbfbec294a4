"""Sends reports, alone or in batches per tick of the event loop, and reads the server's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from conductor.client.http.api.async_task_resource_api import UnreadableTask, decode_tasks, read_max_body
from conductor.client.http.async_rest import AnswerTooLarge, ConductorError, ConnectionLost, MalformedAnswer, Response
from conductor.client.http.errors import UNREADABLE, describe_web_page
from conductor.client.http.models.task import Task
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.wire import NEXT_TASK, VERDICT_HEADER, Verdict

if TYPE_CHECKING:
    from conductor.client.automator.journal import PendingReport
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.common.clock import Clock

#: The largest number of report requests in flight. Reports that become ready during these requests share the next one.
MAX_IN_FLIGHT = 2
#: A report that has waited this long is sent even if `MAX_IN_FLIGHT` requests are in flight.
MAX_WAIT_S = 0.05
#: The most reports in one request, and the most bytes.
MAX_BATCH = 100
MAX_BATCH_BYTES = 1_000_000

#: Statuses after which a report is sent again. Other statuses below 500 are final.
_RETRIED = frozenset({408, 429})
#: The status of a report that the server did not read because of its size. This status is not a verdict.
_TOO_LARGE = 413
#: Statuses of rejected credentials. The HTTP client has already renewed the token once, so another attempt soon after
#: does not help.
_UNAUTHORIZED = frozenset({401, 403})

#: A longer message of a server is cut to this number of characters.
MAX_MESSAGE = 500


class ReportAnswer(NamedTuple):
    """A server's answer to a report. A Conductor server sends no verdict, so `verdict` is None."""

    status: int
    verdict: Verdict | None
    message: str
    retry_after_s: float | None = None
    #: Whether the answer has an unknown verdict or is a web page, which neither a Conductor server nor a coordinator
    #: sends.
    is_malformed: bool = False
    #: The largest body that the server accepts, in bytes; None if the answer does not say.
    max_body: int | None = None
    #: The next task, if the answer contains one. Its lease begins at `sent_at`, when the report was sent.
    next_task: Task | UnreadableTask | None = None
    sent_at: float = 0.0

    @property
    def judgement(self) -> Verdict | None:
        """The server's verdict, or the one that its HTTP status implies; None if the report must be sent again."""
        if self.verdict is not None:
            return self.verdict
        if self.is_malformed or self.status >= 500 or self.status in _RETRIED or self.is_unauthorized:
            return None
        return Verdict.COMMITTED if self.status < 300 else Verdict.REJECTED

    @property
    def is_too_large(self) -> bool:
        """Whether the server did not read the report because of its size."""
        return self.status == _TOO_LARGE and self.verdict is None

    @property
    def is_unauthorized(self) -> bool:
        """Whether the server did not accept the credentials."""
        return self.status in _UNAUTHORIZED


#: The answer to a report whose task was lost before the report could be sent.
NOT_SENT = ReportAnswer(409, Verdict.CANCELLED, "the lease was lost before the report could be sent")


class NoVerdict(ConductorError):
    """The server's answer neither contains nor implies a verdict, so the report must be sent again."""

    def __init__(self, answer: ReportAnswer) -> None:
        super().__init__(f"the server answered {answer.status}: {answer.message}")
        self.answer = answer


class _QueuedReport(NamedTuple):
    body: bytes
    answer: asyncio.Future[ReportAnswer]
    wanted: Callable[[], bool] | None
    may_ask_next: Callable[[], bool] | None
    context: Context

    def is_wanted(self) -> bool:
        """Return False if the task was lost, so that its report must not be sent."""
        return self.wanted is None or self.wanted()


class Delivery:
    """Makes one attempt to send an encoded report. The caller decides what to do with the answer."""

    def __init__(self, api: AsyncTaskResourceApi, clock: Clock, before: Callable[[], None] = lambda: None) -> None:
        self._api = api
        self._clock = clock
        #: Called before each request, to flush the journal.
        self._before = before
        #: Whether the server accepts arrays of reports.
        self.takes_batches = False
        #: Whether a report may request the next task.
        self.brings_next = False
        #: The largest body that the server accepts, in bytes; None if it is unknown.
        self.max_body: int | None = None
        self._queue: list[_QueuedReport] = []
        #: Whether `_end_tick` is scheduled.
        self._ticking = False
        #: Sends the queued reports after `MAX_WAIT_S`.
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: set[asyncio.Task[None]] = set()

    async def deliver(
        self, body: bytes, wanted: Callable[[], bool] | None = None, may_ask_next: Callable[[], bool] | None = None
    ) -> ReportAnswer:
        """Send one report and return the answer. If the server accepts arrays, all reports of a tick share a request.

        Args:
            body: The encoded report. It is not sent if it is larger than the server accepts.
            wanted: Returns False if the report must not be sent any more. Called before a queued report is sent, and
                before it is sent again on a new connection.
            may_ask_next: Called when the report is sent. Returns whether the report requests another task.
        """
        if self.max_body is not None and len(body) > self.max_body:
            return ReportAnswer(_TOO_LARGE, None, "not sent", max_body=self.max_body)
        if not self.takes_batches:
            self._before()
            return await self._send_alone(body, wanted)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ReportAnswer] = loop.create_future()
        if not self._ticking:
            self._ticking = True
            loop.call_soon(self._end_tick)
        self._queue.append(_QueuedReport(body, answer, wanted, may_ask_next, copy_context()))
        return await answer

    async def _send_alone(self, body: bytes, wanted: Callable[[], bool] | None) -> ReportAnswer:
        answer = read_answer(await self._api.send_report(body, wanted=wanted))
        if answer.max_body is not None:
            self.max_body = answer.max_body
        return answer

    def _end_tick(self) -> None:
        """Send the queued reports now.

        If `MAX_IN_FLIGHT` requests are in flight, wait up to `MAX_WAIT_S` for an answer.
        """
        self._ticking = False
        self._before()
        if len(self._in_flight) < MAX_IN_FLIGHT:
            self._send_queue()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_WAIT_S, self._send_queue)

    def _send_queue(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        queue, self._queue = self._queue, []
        max_bytes = MAX_BATCH_BYTES if self.max_body is None else min(MAX_BATCH_BYTES, self.max_body)
        for batch in _split(queue, max_bytes):
            # The request runs in the context of the first report, so that it belongs to the trace of that report.
            sending = asyncio.get_running_loop().create_task(self._send_batch(batch), context=batch[0].context)
            self._in_flight.add(sending)
            sending.add_done_callback(self._on_answered)

    def _on_answered(self, sending: asyncio.Task[None]) -> None:
        self._in_flight.discard(sending)
        if self._queue and not self._ticking:
            self._send_queue()

    async def _send_batch(self, reports: list[_QueuedReport]) -> None:
        """Send many reports in one request, and set the answer of each report.

        If the request fails, set its error for all of them.
        """
        asking: list[_QueuedReport] = []
        others: list[_QueuedReport] = []
        for report in reports:
            if not report.is_wanted():
                if not report.answer.done():
                    report.answer.set_result(NOT_SENT)
            elif self.brings_next and report.may_ask_next is not None and report.may_ask_next():
                asking.append(report)
            else:
                others.append(report)
        batch = asking + others  # the server grants next tasks to the first reports of a batch
        if not batch:
            return
        failure: Exception = ConnectionLost("the request with the reports was interrupted")
        try:
            for report, answer in zip(batch, await self._request(batch, len(asking)), strict=True):
                if not report.answer.done():
                    report.answer.set_result(answer)
        except Exception as error:  # every caller must be answered, or it would hold its slot forever
            failure = error
        finally:
            for report in batch:
                if not report.answer.done():
                    report.answer.set_exception(failure)

    async def _request(self, batch: list[_QueuedReport], next_tasks: int) -> list[ReportAnswer]:
        if len(batch) > 1 or next_tasks:
            body = b"[" + b",".join([report.body for report in batch]) + b"]"
            send = partial(self._api.send_reports, body, wanted=lambda: all(report.is_wanted() for report in batch))
            sent_at = self._clock.monotonic()
            try:
                response = await send(next_tasks=next_tasks)
            except AnswerTooLarge:
                if not next_tasks:
                    raise
                response = await send()  # no next tasks: the coordinator requeues the tasks that it has just granted
            if response.status == 200:
                return read_answers(response, len(batch), sent_at)
            answer = read_answer(response)
            if answer.judgement is None:
                return [answer] * len(batch)
            # The server rejected the batch as a whole: it is too large, or one report is malformed. Send each report
            # alone.
        return [
            await self._send_alone(report.body, report.wanted) if report.is_wanted() else NOT_SENT for report in batch
        ]


def _split(queue: list[_QueuedReport], max_bytes: int) -> Iterator[list[_QueuedReport]]:
    """Split the queue into batches that the server accepts."""
    batch: list[_QueuedReport] = []
    size = 1  # the closing bracket; each report adds a bracket or comma
    for report in queue:
        if batch and (len(batch) >= MAX_BATCH or size + len(report.body) + 1 > max_bytes):
            yield batch
            batch, size = [], 1
        batch.append(report)
        size += len(report.body) + 1
    if batch:
        yield batch


class _AnswerBody(msgspec.Struct):
    """The body of an error, or one element of the answer to a batch."""

    status: int = 0
    verdict: str | None = None
    message: str | None = None
    #: The next task, undecoded. An unreadable task must not affect the verdict, so the task is decoded separately.
    next_task: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name=NEXT_TASK)


_decoder = msgspec.json.Decoder(_AnswerBody)
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def read_answer(response: Response) -> ReportAnswer:
    """Return the answer to one report, with the verdict from its headers or its body."""
    status = response.status
    word = response.headers.get(VERDICT_HEADER.lower())
    verdict = _find_verdict(word)
    if word and verdict is None:
        return ReportAnswer(status, None, f"{VERDICT_HEADER}: {_quote(word)}", is_malformed=True)
    if status < 300:
        page = describe_web_page(response) if verdict is None and response.body else None
        return ReportAnswer(status, verdict, page or "", is_malformed=page is not None)
    message = response.body[:MAX_MESSAGE].decode("utf-8", "replace") or f"status {status} with an empty body"
    try:
        body = _decoder.decode(response.body)
        message, verdict = body.message or message, verdict or _find_verdict(body.verdict)
    except UNREADABLE:
        pass
    retry_after_s, max_body = _read_retry_after(response.headers), read_max_body(response)
    return ReportAnswer(status, verdict, _quote(message), retry_after_s, max_body=max_body)


def read_answers(response: Response, expected: int, sent_at: float = 0.0) -> list[ReportAnswer]:
    """Return one answer per report of a batch, in the same order. A malformed answer does not affect the others."""
    try:
        answers = [_read_batch_answer(raw, sent_at) for raw in _list_decoder.decode(response.body)]
    except UNREADABLE as error:
        raise MalformedAnswer(f"the answer to a batch of reports cannot be read: {escape(str(error))}") from None
    if len(answers) != expected:
        raise MalformedAnswer(f"{expected} reports were sent and {len(answers)} were answered")
    return answers


def _read_batch_answer(raw: msgspec.Raw, sent_at: float) -> ReportAnswer:
    try:
        body = _decoder.decode(raw)
    except UNREADABLE as error:
        return ReportAnswer(200, None, f"the verdict cannot be read: {escape(str(error))}", is_malformed=True)
    verdict, message = _find_verdict(body.verdict), _quote(body.message or "")
    if verdict is None:
        message = message or f"no verdict: {_quote(str(body.verdict))}"
        return ReportAnswer(body.status, None, message, is_malformed=True)
    has_task = bytes(body.next_task) not in (b"", b"null")
    tasks, unreadable = decode_tasks([body.next_task] if has_task else [])
    next_task: Task | UnreadableTask | None = tasks[0] if tasks else unreadable[0] if unreadable else None
    return ReportAnswer(body.status or 200, verdict, message, next_task=next_task, sent_at=sent_at)


def _find_verdict(word: str | None) -> Verdict | None:
    try:
        return None if word is None else Verdict(word.strip().upper())
    except ValueError:
        return None


def _quote(text: str) -> str:
    return escape(text[:MAX_MESSAGE])


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def find_loss(task: Task, *, worker_id: str | None, poll_count: int, reported_as: str | None) -> str | None:
    """Return why this worker no longer holds a task on a Conductor server; None if it does.

    In doubt, the task counts as lost.

    Args:
        task: The task as the server has it.
        worker_id: The id of this worker.
        poll_count: The poll count of the delivery that this worker received.
        reported_as: The status in this worker's report; None without a report.
    """
    # A delivered task is IN_PROGRESS. A SCHEDULED task waits to be polled, and another worker may execute it. So
    # this worker must stop its work, unless the worker's own report has requeued the task.
    is_not_running = task.status in TERMINAL_TASK_STATUSES or task.status == "SCHEDULED"
    if is_not_running and task.status != _status_after(reported_as):
        return f"the server has the task as {_quote(task.status)}"
    if task.worker_id and task.worker_id != worker_id:
        return f"the task is held by worker {_quote(task.worker_id)}"
    return "the task was delivered again" if task.poll_count != poll_count else None


def find_verdict(report: PendingReport, task: Task) -> Verdict | None:
    """Infer the verdict on a report from the task on a Conductor server; None if this worker still holds the task."""
    loss = find_loss(task, worker_id=report.worker_id, poll_count=report.poll_count, reported_as=report.status)
    if loss is not None:
        return Verdict.CANCELLED
    return Verdict.COMMITTED if task.status == _status_after(report.status) else None


def _status_after(reported_as: str | None) -> str | None:
    """Return the status that a Conductor server gives a task after this report. IN_PROGRESS becomes SCHEDULED."""
    return "SCHEDULED" if reported_as == "IN_PROGRESS" else reported_as
