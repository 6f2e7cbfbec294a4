"""Carrying reports to the server: alone, or together with those of the same tick where the server takes arrays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.automator.answer import Answer, read_answer, read_answers
from conductor.client.http.async_rest import ConductorError

if TYPE_CHECKING:
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi

#: Reports in one request, at most, and their bytes.
MAX_BATCH = 100
MAX_BATCH_BYTES = 1_000_000


class Delivery:
    """Sends encoded reports, each once; what to do with the answer is the caller's business."""

    def __init__(self, api: AsyncTaskResourceApi) -> None:
        self._api = api
        #: Whether the server takes arrays of reports; set when it says so.
        self.batches = False
        self._tick: list[_Sent] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def deliver(self, body: bytes) -> Answer:
        """Send one report, together with those of the same tick where the server takes arrays."""
        if not self.batches:
            return read_answer(await self._api.send_report(body))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        if not self._tick:
            loop.call_soon(self._send_tick)
        self._tick.append(_Sent(body, future))
        return await future

    def _send_tick(self) -> None:
        tick, self._tick = self._tick, []
        for batch in _batches_of(tick):
            sending = asyncio.ensure_future(self._send_batch(batch))
            self._under_way.add(sending)
            sending.add_done_callback(self._under_way.discard)

    async def _send_batch(self, batch: list[_Sent]) -> None:
        """One request for many reports. Each gets its own answer; a failure of the request is a failure of each."""
        try:
            answers = await self._answers_to([sent.body for sent in batch])
        except (ConductorError, OSError) as error:
            for sent in batch:
                sent.fail(error)
            return
        for sent, answer in zip(batch, answers, strict=True):
            sent.settle(answer)

    async def _answers_to(self, bodies: list[bytes]) -> list[Answer]:
        if len(bodies) > 1:
            response = await self._api.send_reports(b"[" + b",".join(bodies) + b"]")
            if response.status == 200:
                return read_answers(response, len(bodies))
            whole = read_answer(response)
            if not whole.final:
                return [whole] * len(bodies)
            # Refused as a whole (too large, or one report spoiled it): let each speak for itself.
        return [read_answer(await self._api.send_report(body)) for body in bodies]


class _Sent(NamedTuple):
    """A report on its way in a batch, and who waits for its answer."""

    body: bytes
    answer: asyncio.Future[Answer]

    def settle(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _batches_of(tick: list[_Sent]) -> Iterator[list[_Sent]]:
    """Cut what finished in one tick into requests of a size that every server takes."""
    batch: list[_Sent] = []
    size = 0
    for sent in tick:
        if batch and (len(batch) >= MAX_BATCH or size + len(sent.body) > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(sent)
        size += len(sent.body)
    yield batch
