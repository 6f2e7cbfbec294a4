"""Reports that end while others are in flight travel together; calls of threads that were withdrawn are not made."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any

import msgspec
import pytest

from conductor.client.automator import delivery
from conductor.client.automator.delivery import MAX_IN_FLIGHT, NOT_SENT, Delivery, ReportAnswer, read_answers
from conductor.client.automator.thread_pool import ThreadPool
from conductor.client.http.api.async_task_resource_api import UnreadableTask
from conductor.client.http.errors import AnswerTooLarge
from conductor.client.http.models.task import Task
from conductor.client.http.response import Response
from conductor.protocol.wire import VERDICT_HEADER, Verdict
from conductor.testing import FakeClock
from tests.unit.automator.worker_fixture import turn_loop

#: Stands for OpenTelemetry's current span.
report_span: ContextVar[str] = ContextVar("report_span", default="")


class Calls:
    """A function that holds its thread until the test lets it go, and which tasks it was called with."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.made: list[str] = []

    def function(self, task: str) -> None:
        self.made.append(task)
        self.entered.set()
        self.leave.wait(60)


class TestThreads:
    async def test_a_call_that_is_withdrawn_is_never_made(self) -> None:
        pool = ThreadPool(1, "test", FakeClock().monotonic)
        calls = Calls()
        futures = [pool.submit(calls.function, task) for task in ("one", "two", "three")]
        await asyncio.to_thread(calls.entered.wait, 60)
        pool.withdraw(futures[0])
        pool.withdraw(futures[1])
        calls.leave.set()
        await asyncio.gather(*futures)
        pool.close()
        assert calls.made == ["one", "three"]

    async def test_a_call_that_was_cancelled_before_it_began_is_never_made(self) -> None:
        pool = ThreadPool(1, "test", FakeClock().monotonic)
        calls = Calls()
        one, two, three = [pool.submit(calls.function, task) for task in ("one", "two", "three")]
        await asyncio.to_thread(calls.entered.wait, 60)
        two.cancel()
        calls.leave.set()
        await asyncio.gather(one, three)
        pool.close()
        assert calls.made == ["one", "three"]


class Server:
    """Takes reports, and answers when the test says so."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        #: The value of `report_span` while each request was sent.
        self.contexts: list[str] = []
        #: How many tasks each request with an array has asked for.
        self.asked: list[int] = []
        #: Whether answers with tasks are too large to be read.
        self.too_large = False
        self._answers: list[asyncio.Future[None]] = []

    async def send_report(self, body: bytes, **_: Any) -> Response:
        await self._noted([msgspec.json.decode(body)])
        return Response(200, {VERDICT_HEADER.lower(): Verdict.COMMITTED}, b"")

    async def send_reports(self, body: bytes, *, next_tasks: int = 0, **_: Any) -> Response:
        reports = msgspec.json.decode(body)
        self.asked.append(next_tasks)
        await self._noted(reports)
        answers = [{"verdict": Verdict.COMMITTED, "nextTask": {"taskId": report}} for report in reports[:next_tasks]]
        answers += [{"verdict": Verdict.COMMITTED} for _ in reports[next_tasks:]]
        if next_tasks and self.too_large:
            raise AnswerTooLarge("the answer is too large")
        return Response(200, {}, msgspec.json.encode(answers))

    async def _noted(self, reports: list[str]) -> None:
        self.requests.append(reports)
        self.contexts.append(report_span.get())
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await answer

    def answer(self, request: int) -> None:
        self._answers[request].set_result(None)


class TestReports:
    def started(self) -> tuple[Server, Delivery, list[int]]:
        server, written = Server(), [0]

        def write() -> None:
            written[0] += 1

        sending = Delivery(server, FakeClock(), write)  # type: ignore[arg-type]
        sending.takes_batches = True
        return server, sending, written

    async def send(self, sending: Delivery, *names: str) -> list[asyncio.Task[ReportAnswer]]:
        going = [asyncio.ensure_future(sending.deliver(msgspec.json.encode(name))) for name in names]
        await turn_loop()
        return going

    async def test_a_single_report_is_sent_at_once(self) -> None:
        server, sending, _ = self.started()
        [going] = await self.send(sending, "one")
        assert server.requests == [["one"]]
        server.answer(0)
        assert (await going).verdict is Verdict.COMMITTED

    async def test_reports_that_end_while_others_are_in_flight_travel_together(self) -> None:
        server, sending, written = self.started()
        first = [name for n in range(MAX_IN_FLIGHT) for name in await self.send(sending, f"first {n}")]
        assert len(server.requests) == MAX_IN_FLIGHT
        before = written[0]
        later = [*await self.send(sending, "a"), *await self.send(sending, "b", "c")]
        assert len(server.requests) == MAX_IN_FLIGHT
        assert written[0] == before + 2, "on disk in the tick in which it ended, not only when it is sent"
        server.answer(0)
        await turn_loop()
        assert server.requests[MAX_IN_FLIGHT:] == [["a", "b", "c"]]
        for request in range(1, MAX_IN_FLIGHT + 1):
            server.answer(request)
        assert {answer.verdict for answer in await asyncio.gather(*first, *later)} == {Verdict.COMMITTED}

    async def test_a_request_is_sent_in_the_context_of_its_first_report(self) -> None:
        """The request is then part of that report's trace, not of the trace of an earlier request."""
        server, sending, _ = self.started()

        async def deliver(name: str) -> ReportAnswer:
            report_span.set(name)
            return await sending.deliver(msgspec.json.encode(name))

        going = []
        for name in ("first", "second", "a", "b"):
            going.append(asyncio.ensure_future(deliver(name)))
            await turn_loop()
        server.answer(0)  # "a" and "b" are sent when this answer arrives
        await turn_loop()
        assert server.requests == [["first"], ["second"], ["a", "b"]]
        assert server.contexts == ["first", "second", "a"]
        server.answer(1)
        server.answer(2)
        await asyncio.gather(*going)

    async def test_a_report_whose_lease_was_lost_while_it_waited_is_not_sent(self) -> None:
        server, sending, _ = self.started()
        for n in range(MAX_IN_FLIGHT):
            await self.send(sending, f"first {n}")
        lost = [False]
        waits = asyncio.ensure_future(sending.deliver(msgspec.json.encode("lost"), lambda: not lost[0]))
        [other] = await self.send(sending, "other")
        lost[0] = True  # a heartbeat was answered with CANCELLED
        server.answer(0)
        assert (await waits) is NOT_SENT
        assert server.requests[MAX_IN_FLIGHT:] == [["other"]]
        for request in range(1, MAX_IN_FLIGHT + 1):
            server.answer(request)
        assert (await other).verdict is Verdict.COMMITTED

    async def test_a_report_does_not_wait_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delivery, "MAX_WAIT_S", 0.0)
        server, sending, _ = self.started()
        for n in range(MAX_IN_FLIGHT):
            await self.send(sending, f"never answered {n}")
        await self.send(sending, "a")
        while len(server.requests) == MAX_IN_FLIGHT:
            await asyncio.sleep(0)
        assert server.requests[-1] == ["a"]
        for request in range(MAX_IN_FLIGHT + 1):
            server.answer(request)
        await turn_loop()


class TestNextTasks:
    """Where the server says so, reports ask for the next task."""

    def started(self) -> tuple[Server, Delivery]:
        server = Server()
        sending = Delivery(server, FakeClock())  # type: ignore[arg-type]
        sending.takes_batches = sending.brings_next = True
        return server, sending

    async def send(self, sending: Delivery, *asks: bool) -> list[asyncio.Task[ReportAnswer]]:
        going = [
            asyncio.ensure_future(sending.deliver(msgspec.json.encode(str(n)), None, partial(bool, ask)))
            for n, ask in enumerate(asks)
        ]
        await turn_loop()
        return going

    async def test_a_report_that_asks_gets_its_task(self) -> None:
        server, sending = self.started()
        [going] = await self.send(sending, True)
        server.answer(0)
        answer = await going
        assert isinstance(answer.next_task, Task)
        assert (server.asked, answer.next_task.task_id) == ([1], "0")

    async def test_only_the_reports_that_ask_get_a_task(self) -> None:
        server, sending = self.started()
        going = await self.send(sending, False, True, False, True)
        server.answer(0)
        answers = await asyncio.gather(*going)
        assert server.requests == [["1", "3", "0", "2"]]
        assert [answer.next_task is not None for answer in answers] == [False, True, False, True]

    async def test_a_server_that_does_not_say_so_is_not_asked(self) -> None:
        server, sending = self.started()
        sending.brings_next = False
        going = await self.send(sending, True, True)
        server.answer(0)
        await asyncio.gather(*going)
        assert server.asked == [0]

    async def test_an_answer_that_is_too_large_is_asked_for_without_tasks(self) -> None:
        server, sending = self.started()
        server.too_large = True
        [going] = await self.send(sending, True)
        server.answer(0)
        await turn_loop()
        server.answer(1)
        answer = await going
        assert server.asked == [1, 0]
        assert (answer.verdict, answer.next_task) == (Verdict.COMMITTED, None)

    async def test_a_task_that_cannot_be_read_does_not_affect_the_verdicts(self) -> None:
        body = b'[{"verdict":"COMMITTED","nextTask":{"taskId":"a"}},{"verdict":"COMMITTED","nextTask":{"taskId":7}}]'
        good, bad = read_answers(Response(200, {}, body), 2)
        assert isinstance(good.next_task, Task)
        assert isinstance(bad.next_task, UnreadableTask)
        assert good.verdict is bad.verdict is Verdict.COMMITTED
