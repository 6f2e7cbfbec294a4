"""Polling: how many tasks are asked for, and when. Seen by the server; time is a clock that the tests turn."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from conductor.client.automator import poller
from conductor.client.automator.poller import Parking
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import (
    PollCompleted,
    PollFailure,
    PollStarted,
    TaskExecutionCompleted,
    TaskUpdateRetried,
    WorkerStarted,
)
from conductor.client.http.async_rest import AuthorizationException
from conductor.client.worker.worker import Worker
from conductor.common.backoff import Backoff
from conductor.testing import ConductorStub, Delay, FakeClock, Malformed, Pass, Request, Reset, Status
from tests.unit.automator.worker_fixture import KINDS, Events, Gate, lines, turn_loop, working

#: A worker that asks without waiting and never parks: every wait is its own.
IMPATIENT: dict[str, Any] = {"poll_timeout": 0, "idle_poll_timeout": 0}


def nothing() -> dict[str, str]:
    return {}


def counts(polls: list[Request]) -> list[int]:
    return [int(poll.query["count"]) for poll in polls]


def timeouts(polls: list[Request]) -> list[int]:
    return [int(poll.query["timeout"]) for poll in polls]


async def take_waits(clock: FakeClock, count: int) -> list[float]:
    """Let the worker wait that many times and return how long it meant to, each time."""
    for _ in range(count):
        await clock.advance_to_next()
    await clock.until_sleeping()
    return clock.sleeps[:count]


def hold_reports(server: ConductorStub) -> None:
    """Let reports wait, alone or in arrays."""
    server.hold("update")
    server.hold("reports")


def reports_held(server: ConductorStub) -> int:
    return server.held("update") + server.held("reports")


class TestBatchSize:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("in_hand", "asked"), [(0, 10), (3, 7), (8, 2)])
    async def test_a_worker_asks_for_the_free_slots(
        self, conductor_stub: ConductorStub, kind: str, in_hand: int, asked: int
    ) -> None:
        gate = Gate()
        for _ in range(in_hand):
            conductor_stub.add_task("job")
        async with working(conductor_stub, gate.worker(kind, thread_count=10)):
            await gate.until_entered(in_hand)
            number = 2 if in_hand else 1
            await conductor_stub.until(lambda: len(conductor_stub.polls()) >= number)
            assert counts(conductor_stub.polls())[number - 1] == asked
            gate.let_go()

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_worker_asks_for_nothing_at_capacity_until_a_task_ends(
        self, conductor_stub: ConductorStub, kind: str
    ) -> None:
        gate = Gate()
        for _ in range(10):
            conductor_stub.add_task("job")
        async with working(conductor_stub, gate.worker(kind, thread_count=10)):
            await gate.until_entered(10)
            gate.let_go(1)
            await conductor_stub.until(lambda: len(conductor_stub.polls()) >= 2)
            assert counts(conductor_stub.polls())[:2] == [10, 1]
            gate.let_go()

    async def test_a_task_being_reported_takes_a_slot(self, conductor_stub: ConductorStub) -> None:
        """On a Conductor server capacity is executing and reporting: a slot is free when the server has answered."""
        conductor_stub.hold("update")
        for _ in range(3):
            conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", nothing, thread_count=10)):
            await conductor_stub.until(lambda: conductor_stub.held("update") == 3)
            seen = len(conductor_stub.polls())
            await conductor_stub.until(lambda: len(conductor_stub.polls()) > seen)
            assert counts(conductor_stub.polls())[-1] == 7
            conductor_stub.release()

    async def test_a_task_being_reported_to_a_coordinator_takes_a_slot_c02(self) -> None:
        with ConductorStub(leases=True) as server:
            hold_reports(server)
            for _ in range(3):
                server.add_task("job")
            async with working(server, Worker("job", nothing, thread_count=10)):
                await server.until(lambda: reports_held(server))
                seen = len(server.polls())
                await server.until(lambda: len(server.polls()) > seen)
                assert counts(server.polls())[-1] == 7
                server.release()

    async def test_a_failed_report_to_a_coordinator_takes_a_slot(self) -> None:
        events = Events()
        with ConductorStub(leases=True) as server:
            server.script("update", Status(503))
            server.add_task("job")
            worker = Worker("job", nothing, thread_count=10, update_retry_delay_seconds=3600, idle_poll_timeout=0)
            async with working(server, worker, events=events):
                await events.until(TaskUpdateRetried)
                seen = len(server.polls())
                await server.until(lambda: len(server.polls()) > seen)
                assert counts(server.polls())[-1] == 9

    async def test_a_coordinator_that_answers_no_reports_is_not_polled_at_capacity_c01(self) -> None:
        with ConductorStub(leases=True) as server:
            hold_reports(server)
            for _ in range(10):
                server.add_task("job")
            worker, other = Worker("job", nothing, thread_count=2), Worker("other", nothing)
            async with working(server, worker, other):
                await server.until(lambda: reports_held(server))
                seen = len(server.polls("other"))
                await server.until(lambda: len(server.polls("other")) >= seen + 3)
                assert sum(counts(server.polls("job"))) == 2
                server.release()
                await server.until_results(10)

    async def test_a_worker_never_asks_for_more_than_a_hundred(self, conductor_stub: ConductorStub) -> None:
        async with working(conductor_stub, Worker("job", nothing, thread_count=500)):
            await conductor_stub.until(conductor_stub.polls)
        assert counts(conductor_stub.polls())[0] == 100

    async def test_a_worker_fills_more_than_a_hundred_slots_with_several_polls(
        self, conductor_stub: ConductorStub
    ) -> None:
        gate = Gate()
        for _ in range(130):
            conductor_stub.add_task("job")
        async with working(conductor_stub, gate.worker("async def", thread_count=130)):
            await gate.until_entered(130)
            assert counts(conductor_stub.polls()) == [100, 30]
            gate.let_go()


class TestBatchSizeOfProcesses:
    """A worker in its own process. The tasks wait at a gate of the server, which this process can see."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("in_hand", "asked"), [(3, 7), (8, 2)])
    def test_a_worker_process_asks_for_the_free_slots(
        self, conductor_stub: ConductorStub, kind: str, in_hand: int, asked: int
    ) -> None:
        self._start_with(conductor_stub, kind, in_hand, lambda polls: counts(polls)[:2] == [10, asked])

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_worker_process_asks_for_nothing_at_capacity_until_a_task_ends(
        self, conductor_stub: ConductorStub, kind: str
    ) -> None:
        self._start_with(conductor_stub, kind, 10, lambda polls: counts(polls) == [10])
        assert counts(conductor_stub.polls())[1] in range(1, 11), "the slots that came free, and no poll before"

    def _start_with(self, stub: ConductorStub, kind: str, in_hand: int, expected: object) -> None:
        from tests.unit.automator import portable_workers

        stub.hold("workflow")
        for _ in range(in_hand):
            stub.add_task("job", {"url": f"{stub.url}/workflow/gate"})
        function = portable_workers.ask_server if kind == "def" else portable_workers.ask_server_async
        worker = Worker("job", function, thread_count=10, idle_poll_timeout=0)
        with TaskHandler([worker], Configuration(stub.url), start_method="forkserver") as handler:
            handler.start_processes()
            stub.wait_for(lambda: stub.held("workflow") == in_hand, timeout=60)
            needed = 2 if in_hand < 10 else 1
            stub.wait_for(lambda: len(stub.polls()) >= needed)
            assert expected(stub.polls()), counts(stub.polls())  # type: ignore[operator]
            stub.release()
            stub.wait_results(in_hand)
            stub.wait_for(lambda: len(stub.polls()) >= 2)


class TestAtCapacity:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_at_capacity_nothing_wakes_up_until_a_task_ends(self, kind: str) -> None:
        """P20: a worker at capacity runs no timer."""
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock) as stub:
            for _ in range(3):
                stub.add_task("job")
            async with working(stub, gate.worker(kind, thread_count=2), clock=clock):
                await gate.until_entered(2)
                await clock.until_sleeping(1)  # the watch over the leases, which looks in an hour
                waits = list(clock.sleeps)
                clock.advance(3000)
                await turn_loop()
                assert clock.sleeps == waits
                assert clock.sleeping == 1
                assert len(stub.polls()) == 1
                gate.let_go(1)
                await gate.until_entered(3)
                assert counts(stub.polls()) == [2, 1]
                gate.let_go()


class TestEmptyPolls:
    async def test_after_empty_polls_waits_double_from_a_millisecond_to_the_interval(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                waits = await take_waits(clock, 9)
        assert waits == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.1, 0.1])

    async def test_an_interval_of_five_seconds_is_honoured(self) -> None:
        """P19: intervals above one second are intervals too."""
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            worker = Worker("job", nothing, poll_interval_millis=5000, **IMPATIENT)
            async with working(stub, worker, clock=clock):
                waits = await take_waits(clock, 16)
        assert waits[12:] == pytest.approx([4.096, 5, 5, 5])

    async def test_the_interval_counts_from_the_end_of_the_poll(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            worker = Worker("job", nothing, poll_interval_millis=8, poll_timeout=300, idle_poll_timeout=0)
            async with working(stub, worker, clock=clock):
                passed = [await clock.advance_to_next() for _ in range(6)]
        assert passed == pytest.approx([0.3, 0.001, 0.3, 0.002, 0.3, 0.004])

    async def test_a_found_task_resets_the_wait(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                await take_waits(clock, 5)
                stub.add_task("job")
                await clock.advance_to_next()
                await stub.until_results(1)
                await clock.until_sleeping(2)  # the worker, and the watch over its lease
                waits = [wait for wait in clock.sleeps if wait < 1000]
        assert waits[5:7] == pytest.approx([0.032, 0.001])

    async def test_while_there_is_work_there_is_no_wait(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            for _ in range(20):
                stub.add_task("job")
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                await stub.until_results(20)
                await clock.until_sleeping(2)  # the worker, and the watch over its leases
        assert clock.sleeps.count(0.001) == 1, "only the empty poll at the end was waited after"


class TestRefusedPolls:
    @pytest.mark.parametrize("status", [401, 403])
    async def test_after_refused_polls_waits_double_up_to_a_minute(self, status: int) -> None:
        """P01: a refusal is seen as one by sync and async workers alike."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", Status(status), repeat=True)
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                waits = await take_waits(clock, 8)
        for wait, longest in zip(waits, [2, 4, 8, 16, 32, 60, 60, 60], strict=True):
            assert 0.8 * longest <= wait <= longest
        assert all(isinstance(event.cause, AuthorizationException) for event in events.of(PollFailure))

    async def test_each_refusal_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", *[Status(401)] * 3)
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                await take_waits(clock, 3)
        assert lines(caplog, logging.ERROR) == [f"Authentication failed (failure count: {n})" for n in (1, 2, 3)]
        assert not any(record.exc_info for record in caplog.records)

    async def test_the_reason_of_a_key_without_permission_is_logged_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", *[Status(403, {"message": "key v1 has role viewer"})] * 3)
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                await take_waits(clock, 3)
        (warning,) = [line for line in lines(caplog, logging.WARNING) if line.startswith("The key may not poll")]
        assert 'task_type=job error="key v1 has role viewer". Use a key that may' in warning


class TestFailedPolls:
    BAD = [
        pytest.param(Status(500), id="500"),
        pytest.param(Status(503), id="503"),
        pytest.param(Status(404), id="404"),
        pytest.param(Reset(), id="connection reset"),
        pytest.param(Malformed(), id="malformed JSON"),
        pytest.param(Malformed(b'{"not": "a list"}'), id="not a list"),
        pytest.param(Malformed(b"<html>proxy</html>"), id="HTML"),
        pytest.param(Malformed(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[", raw=True), id="cut short"),
    ]

    @pytest.mark.parametrize("behaviour", BAD)
    async def test_after_failed_polls_waits_double_up_to_fifteen_seconds(self, behaviour: object) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", behaviour, repeat=True)  # type: ignore[arg-type]
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                waits = await take_waits(clock, 6)
        for wait, longest in zip(waits, [2, 4, 8, 15, 15, 15], strict=True):
            assert 0.8 * longest <= wait <= longest
        assert len(events.of(PollFailure)) >= 6
        assert not events.of(PollCompleted)

    async def test_a_server_that_is_not_there_is_a_failed_poll(self) -> None:
        clock, events = FakeClock(), Events()
        stub = ConductorStub(clock=clock)
        stub.start()
        stub.stop()
        async with working(stub, Worker("job", nothing), clock=clock, events=events):
            waits = await take_waits(clock, 2)
        assert 1.6 <= waits[0] <= 2
        assert 3.2 <= waits[1] <= 4

    async def test_the_first_success_ends_the_trouble(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", Status(500), Status(401), Status(500), Pass(), Status(500), Status(401))
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                waits = await take_waits(clock, 6)
        assert [round(wait, 3) for wait in waits if wait < 1] == [0.001]
        assert 1.6 <= waits[4] <= 2, "failures count from the beginning again"
        assert 1.6 <= waits[5] <= 2, "and so do refusals"
        assert "Polling for 'job' works again after 3 failed polls" in lines(caplog, logging.INFO)

    async def test_each_failure_is_one_line_without_a_traceback(self, caplog: pytest.LogCaptureFixture) -> None:
        """P21: no flood of tracebacks while a server is away."""
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", *[Status(500)] * 4)
            async with working(stub, Worker("job", nothing, **IMPATIENT), clock=clock):
                await take_waits(clock, 4)
        said = [line for line in lines(caplog) if "Poll for 'job' failed" in line]
        assert len(said) == 4
        assert not any("\n" in line for line in said)
        assert not any(record.exc_info for record in caplog.records)

    async def test_an_empty_poll_that_took_far_too_long_is_a_failed_one(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", Delay(6.0))
            worker = Worker("job", nothing, poll_timeout=100)
            async with working(stub, worker, clock=clock, events=events):
                await clock.advance_to_next()  # the delay
                await clock.advance_to_next()  # what the poll asked for
                (failure,) = await events.until(PollFailure)
        assert "6.1 s" in str(failure.cause)
        assert failure.duration_ms == pytest.approx(6100)

    async def test_a_late_poll_that_brings_a_task_is_a_good_one(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", Delay(6.0))
            stub.add_task("job")
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                await clock.advance_to_next()
                await stub.until_results(1)
                assert not events.of(PollFailure)

    async def test_a_half_open_connection_does_not_hang_the_worker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """P33: every poll has a read timeout, and the next poll works."""
        from conductor.client.http.api import async_task_resource_api
        from conductor.testing import HalfOpen

        monkeypatch.setattr(async_task_resource_api, "POLL_GRACE_S", 0.2)
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", HalfOpen())
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                (failure,) = await events.until(PollFailure)
                stub.add_task("job")
                await clock.advance_to_next()
                await stub.until_results(1)
        assert "no answer within 0.3 s" in str(failure.cause)


class TestBackoff:
    """The one class behind the three waits."""

    @pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
    def test_jitter_only_shortens_a_wait(self, chance: float) -> None:
        backoff = Backoff(2.0, 60.0, jitter=poller.JITTER, rng=lambda: chance)
        waits = [backoff.next() for _ in range(10)]
        for wait, longest in zip(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60, 60], strict=True):
            assert wait == pytest.approx(longest * (1 - 0.2 * chance))

    def test_the_backoff_waits_of_the_backoff_never_shrink_and_never_pass_the_cap(self) -> None:
        backoff = Backoff(0.001, 3600.0)
        waits = [backoff.next() for _ in range(200)]
        assert all(earlier <= later for earlier, later in pairwise(waits))
        assert max(waits) == 3600.0

    def test_the_backoff_knows_when_it_is_at_its_cap(self) -> None:
        backoff = Backoff(1.0, 3.0)
        at_cap = []
        for _ in range(4):
            at_cap.append(backoff.at_cap)
            backoff.next()
        assert at_cap == [False, False, False, True]

    def test_a_reset_tells_how_many_there_were(self) -> None:
        backoff = Backoff(1.0, 3.0)
        backoff.next()
        backoff.next()
        assert (backoff.reset(), backoff.reset(), backoff.next()) == (2, 0, 1.0)

    def test_parking_gives_back_its_place_after_an_error(self) -> None:
        parking = Parking(places=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), parking.place() as place:
                assert place
                raise ZeroDivisionError
        with parking.place(), parking.place() as second:
            assert not second


class TestIdle:
    """When there is nothing to do for long, one long poll for one task waits on the server."""

    async def test_an_idle_minute_takes_a_dozen_requests(self) -> None:
        """P19: an idle worker does not poll five times a second."""
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, thread_count=10), clock=clock):
                await clock.run_for(60)
                first_minute = len(stub.polls())
                await clock.run_for(60)
                second_minute = len(stub.polls()) - first_minute
        assert first_minute <= 21, "eight short polls until the wait has reached the interval, then one every 5 s"
        assert second_minute == 12

    async def test_the_idle_poll_asks_for_one_task_and_waits_long(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, thread_count=10), clock=clock):
                await clock.run_for(20)
        short, idle = stub.polls()[:8], stub.polls()[8:]
        assert set(counts(short)) == {10}
        assert set(timeouts(short)) == {100}
        assert set(counts(idle)) == {1}
        assert set(timeouts(idle)) == {5000}

    async def test_an_idle_worker_parks_one_long_poll_and_not_one_per_slot(self) -> None:
        """P36: a long poll holds a thread of the server."""
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, thread_count=50), clock=clock):
                await clock.run_for(20)
                assert stub.parked_polls == 1

    async def test_after_a_long_poll_brings_a_task_the_rest_is_polled_at_once(self) -> None:
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, gate.worker("async def", thread_count=5), clock=clock):
                await self._until_parked(stub, clock)
                stub.hold("poll")
                for _ in range(7):
                    stub.add_task("job")
                await stub.until(lambda: stub.held("poll") == 1)
                stub.release()
                await gate.until_entered(5)
                rest = stub.polls()[-1]
                gate.let_go()
        assert (rest.query["count"], rest.query["timeout"]) == ("4", "0")

    async def test_a_worker_with_one_slot_takes_no_rest(self) -> None:
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, gate.worker("async def", thread_count=1), clock=clock):
                await self._until_parked(stub, clock)
                seen = len(stub.polls())
                stub.add_task("job")
                await gate.until_entered(1)
                assert len(stub.polls()) == seen
                gate.let_go()

    async def test_a_long_poll_asks_for_one_task_on_a_server_that_holds_partial_batches(self) -> None:
        """SQL stores hold a batch until it is full: one task must not wait for the others."""
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock, hold_partial_batches=True) as stub:
            async with working(stub, gate.worker("async def", thread_count=10), clock=clock):
                await self._until_parked(stub, clock)
                stub.add_task("job")
                await gate.until_entered(1)  # and no time has passed
                gate.let_go()

    async def test_zero_turns_it_off(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            worker = Worker("job", nothing, poll_interval_millis=1000, idle_poll_timeout=0, poll_timeout=200)
            async with working(stub, worker, clock=clock):
                await clock.run_for(60)
        assert set(timeouts(stub.polls())) == {200}
        assert 50 <= len(stub.polls()) <= 65, "ten to reach the interval, then one every 1.2 s"

    async def test_a_long_interval_is_kept_between_idle_polls(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            worker = Worker("job", nothing, poll_interval_millis=20_000, poll_timeout=0)
            async with working(stub, worker, clock=clock):
                await clock.run_for(60)  # the way to the cap takes 52 s
                before = len(stub.polls())
                await clock.run_for(200)
                idle = stub.polls()[before:]
        assert set(timeouts(idle)) == {5000}
        assert len(idle) == 10, "one every 20 s"

    async def test_parked_polls_have_connections_of_their_own(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing), clock=clock):
                await self._until_parked(stub, clock)
                stub.add_task("job")
                await stub.until_results(1)
        parked = {request.connection_id for request in stub.polls() if request.query["timeout"] == "5000"}
        others = {request.connection_id for request in stub.requests if request.query.get("timeout") != "5000"}
        assert parked
        assert not parked & others

    @pytest.mark.parametrize(("leases", "parked"), [(False, 32), (True, 40)])
    async def test_at_most_32_long_polls_are_parked_on_a_conductor_server(self, leases: bool, parked: int) -> None:
        """P36: each holds a thread of a Conductor server; a coordinator parks them for free."""
        clock = FakeClock()
        workers = [Worker(f"job{n}", nothing, poll_interval_millis=1000, poll_timeout=0) for n in range(40)]
        with ConductorStub(clock=clock, leases=leases) as stub:
            async with working(stub, *workers, clock=clock):
                await clock.run_for(2.2, sleepers=40)
                assert stub.parked_polls == parked
                others = [poll for poll in stub.polls() if poll.query["timeout"] == "0"]
                await clock.run_for(2, sleepers=40)
                still = [poll for poll in stub.polls() if poll.query["timeout"] == "0"]
        assert len(still) - len(others) == (40 - parked) * 2, "the rest poll at their interval"

    async def test_a_failed_idle_poll_waits_as_a_failed_poll(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, poll_timeout=0), clock=clock):
                await self._until_parked(stub, clock)
                stub.script("poll", Status(500))
                clock.advance(5)
                await stub.until(lambda: stub.parked_polls == 0)
                await clock.until_sleeping()
                assert 1.6 <= clock.sleeps[-1] <= 2

    async def test_a_rest_that_is_not_there_costs_nothing(self) -> None:
        """The bell rang for one task; the empty second poll must not make the worker idle again."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing, thread_count=4), clock=clock, events=events):
                await self._until_parked(stub, clock)
                stub.add_task("job")
                await stub.until_results(1)
                before = len(stub.polls())
                await clock.advance_to_next(2)
                await stub.until(lambda: len(stub.polls()) > before)
                assert timeouts(stub.polls())[-1] == 100

    async def _until_parked(self, stub: ConductorStub, clock: FakeClock) -> None:
        await clock.run_for(2)
        await stub.until(lambda: stub.parked_polls == 1)
        assert stub.polls()[-1].query["timeout"] == "5000"


class TestParameters:
    @pytest.mark.parametrize(("domain", "sent"), [("blue", "blue"), (None, None), ("", None)])
    async def test_the_domain_is_sent_when_there_is_one(
        self, conductor_stub: ConductorStub, domain: str | None, sent: str | None
    ) -> None:
        async with working(conductor_stub, Worker("job", nothing, domain=domain)):
            await conductor_stub.until(conductor_stub.polls)
        assert conductor_stub.polls()[0].query.get("domain") == sent

    async def test_only_tasks_of_the_domain_are_taken(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        ours = conductor_stub.add_task("job", domain="blue")
        async with working(conductor_stub, Worker("job", nothing, domain="blue")):
            results = await conductor_stub.until_results(1)
        assert [result["taskId"] for result in results] == [ours]

    @pytest.mark.parametrize("poll_timeout", [0, 250, 5000])
    async def test_the_poll_timeout_is_really_sent(self, conductor_stub: ConductorStub, poll_timeout: int) -> None:
        """P19: the option is what travels."""
        async with working(conductor_stub, Worker("job", nothing, poll_timeout=poll_timeout)):
            await conductor_stub.until(conductor_stub.polls)
        assert conductor_stub.polls()[0].query["timeout"] == str(poll_timeout)

    async def test_the_worker_id_is_sent(self, conductor_stub: ConductorStub) -> None:
        async with working(conductor_stub, Worker("job", nothing, worker_id="me")):
            await conductor_stub.until(conductor_stub.polls)
        assert conductor_stub.polls()[0].query["workerid"] == "me"

    async def test_the_environment_wins_over_code(
        self, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONDUCTOR_WORKER_JOB_THREAD_COUNT", "7")
        monkeypatch.setenv("conductor.worker.all.domain", "green")
        async with working(conductor_stub, Worker("job", nothing, thread_count=2, domain="blue")):
            await conductor_stub.until(conductor_stub.polls)
        first = conductor_stub.polls()[0]
        assert (first.query["count"], first.query["domain"]) == ("7", "green")

    async def test_a_poll_is_a_batch_poll_by_get(self, conductor_stub: ConductorStub) -> None:
        async with working(conductor_stub, Worker("a job/é", nothing)):
            await conductor_stub.until(lambda: conductor_stub.requests)
        first = conductor_stub.requests[0]
        assert (first.method, first.path) == ("GET", "/tasks/poll/batch/a job/é")


class TestEvents:
    async def test_a_poll_is_announced_and_answered(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        conductor_stub.add_task("job")
        conductor_stub.add_task("job")
        worker = Worker("job", nothing, thread_count=5, worker_id="me")
        async with working(conductor_stub, worker, events=events):
            await events.until(PollCompleted)
        started, completed = events.of(PollStarted)[0], events.of(PollCompleted)[0]
        assert (started.task_type, started.worker_id, started.poll_count) == ("job", "me", 5)
        assert (completed.task_type, completed.tasks_received) == ("job", 2)
        assert completed.duration_ms > 0

    async def test_durations_are_of_the_monotonic_clock(self) -> None:
        """P32: the wall clock only stamps."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", Delay(1.5))
            stub.add_task("job")
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                await clock.advance_to_next()
                (completed, *_) = await events.until(PollCompleted)
        assert completed.duration_ms == pytest.approx(1500)


class TestPaused:
    async def test_a_paused_worker_sends_nothing_and_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_WORKER_QUIET_PAUSED", "true")
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("quiet")
            workers = [Worker("quiet", nothing), Worker("loud", nothing, **IMPATIENT)]
            async with working(stub, *workers, clock=clock, events=events):
                await take_waits(clock, 20)  # the other one works
        assert not stub.polls("quiet")
        polls: list[Any] = events.of(PollStarted, PollCompleted, PollFailure)
        assert {event.task_type for event in polls} == {"loud"}

    async def test_a_paused_worker_has_no_timer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("conductor.worker.job.paused", "true")
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, Worker("job", nothing), clock=clock, events=events):
                await events.until(WorkerStarted)
                await turn_loop()
                assert clock.sleeping == 0

    async def test_pause_and_resume_at_run_time(self, conductor_stub: ConductorStub) -> None:
        gate, events = Gate(), Events()
        conductor_stub.add_task("job")
        async with working(conductor_stub, gate.worker("async def", poll_timeout=0), events=events) as handler:
            await gate.until_entered(1)
            handler.pause("job")
            conductor_stub.add_task("job")
            gate.let_go()
            await events.until(TaskExecutionCompleted)
            await conductor_stub.until_results(1)  # running tasks go on
            await turn_loop()
            seen = len(conductor_stub.polls())
            assert handler.task_runners[0].paused
            handler.resume("job")
            await conductor_stub.until_results(2)
            assert len(conductor_stub.polls()) > seen

    async def test_a_worker_paused_in_code_polls_when_it_is_resumed(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", nothing, paused=True), events=events) as handler:
            await events.until(WorkerStarted)
            await turn_loop()
            assert not conductor_stub.polls()
            handler.resume("job")
            await conductor_stub.until_results(1)

    async def test_only_the_named_worker_is_paused(self, conductor_stub: ConductorStub) -> None:
        workers = [Worker(name, nothing, poll_timeout=0) for name in ("a", "b")]
        async with working(conductor_stub, *workers) as handler:
            handler.pause("a")
            await conductor_stub.until(lambda: conductor_stub.polls("b"))
            seen = len(conductor_stub.polls("a"))
            for name in ("a", "b"):
                conductor_stub.add_task(name)
            await conductor_stub.until_results(1)
            assert conductor_stub.results[0]["outputData"] == {}
            assert len(conductor_stub.polls("a")) <= seen + 1, "at most the poll that was under way"
            handler.resume()
            await conductor_stub.until_results(2)

    async def test_a_worker_that_does_not_exist_cannot_be_paused(self, conductor_stub: ConductorStub) -> None:
        async with working(conductor_stub, Worker("job", nothing)) as handler:
            with pytest.raises(KeyError, match="jbo"):
                handler.pause("jbo")

    async def test_pause_of_an_idle_worker_takes_no_rest_when_its_poll_rings(self) -> None:
        """The long poll that is under way may bring one task; no further poll follows it."""
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock) as stub:
            async with working(stub, gate.worker("async def", thread_count=4), clock=clock) as handler:
                await clock.run_for(2)
                await stub.until(lambda: stub.parked_polls == 1)
                seen = len(stub.polls())
                handler.pause()
                stub.add_task("job")
                await gate.until_entered(1)
                await asyncio.sleep(0)
                assert len(stub.polls()) == seen
                gate.let_go()
