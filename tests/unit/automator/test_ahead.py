"""Short tasks are taken ahead and reported together; never are more of them executed at once than there are slots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from automator.worker_fixture import KINDS, Events, Gate, turn_loop, working
from conductor.client.automator import delivery, execute, poll
from conductor.client.automator.delivery import MOST_UNDER_WAY, NOT_SENT, Delivery, ReportAnswer
from conductor.client.automator.engine import LONGEST_AHEAD_S
from conductor.client.automator.thread_pool import ThreadPool
from conductor.client.event.task_runner_events import TaskExecutionStarted
from conductor.client.http.response import Response
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub, FakeClock, Request
from conductor.wire import VERDICT_HEADER, Verdict


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker is known to be quick from its beginning."""
    monkeypatch.setattr(execute, "UNKNOWN_PACE_S", 0.0)


@pytest.fixture
def coordinator() -> Iterator[ConductorStub]:
    with ConductorStub(leases=True) as stub:
        yield stub


def nothing() -> dict[str, str]:
    return {}


def counts(polls: list[Request]) -> list[int]:
    return [int(asked.query["count"]) for asked in polls]


class TestPolls:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_quick_worker_takes_tasks_ahead_and_executes_as_many_as_it_has_slots(
        self, coordinator: ConductorStub, quick: None, kind: str
    ) -> None:
        gate, events = Gate(), Events()
        tasks = [coordinator.add_task("job") for _ in range(8)]
        async with working(coordinator, gate.worker(kind, thread_count=2), events=events):
            await coordinator.until(lambda: all(coordinator.task(task).status == "IN_PROGRESS" for task in tasks))
            await gate.until_entered(2)
            await turn_loop()
            assert len(events.of(TaskExecutionStarted)) == 2
            gate.let_go()
            await coordinator.until_results(8)
            assert gate.most_inside <= 2
            assert len(events.of(TaskExecutionStarted)) == 8

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_has_no_slot_after_a_second_is_given_back(self, quick: None, kind: str) -> None:
        clock, gate = FakeClock(), Gate()
        with ConductorStub(leases=True) as server:
            tasks = [server.add_task("job") for _ in range(8)]
            async with working(server, gate.worker(kind, thread_count=2), clock=clock):
                await server.until(lambda: all(server.task(task).status == "IN_PROGRESS" for task in tasks))
                await gate.until_entered(2)
                await clock.until_sleeping(2)  # the watch over the leases, and the one over what waits for a slot
                seen = len(server.polls())
                clock.advance(LONGEST_AHEAD_S)
                back = await server.until_results(6)
                assert {(report["status"], report.get("callbackAfterSeconds", 0)) for report in back} == {
                    ("IN_PROGRESS", 0)
                }
                assert gate.entered == 2
                gate.let_go()
                await server.until(lambda: all(server.task(task).status == "COMPLETED" for task in tasks))
                assert max(counts(server.polls()[seen:])) <= 2
                assert gate.entered == 8

    async def test_a_worker_that_nobody_knows_yet_takes_what_fills_its_slots(self, coordinator: ConductorStub) -> None:
        for _ in range(8):
            coordinator.add_task("job")
        async with working(coordinator, Worker("job", nothing, thread_count=2)):
            await coordinator.until_results(8)
            assert max(counts(coordinator.polls())) <= 2

    async def test_once_all_that_waits_is_there_only_free_slots_are_filled(
        self, coordinator: ConductorStub, quick: None
    ) -> None:
        """What comes later may be for another worker: this one has enough to do."""
        gate = Gate()
        for _ in range(3):
            coordinator.add_task("job")
        async with working(coordinator, gate.worker("def", thread_count=2), Worker("other", nothing)):
            await coordinator.until(lambda: sum(counts(coordinator.polls("job"))) > 2 and gate.entered == 2)
            seen = len(coordinator.polls("other"))
            await coordinator.until(lambda: len(coordinator.polls("other")) >= seen + 3)
            coordinator.add_task("job")
            seen = len(coordinator.polls("other"))
            await coordinator.until(lambda: len(coordinator.polls("other")) >= seen + 3)
            assert len(coordinator.polls("job")) == 2
            gate.let_go()
            await coordinator.until_results(4)

    async def test_nor_does_one_take_more_whose_function_returns_awaitables(
        self, coordinator: ConductorStub, quick: None
    ) -> None:
        """The thread is free when the awaitable is there, but the task is not done."""
        gate = Gate()
        tasks = [coordinator.add_task("job") for _ in range(3)]
        async with working(coordinator, Worker("job", lambda: gate.enter_async(), thread_count=1)):
            gate.let_go(1)
            await coordinator.until_results(1)
            await gate.until_entered(2)
            gate.let_go()
            await coordinator.until(lambda: all(coordinator.task(task).status == "COMPLETED" for task in tasks))
            assert gate.most_inside == 1

    async def test_a_plain_server_is_asked_for_what_fills_the_slots(
        self, conductor_stub: ConductorStub, quick: None
    ) -> None:
        for _ in range(8):
            conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", nothing, thread_count=2)):
            await conductor_stub.until_results(8)
            assert max(counts(conductor_stub.polls())) <= 2

    @pytest.mark.parametrize(
        ("pace_s", "unfinished", "asked"),
        [
            pytest.param(1.0, 0, 10, id="slow tasks: the slots"),
            pytest.param(1.0, 9, 1, id="slow tasks: each slot that is free"),
            pytest.param(poll.AHEAD_S, 0, 10, id="as slow as that"),
            pytest.param(poll.AHEAD_S / 4, 0, 40, id="what is worked off in that time"),
            pytest.param(poll.AHEAD_S / 4, 20, 20, id="half of it is done"),
            pytest.param(poll.AHEAD_S / 4, 21, 0, id="less than half of it is done"),
            pytest.param(0.0, 0, 100, id="no time at all: as many as a poll may bring"),
        ],
    )
    def test_how_many_are_asked_for(self, pace_s: float, unfinished: int, asked: int) -> None:
        config: Any = SimpleNamespace(thread_count=10, poll_interval_millis=100)
        session: Any = SimpleNamespace(events=None, clock=None, leasing=True)
        poller = poll.Poller("job", config, session)
        poller.more_wait = True
        assert poller.room(unfinished, unfinished, pace_s) == asked


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
    async def test_a_call_that_is_taken_back_is_never_made(self) -> None:
        begun: list[Any] = []
        pool = ThreadPool(1, "test", FakeClock().monotonic, begun.append)
        calls = Calls()
        tasks: list[Any] = [SimpleNamespace(task=name) for name in ("one", "two", "three")]
        futures = [pool.submit(calls.function, task) for task in tasks]
        await asyncio.to_thread(calls.entered.wait, 60)
        assert begun == tasks[:1]
        assert not pool.take_back(tasks[0])
        assert pool.take_back(tasks[1])
        calls.leave.set()
        await asyncio.gather(*futures)
        pool.close()
        assert calls.made == ["one", "three"]
        assert begun == [tasks[0], tasks[2]]

    async def test_a_call_that_was_cancelled_before_it_began_is_never_made(self) -> None:
        pool = ThreadPool(1, "test", FakeClock().monotonic, lambda _: None)
        calls = Calls()
        tasks: list[Any] = [SimpleNamespace(task=name) for name in ("one", "two", "three")]
        one, two, three = [pool.submit(calls.function, task) for task in tasks]
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
        self._answers: list[asyncio.Future[None]] = []

    async def send_report(self, body: bytes, **_: Any) -> Response:
        await self._noted([msgspec.json.decode(body)])
        return Response(200, {VERDICT_HEADER.lower(): Verdict.COMMITTED}, b"")

    async def send_reports(self, body: bytes, **_: Any) -> Response:
        reports = msgspec.json.decode(body)
        await self._noted(reports)
        return Response(200, {}, msgspec.json.encode([{"verdict": Verdict.COMMITTED} for _ in reports]))

    async def _noted(self, reports: list[str]) -> None:
        self.requests.append(reports)
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

        sending = Delivery(server, write)  # type: ignore[arg-type]
        sending.batches = True
        return server, sending, written

    async def send(self, sending: Delivery, *names: str) -> list[asyncio.Task[ReportAnswer]]:
        going = [asyncio.ensure_future(sending.deliver(msgspec.json.encode(name))) for name in names]
        await turn_loop()
        return going

    async def test_one_alone_is_sent_at_once(self) -> None:
        server, sending, _ = self.started()
        [going] = await self.send(sending, "one")
        assert server.requests == [["one"]]
        server.answer(0)
        assert (await going).verdict is Verdict.COMMITTED

    async def test_what_ends_while_others_are_under_way_travels_together(self) -> None:
        server, sending, written = self.started()
        first = [name for n in range(MOST_UNDER_WAY) for name in await self.send(sending, f"first {n}")]
        assert len(server.requests) == MOST_UNDER_WAY
        before = written[0]
        later = [*await self.send(sending, "a"), *await self.send(sending, "b", "c")]
        assert len(server.requests) == MOST_UNDER_WAY
        assert written[0] == before + 2, "on disk in the tick in which it ended, not only when it is sent"
        server.answer(0)
        await turn_loop()
        assert server.requests[MOST_UNDER_WAY:] == [["a", "b", "c"]]
        for request in range(1, MOST_UNDER_WAY + 1):
            server.answer(request)
        assert {answer.verdict for answer in await asyncio.gather(*first, *later)} == {Verdict.COMMITTED}

    async def test_what_was_lost_while_it_waited_is_not_sent(self) -> None:
        server, sending, _ = self.started()
        for n in range(MOST_UNDER_WAY):
            await self.send(sending, f"first {n}")
        lost = [False]
        waits = asyncio.ensure_future(sending.deliver(msgspec.json.encode("lost"), lambda: not lost[0]))
        [other] = await self.send(sending, "other")
        lost[0] = True  # a heartbeat was answered with CANCELLED
        server.answer(0)
        assert (await waits) is NOT_SENT
        assert server.requests[MOST_UNDER_WAY:] == [["other"]]
        for request in range(1, MOST_UNDER_WAY + 1):
            server.answer(request)
        assert (await other).verdict is Verdict.COMMITTED

    async def test_it_does_not_wait_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delivery, "LONGEST_WAIT_S", 0.0)
        server, sending, _ = self.started()
        for n in range(MOST_UNDER_WAY):
            await self.send(sending, f"never answered {n}")
        await self.send(sending, "a")
        while len(server.requests) == MOST_UNDER_WAY:
            await asyncio.sleep(0)
        assert server.requests[-1] == ["a"]
        for request in range(MOST_UNDER_WAY + 1):
            server.answer(request)
        await turn_loop()
