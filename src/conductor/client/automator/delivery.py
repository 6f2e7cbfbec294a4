"""Carrying reports to the server, alone or together with those of the same tick, and reading what it says to them."""

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
    from conductor.client.automator.journal import Entry
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.common.clock import Clock

#: Requests with reports under way, at most: what ends meanwhile travels together in the next. A lone one never waits.
MOST_UNDER_WAY = 2
#: But no report waits longer than this for the requests before it.
LONGEST_WAIT_S = 0.05
#: Reports in one request, at most, and their bytes.
MAX_BATCH = 100
MAX_BATCH_BYTES = 1_000_000

#: Answers after which a report is sent again; everything else below 500 is final.
_RETRIED = frozenset({408, 429})
#: The server did not read the report, for it is too large. It says nothing about the task.
_TOO_LARGE = 413
#: Refusals: the token has been renewed once already, so waiting a few seconds changes nothing.
_REFUSED = frozenset({401, 403})

#: Of what a server says about a report, this much is kept.
MAX_MESSAGE = 500

_VERDICT = VERDICT_HEADER.lower()
_VERDICTS: dict[str | None, Verdict] = {verdict.value: verdict for verdict in Verdict}


class ReportAnswer(NamedTuple):
    """What a server said to a report. No verdict of its own: a plain server, or none that understood."""

    status: int
    verdict: Verdict | None
    message: str
    retry_after_s: float | None = None
    #: The answer is none that a server gives to a report: a word that is no verdict, a web page.
    nonsense: bool = False
    #: The largest body the server takes, where it says so.
    max_body: int | None = None
    #: The task that came with the answer, and when the request was sent: its lease counts from then.
    next_task: Task | UnreadableTask | None = None
    sent_at: float = 0.0

    @property
    def judgement(self) -> Verdict | None:
        """The verdict, or what a plain server's status means for the report; None: it is to be sent again."""
        if self.verdict is not None:
            return self.verdict
        if self.nonsense or self.status >= 500 or self.status in _RETRIED or self.refused:
            return None
        return Verdict.COMMITTED if self.status < 300 else Verdict.REJECTED

    @property
    def too_large(self) -> bool:
        """Whether nothing was read because the report is too large."""
        return self.status == _TOO_LARGE and self.verdict is None

    @property
    def refused(self) -> bool:
        """Whether the server did not accept our credentials."""
        return self.status in _REFUSED


class NoVerdict(ConductorError):
    """The server answered, but said nothing about the report."""

    def __init__(self, answer: ReportAnswer) -> None:
        super().__init__(f"the server answered {answer.status}: {answer.message}")
        self.answer = answer


class Delivery:
    """Sends encoded reports, each once; what to do with the answer is the caller's business."""

    def __init__(self, api: AsyncTaskResourceApi, clock: Clock, before: Callable[[], None] = lambda: None) -> None:
        self._api = api
        self._clock = clock
        #: Called before anything is sent: what is to be on disk by then is written there.
        self._before = before
        #: Whether the server takes arrays of reports; set when it says so.
        self.batches = False
        #: Whether a report may ask the server for the next task; set when the server says so.
        self.brings_next = False
        #: The largest body the server takes, in bytes; None while it has not said.
        self.max_body: int | None = None
        #: What is sent next, and whether more of it may come in this tick.
        self._waiting: list[_Parcel] = []
        self._ticking = False
        #: Ends the wait for those under way.
        self._patience: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def deliver(
        self, body: bytes, wanted: Callable[[], bool] | None = None, asks_next: Callable[[], bool] | None = None
    ) -> ReportAnswer:
        """Send one report, together with those of the same tick where the server takes arrays.

        A report that the server would not read, for its size, is not sent. `wanted` is asked before it is sent when it
        had to wait for others, and before it is sent again on a new connection. `asks_next` is asked when it is sent:
        whether the answer may bring another task.
        """
        if self.max_body is not None and len(body) > self.max_body:
            return ReportAnswer(_TOO_LARGE, None, "not sent", max_body=self.max_body)
        if not self.batches:
            self._before()
            return await self._send_alone(body, wanted)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ReportAnswer] = loop.create_future()
        if not self._ticking:
            self._ticking = True
            loop.call_soon(self._end_tick)
        self._waiting.append(_Parcel(body, future, wanted, asks_next, copy_context()))
        return await future

    async def _send_alone(self, body: bytes, wanted: Callable[[], bool] | None) -> ReportAnswer:
        answer = read_answer(await self._api.send_report(body, wanted=wanted))
        if answer.max_body is not None:
            self.max_body = answer.max_body
        return answer

    def _end_tick(self) -> None:
        """What ended in this tick is written together, and sent together; at once, unless others are under way."""
        self._ticking = False
        self._before()
        if len(self._under_way) < MOST_UNDER_WAY:
            self._send_waiting()
        elif self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(LONGEST_WAIT_S, self._send_waiting)

    def _send_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        max_bytes = MAX_BATCH_BYTES if self.max_body is None else min(MAX_BATCH_BYTES, self.max_body)
        for batch in _batches_of(waiting, max_bytes):
            # In the context of the first report, so that the request belongs to the trace of that report.
            sending = asyncio.get_running_loop().create_task(self._send_batch(batch), context=batch[0].context)
            self._under_way.add(sending)
            sending.add_done_callback(self._answered)

    def _answered(self, sending: asyncio.Task[None]) -> None:
        self._under_way.discard(sending)
        if self._waiting and not self._ticking:
            self._send_waiting()

    async def _send_batch(self, waiting: list[_Parcel]) -> None:
        """One request for many reports. Each gets its own answer; a failure of the request is a failure of each.

        Nothing is said about a task that was lost while its report waited.
        """
        batch = [parcel for parcel in waiting if parcel.is_wanted()]
        if len(batch) < len(waiting):
            for parcel in waiting:
                if not (parcel.is_wanted() or parcel.answer.done()):
                    parcel.answer.set_result(NOT_SENT)
        if not batch:
            return
        asking: list[_Parcel] = []
        others: list[_Parcel] = []
        for parcel in batch:
            asks = self.brings_next and parcel.asks_next is not None and parcel.asks_next()
            (asking if asks else others).append(parcel)
        batch = asking + others  # the server grants tasks to the first reports
        failure: Exception = ConnectionLost("the reports were not sent to their end")
        try:
            for parcel, answer in zip(batch, await self._answers_to(batch, len(asking)), strict=True):
                if not parcel.answer.done():
                    parcel.answer.set_result(answer)
        except Exception as error:  # whatever it is: those who wait here hold a slot each
            failure = error
        finally:
            for parcel in batch:
                if not parcel.answer.done():
                    parcel.answer.set_exception(failure)

    async def _answers_to(self, batch: list[_Parcel], next_tasks: int) -> list[ReportAnswer]:
        if len(batch) > 1 or next_tasks:
            body = b"[" + b",".join([parcel.body for parcel in batch]) + b"]"
            send = partial(self._api.send_reports, body, wanted=lambda: all(parcel.is_wanted() for parcel in batch))
            sent_at = self._clock.monotonic()
            try:
                response = await send(next_tasks=next_tasks)
            except AnswerTooLarge:
                if not next_tasks:
                    raise
                response = await send()  # the same verdicts; the tasks go back to their queue
            if response.status == 200:
                return read_answers(response, len(batch), sent_at)
            whole = read_answer(response)
            if whole.judgement is None:
                return [whole] * len(batch)
            # Refused as a whole (too large, or one report spoiled it): let each speak for itself.
        return [
            await self._send_alone(parcel.body, parcel.wanted) if parcel.is_wanted() else NOT_SENT for parcel in batch
        ]


#: What becomes of a report whose task was lost before it could be sent.
NOT_SENT = ReportAnswer(409, Verdict.CANCELLED, "the lease was lost before the report could be sent")


class _Parcel(NamedTuple):
    """A report on its way in a batch, and what its sender waits for."""

    body: bytes
    answer: asyncio.Future[ReportAnswer]
    wanted: Callable[[], bool] | None
    asks_next: Callable[[], bool] | None
    context: Context

    def is_wanted(self) -> bool:
        """Whether its sender still has something to say about the task."""
        return self.wanted is None or self.wanted()


def _batches_of(waiting: list[_Parcel], max_bytes: int) -> Iterator[list[_Parcel]]:
    """Cut what waits into requests of a size that the server takes."""
    batch: list[_Parcel] = []
    size = 1  # the brackets and commas count, too
    for parcel in waiting:
        if batch and (len(batch) >= MAX_BATCH or size + len(parcel.body) + 1 > max_bytes):
            yield batch
            batch, size = [], 1
        batch.append(parcel)
        size += len(parcel.body) + 1
    yield batch


class _AnswerBody(msgspec.Struct):
    """An error body, or one verdict of a batch."""

    status: int = 0
    verdict: str | None = None
    message: str | None = None
    next_task: Task | None = msgspec.field(default=None, name=NEXT_TASK)


class _RawAnswerBody(msgspec.Struct):
    """The same with a task that cannot be read."""

    status: int = 0
    verdict: str | None = None
    message: str | None = None
    next_task: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name=NEXT_TASK)


_one_body = msgspec.json.Decoder(_AnswerBody)
_bodies = msgspec.json.Decoder(list[_AnswerBody])
_raw_bodies = msgspec.json.Decoder(list[msgspec.Raw])


def read_answer(response: Response) -> ReportAnswer:
    """The answer to one report."""
    status = response.status
    word = response.headers.get(_VERDICT)
    verdict = _verdict_named(word)
    if word and verdict is None:
        return ReportAnswer(status, None, f"{VERDICT_HEADER}: {_quoted(word)}", nonsense=True)
    if status < 300:
        page = describe_web_page(response) if verdict is None and response.body else None
        return ReportAnswer(status, verdict, page or "", nonsense=page is not None)
    message = response.body[:MAX_MESSAGE].decode("utf-8", "replace") or f"status {status}, and not a word"
    try:
        body = _one_body.decode(response.body)
        message, verdict = body.message or message, verdict or _verdict_named(body.verdict)
    except UNREADABLE:
        pass
    retry_after_s, max_body = _retry_after_s(response.headers), read_max_body(response)
    return ReportAnswer(status, verdict, _quoted(message), retry_after_s, max_body=max_body)


def read_answers(response: Response, expected: int, sent_at: float = 0.0) -> list[ReportAnswer]:
    """The answers to a batch, in its order. One without a verdict that we know is none, and spoils no other."""
    try:
        answers = [_read_part(body, sent_at) for body in _bodies.decode(response.body)]
    except UNREADABLE:
        answers = _read_each(response, sent_at)
    if len(answers) != expected:
        raise MalformedAnswer(f"{expected} reports were sent and {len(answers)} were answered")
    return answers


def _read_each(response: Response, sent_at: float) -> list[ReportAnswer]:
    try:
        return [_read_raw(body, sent_at) for body in _raw_bodies.decode(response.body)]
    except UNREADABLE as error:
        raise MalformedAnswer(f"the answer to a batch of reports cannot be read: {escape(str(error))}") from None


def _read_raw(raw: msgspec.Raw, sent_at: float) -> ReportAnswer:
    try:
        return _read_part(_one_body.decode(raw), sent_at)
    except UNREADABLE:
        pass
    try:
        body = msgspec.json.decode(raw, type=_RawAnswerBody)
        _, unreadable = decode_tasks([body.next_task])
        answer = _read_part(_AnswerBody(body.status, body.verdict, body.message), sent_at)
        return answer._replace(next_task=unreadable[0] if unreadable else None)
    except UNREADABLE as error:
        return ReportAnswer(200, None, f"the verdict cannot be read: {escape(str(error))}", nonsense=True)


def _read_part(body: _AnswerBody, sent_at: float) -> ReportAnswer:
    verdict, message = _verdict_named(body.verdict), _quoted(body.message or "")
    if verdict is None:
        return ReportAnswer(body.status, None, message or f"no verdict: {_quoted(str(body.verdict))}", nonsense=True)
    return ReportAnswer(body.status or 200, verdict, message, next_task=body.next_task, sent_at=sent_at)


def _verdict_named(word: str | None) -> Verdict | None:
    return _VERDICTS.get(word) or (_VERDICTS.get(word.strip().upper()) if word else None)


def _quoted(text: str) -> str:
    return escape(text[:MAX_MESSAGE])


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def loss_of(task: Task, *, worker_id: str | None, poll_count: int, reported_as: str | None) -> str | None:
    """Why a task, as a plain server has it, is not ours any more; None: it is. We never guess in our own favour.

    `reported_as` is the status that our own report gives it; None while there is no report.
    """
    # A server that delivers a task makes it IN_PROGRESS. One that is SCHEDULED waits for the next poll, whoever sends
    # it: another will run it, so work on it here must stop. Only our own report may have put it back.
    not_running = task.status in TERMINAL_TASK_STATUSES or task.status == "SCHEDULED"
    if not_running and task.status != _status_after(reported_as):
        return f"the server has the task as {_quoted(task.status)}"
    if task.worker_id and task.worker_id != worker_id:
        return f"the task is held by worker {_quoted(task.worker_id)}"
    return "the task was delivered again" if task.poll_count != poll_count else None


def verdict_on(entry: Entry, task: Task) -> Verdict | None:
    """What a plain server's task says about a report of ours; None: the task is still open, and ours."""
    loss = loss_of(task, worker_id=entry.worker_id, poll_count=entry.poll_count, reported_as=entry.status)
    if loss is not None:
        return Verdict.CANCELLED
    return Verdict.COMMITTED if task.status == _status_after(entry.status) else None


def _status_after(reported_as: str | None) -> str | None:
    """How a plain server has a task after a report: one that is handed back waits for its next delivery."""
    return "SCHEDULED" if reported_as == "IN_PROGRESS" else reported_as
