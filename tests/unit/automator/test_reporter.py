"""Reports: which are sent again, which never are, and their verdicts. Time is a clock that the tests turn."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.automator.journal import read_contents
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.context.task_context import get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskLeaseLost,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    TaskUpdateRetried,
)
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.worker import Worker
from conductor.protocol.wire import Verdict
from conductor.testing import (
    Behaviour,
    CloseAfter,
    ConductorStub,
    FakeClock,
    Judge,
    Malformed,
    Pass,
    Reset,
    Status,
)
from tests.unit.automator.worker_fixture import KINDS, Events, Gate, lines, turn_loop, working

#: Answers that say nothing about the report: it is sent again.
SENT_AGAIN: dict[str, Behaviour] = {
    "500": Status(500),
    "502": Status(502, "<html>bad gateway</html>"),
    "503": Status(503),
    "504": Status(504),
    "408": Status(408),
    "429": Status(429),
    "connection reset": Reset(),
    "answer lost": Reset(applied=True),
    "answer cut short": Malformed(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nab", raw=True),
}
#: Answers of a Conductor server that are final: the report is wrong, and stays wrong.
SENT_ONCE = [300, 302, 304, 400, 402, 404, 405, 406, 409, 410, 411, 412, 414, 415, 418, 422, 423, 431, 451]


def answer(value: int = 42) -> dict[str, int]:
    return {"answer": value}


def waits_of(clock: FakeClock) -> list[float]:
    """The waits between attempts: longer than any wait between polls here, shorter than a lease."""
    return [wait for wait in clock.sleeps if 5 <= wait < 1000]


def updates(stub: ConductorStub) -> list[Any]:
    return [request.json for request in stub.requests_of("update")]


async def pass_waits(clock: FakeClock, count: int) -> None:
    """Let that many waits between attempts go by."""
    for _ in range(count):
        await clock.advance_to_next(2)  # the report, and the watch over its lease


async def until_parked(clock: FakeClock, wait_s: float) -> None:
    """Wait until a report waits that long, or up to a tenth longer, for its next attempt."""
    async with asyncio.timeout(60):
        while not any(wait_s <= wait <= wait_s * 1.1 for wait in clock.sleeps):
            await asyncio.sleep(0.005)


class TestAttempts:
    @pytest.mark.parametrize("behaviour", SENT_AGAIN.values(), ids=SENT_AGAIN.keys())
    async def test_four_attempts_ten_twenty_thirty_seconds_apart(self, behaviour: Behaviour) -> None:
        """P01: whatever the transport or the server does, an async worker's result is sent again too."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", behaviour, repeat=True)
            task_id = stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events, journal_enabled=False):
                await pass_waits(clock, 3)
                (failure,) = await events.until(TaskUpdateFailure)
        # A kept-alive connection that is lost is replaced once, silently; that is no attempt of its own.
        assert len(updates(stub)) in ((4,) if isinstance(behaviour, Status) else range(4, 9))
        assert [event.attempt for event in events.of(TaskUpdateRetried)] == [1, 2, 3, 4]
        for wait, shortest in zip(waits_of(clock), [10, 20, 30], strict=True):
            assert shortest <= wait <= shortest * 1.1
        assert (failure.task_id, failure.retry_count, failure.journaled) == (task_id, 4, False)
        assert failure.task_result.output_data == {"answer": 42}
        assert failure.task_result.status is TaskResultStatus.COMPLETED
        assert failure.task_result.task_id == task_id

    @pytest.mark.parametrize("leases", [False, True], ids=["Conductor server", "coordinator"])
    async def test_all_four_attempts_are_made_after_the_end_of_the_lease_c08(self, leases: bool) -> None:
        """Each wait is longer than the response timeout, which no heartbeat extends."""
        clock, events = FakeClock(), Events()
        with ConductorStub(leases=leases, clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            stub.script("heartbeat", Status(500), repeat=True)
            stub.add_task("job", response_timeout_seconds=60)
            worker = Worker("job", answer, thread_count=1, update_retry_delay_seconds=1000)
            async with working(stub, worker, clock=clock, events=events):
                for attempt in (1, 2, 3):
                    await until_parked(clock, attempt * 1000)
                    clock.advance(attempt * 1100)
                (failure,) = await events.until(TaskUpdateFailure)
            assert len(updates(stub)) == 4
        assert (failure.retry_count, failure.journaled) == (4, True)
        assert not events.of(TaskLeaseLost)

    @pytest.mark.parametrize("leases", [False, True], ids=["Conductor server", "coordinator"])
    async def test_a_task_that_the_server_takes_away_between_attempts_ends_the_report_c08(self, leases: bool) -> None:
        """The server says that the task is lost. Nothing more is sent, and the failure is published."""
        clock, events = FakeClock(), Events()
        with ConductorStub(leases=leases, clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            task_id = stub.add_task("job", response_timeout_seconds=60)
            worker = Worker("job", answer, thread_count=1, lease_extend_enabled=True, update_retry_delay_seconds=1000)
            async with working(stub, worker, clock=clock, events=events):
                await until_parked(clock, 1000)
                stub.set_status(task_id, "CANCELED")
                clock.advance(21)  # a heartbeat is due after a third of the response timeout
                await events.until(TaskLeaseLost)
                clock.advance(1200)
                (failure,) = await events.until(TaskUpdateFailure)
                (completed,) = await events.until(TaskUpdateCompleted)
            assert len(updates(stub)) == 1
        assert (failure.retry_count, failure.journaled) == (1, False)
        assert (completed.verdict, completed.inferred) == (Verdict.CANCELLED, True)

    @pytest.mark.parametrize("failures", [1, 2, 3])
    @pytest.mark.parametrize("kind", KINDS)
    async def test_the_first_answer_ends_it(self, kind: str, failures: int) -> None:
        clock, events, gate = FakeClock(), Events(), Gate()
        gate.let_go()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", *[Status(503)] * failures)
            stub.add_task("job")
            async with working(stub, gate.worker(kind), clock=clock, events=events):
                await pass_waits(clock, failures)
                (completed,) = await events.until(TaskUpdateCompleted)
        assert len(updates(stub)) == failures + 1
        assert (completed.verdict, completed.attempts) == (Verdict.COMMITTED, failures + 1)
        assert completed.duration_ms == pytest.approx(1000 * sum(waits_of(clock)))
        assert [event.attempt for event in events.of(TaskUpdateRetried)] == list(range(1, failures + 1))
        assert not events.of(TaskUpdateFailure)

    async def test_a_server_that_comes_back_gets_the_result(self) -> None:
        clock, gate = FakeClock(), Gate()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job")
            async with working(stub, gate.worker("async def"), clock=clock):
                await gate.until_entered(1)
                stub.stop()
                gate.let_go()
                await clock.until_sleeping(2)
                stub.start()
                await pass_waits(clock, 1)
                await stub.until_results(1)
            assert [result["status"] for result in stub.results] == ["COMPLETED"]

    async def test_a_report_is_sent_soon_after_a_restart_of_the_server_o02(self) -> None:
        """The slots of a busy worker must not stay occupied for ten seconds after a restart of two seconds."""
        clock, events, gate = FakeClock(), Events(), Gate()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job")
            async with working(stub, gate.worker("async def"), clock=clock, events=events):
                await gate.until_entered(1)
                stub.stop()
                gate.let_go()
                await events.until(TaskUpdateRetried)
                for _ in range(3):  # the server does not run: each probe fails
                    await clock.until_sleeping(3)  # the report, the watch over its lease, and the probe
                    assert await clock.advance_to_next(3) <= 2
                await clock.until_sleeping(3)
                stub.start()
                await clock.advance_to_next(3)
                (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.attempts) == (Verdict.COMMITTED, 2)
        assert completed.duration_ms < 10_000

    async def test_a_server_that_fails_again_gets_the_later_attempts_at_their_usual_times_o02(self) -> None:
        """A server that starts and fails again and again must not use up all attempts within seconds."""
        clock, events, gate = FakeClock(), Events(), Gate()
        with ConductorStub(clock=clock) as stub:
            stub.add_task("job")
            async with working(stub, gate.worker("async def"), clock=clock, events=events, journal_enabled=False):
                await gate.until_entered(1)
                stub.stop()
                gate.let_go()
                await events.until(TaskUpdateRetried)
                await clock.until_sleeping(3)
                stub.script("update", Reset(), repeat=True)
                stub.start()
                await clock.advance_to_next(3)
                await events.until(TaskUpdateRetried, 2)
                stub.stop()
                before_s = clock.monotonic()
                await pass_waits(clock, 1)
                await events.until(TaskUpdateRetried, 3)
        assert clock.monotonic() - before_s >= 20

    async def test_every_attempt_is_the_same_report(self) -> None:
        """A repeated report has the same report id, so that the server gives the same answer."""
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Reset(applied=True), Status(500))
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock):
                await pass_waits(clock, 2)
                await stub.until(lambda: len(updates(stub)) == 3)
        first, second, third = updates(stub)
        assert first == second == third
        assert first["reportId"]

    async def test_a_lost_connection_that_was_kept_alive_is_no_failed_attempt(self) -> None:
        """P35: the server may close an idle connection just as it is used again."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("poll", CloseAfter())
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                (completed,) = await events.until(TaskUpdateCompleted)
        assert completed.attempts == 1
        assert not events.of(TaskUpdateRetried)

    async def test_attempts_and_waits_are_options(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            stub.add_task("job")
            worker = Worker("job", answer, update_attempts=2, update_retry_delay_seconds=100)
            async with working(stub, worker, clock=clock, events=events, journal_enabled=False):
                await pass_waits(clock, 1)
                (failure,) = await events.until(TaskUpdateFailure)
        assert (failure.retry_count, len(updates(stub))) == (2, 2)
        assert 100 <= waits_of(clock)[0] <= 110

    async def test_the_slot_is_held_meanwhile(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", *[Status(500)] * 4)
            stub.add_task("job")
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events, journal_enabled=False):
                await pass_waits(clock, 3)
                await events.until(TaskUpdateFailure)
                polls_before = events.names[: events.names.index("TaskUpdateFailure")].count("PollStarted")
                await stub.until_results(1)  # then the second task has its turn
        assert polls_before == 1

    async def test_other_slots_go_on(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stuck = stub.add_task("job")
            stub.script(lambda r: r.route == "update" and r.json["taskId"] == stuck, Status(500), repeat=True)
            async with working(stub, Worker("job", answer, thread_count=2), clock=clock):
                await stub.until(lambda: len(updates(stub)) == 1)
                for _ in range(3):
                    stub.add_task("job")
                await clock.advance_to_next(3)
                await stub.until_results(3)
            assert stuck not in {result["taskId"] for result in stub.results}


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "shortest", "longest"),
        [("7", 7, 7), ("3600", 60, 60), ("0", 0, 11), ("soon", 10, 11), ("-5", 10, 11), ("", 10, 11)],
    )
    @pytest.mark.parametrize("status", [429, 503])
    async def test_retry_after_is_honoured_within_bounds(
        self, status: int, header: str, shortest: float, longest: float
    ) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(status, headers={"Retry-After": header}))
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock):
                await pass_waits(clock, 1)
                await stub.until_results(1)
        assert shortest <= waits_of(clock)[0] <= longest


class TestFinalAnswers:
    @pytest.mark.parametrize("status", SENT_ONCE)
    async def test_a_report_with_any_other_status_is_sent_once(
        self, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """P08: a report that is wrong stays wrong; the slot is free at once."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(status))
            first = stub.add_task("job")
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                await stub.until_results(1)
                completed, _ = await events.until(TaskUpdateCompleted, 2)
        assert [update["taskId"] for update in updates(stub)].count(first) == 1
        assert (completed.verdict, completed.inferred, completed.attempts) == (Verdict.REJECTED, True, 1)
        assert completed.reason
        assert not waits_of(clock)
        assert any(first in line and "REJECTED" in line for line in lines(caplog, logging.ERROR))

    @pytest.mark.parametrize("status", [200, 201, 204])
    async def test_a_success_answer_means_committed(self, conductor_stub: ConductorStub, status: int) -> None:
        events = Events()
        conductor_stub.script("update", Status(status))
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer), events=events):
            (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.inferred, completed.reason) == (Verdict.COMMITTED, True, None)

    @pytest.mark.parametrize("verdict", Verdict)
    @pytest.mark.parametrize("leases", [False, True])
    async def test_a_verdict_is_final(self, verdict: Verdict, leases: bool) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock, leases=leases) as stub:
            stub.script("update", Judge(verdict))
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.inferred) == (verdict, False)
        assert len(updates(stub)) == 1

    @pytest.mark.parametrize("status", [500, 503, 429, 408, 401])
    async def test_a_verdict_counts_whatever_the_status(self, conductor_stub: ConductorStub, status: int) -> None:
        events = Events()
        body = {"status": status, "message": "superseded", "verdict": "CANCELLED"}
        conductor_stub.script("update", Status(status, body))
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer), events=events):
            (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.inferred, completed.reason) == (Verdict.CANCELLED, False, "superseded")
        assert len(updates(conductor_stub)) == 1

    async def test_a_verdict_of_another_world_is_none(self, conductor_stub: ConductorStub) -> None:
        """A word that we do not understand is no verdict; the report is sent again."""
        events = Events()
        conductor_stub.script("update", Status(200, headers={"Conductor-Verdict": "PERHAPS"}))
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer, update_retry_delay_seconds=0), events=events):
            (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.inferred, completed.attempts) == (Verdict.COMMITTED, True, 2)

    async def test_after_cancelled_nothing_more_is_sent(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        conductor_stub.script("update", Judge(Verdict.CANCELLED))
        task_id = conductor_stub.add_task("job")
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer), events=events):
            await events.until(TaskUpdateCompleted, 2)
        about = [request for request in conductor_stub.requests if task_id.encode() in request.body]
        assert len(about) == 1


class TestRefusals:
    """401 and 403: a new token and one more try, and no waiting for a wonder."""

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_renewed_token_helps_at_once(self, status: int) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock, auth=("key", "secret")) as stub:
            stub.script("update", Status(status))
            stub.add_task("job")
            await self._run(stub, clock, events)
        assert len(stub.tokens) == 2
        assert [request.headers["x-authorization"] for request in stub.requests_of("update")] == stub.tokens
        (completed,) = events.of(TaskUpdateCompleted)
        assert (completed.verdict, completed.attempts) == (Verdict.COMMITTED, 1)

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_second_refusal_ends_the_attempts(self, status: int) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock, auth=("key", "secret")) as stub:
            stub.script("update", Status(status), repeat=True)
            stub.add_task("job")
            await self._run(stub, clock, events)
        assert len(updates(stub)) == 2
        (failure,) = events.of(TaskUpdateFailure)
        assert (failure.retry_count, failure.journaled) == (1, False)
        assert str(status) in str(failure.cause)
        assert not waits_of(clock)

    @pytest.mark.parametrize("status", [401, 403])
    async def test_without_a_key_a_refused_report_is_tried_once(self, status: int) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(status), repeat=True)
            stub.add_task("job")
            await self._run(stub, clock, events)
        assert len(updates(stub)) == 1
        assert len(events.of(TaskUpdateFailure)) == 1

    async def _run(self, stub: ConductorStub, clock: FakeClock, events: Events) -> None:
        configuration = Configuration(stub.url, authentication_settings=AuthenticationSettings("key", "secret"))
        options: dict[str, Any] = {"event_listeners": [events], "clock": clock, "journal_enabled": False}
        assert await AsyncTaskRunner(Worker("job", answer), configuration, **options).run_once() == 1


class TestAConductorServer:
    """A Conductor server answers 200 to everything; the worker can look for itself."""

    @pytest.mark.parametrize(
        ("now", "verdict"),
        [
            ({"status": "COMPLETED"}, Verdict.COMMITTED),
            ({"status": "IN_PROGRESS"}, Verdict.COMMITTED),
            ({"status": "CANCELED"}, Verdict.CANCELLED),
            ({"status": "TIMED_OUT"}, Verdict.CANCELLED),
            ({"status": "FAILED"}, Verdict.CANCELLED),
            ({"status": "COMPLETED", "worker_id": "another"}, Verdict.CANCELLED),
            ({"status": "IN_PROGRESS", "worker_id": "another"}, Verdict.CANCELLED),
            ({"status": "IN_PROGRESS", "poll_count": 2}, Verdict.CANCELLED),
        ],
    )
    async def test_verify_reports_reads_the_task_back(
        self, conductor_stub: ConductorStub, now: dict[str, Any], verdict: Verdict
    ) -> None:
        events = Events()
        task_id = conductor_stub.add_task("job")
        conductor_stub.script("update", Status(200, task_id))
        body = conductor_stub.task(task_id).to_dict() | {"workerId": "me", "pollCount": 1}
        names = {"worker_id": "workerId", "poll_count": "pollCount"}
        conductor_stub.script("task", Status(200, body | {names.get(k, k): v for k, v in now.items()}))
        worker = Worker("job", answer, verify_reports=True, worker_id="me")
        async with working(conductor_stub, worker, events=events):
            (completed,) = await events.until(TaskUpdateCompleted)
        assert (completed.verdict, completed.inferred) == (verdict, True)

    async def test_a_task_that_is_gone_was_not_ours_any_more(self, conductor_stub: ConductorStub) -> None:
        events = Events()
        conductor_stub.script("task", Status(404))
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer, verify_reports=True), events=events):
            (completed,) = await events.until(TaskUpdateCompleted)
        assert completed.verdict is Verdict.CANCELLED

    async def test_without_the_option_no_task_is_read_back(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.add_task("job")
        events = Events()
        async with working(conductor_stub, Worker("job", answer), events=events):
            await events.until(TaskUpdateCompleted)
        assert not conductor_stub.requests_of("task")


class TestTheEnd:
    """All attempts failed."""

    async def test_without_a_journal_the_loss_is_critical(self, caplog: pytest.LogCaptureFixture) -> None:
        task_id = await self._lose(journal_enabled=False)
        (line,) = lines(caplog, logging.CRITICAL)
        assert line.startswith(f"Task update failed after 4 attempts. Task result LOST for task_id={task_id}")
        assert not any(record.exc_info for record in caplog.records)

    async def test_a_disk_that_was_full_may_have_room_by_then(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        write, refused = os.write, list[int]()

        def full_at_first(file: int, data: bytes) -> int:
            if b"COMPLETED" in data and not refused:
                refused.append(len(data))
                raise OSError(28, "No space left on device")
            return write(file, data)

        monkeypatch.setattr(os, "write", full_at_first)
        task_id = await self._lose(journal_enabled=True)
        assert refused
        said = lines(caplog, logging.CRITICAL)
        assert [line for line in said if "LOST" in line] == []
        error = lines(caplog, logging.ERROR)[-1]
        assert "; the result waits in " in error
        assert error.count(task_id) == 1

    async def test_with_a_journal_nothing_is_lost(self, caplog: pytest.LogCaptureFixture) -> None:
        task_id = await self._lose(journal_enabled=True)
        assert not lines(caplog, logging.CRITICAL)
        last = lines(caplog, logging.ERROR)[-1]
        assert task_id in last
        assert ".journal" in last, "it says where the result waits"

    async def test_each_failed_attempt_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        await self._lose(journal_enabled=False)
        said = [line for line in lines(caplog, logging.ERROR) if line.startswith("Failed to update task")]
        assert [line.partition(":")[0] for line in said] == [
            f"Failed to update task (attempt {n}/4)" for n in (1, 2, 3, 4)
        ]

    async def test_a_success_is_a_debug_line(
        self, conductor_stub: ConductorStub, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        events = Events()
        task_id = conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", answer), events=events):
            await events.until(TaskUpdateCompleted)
        said = lines(caplog, logging.DEBUG)
        assert any(line.startswith(f"Updated task {task_id} successfully") for line in said)

    async def test_the_event_says_that_the_result_is_safe(self) -> None:
        events = Events()
        await self._lose(journal_enabled=True, events=events)
        assert events.of(TaskUpdateFailure)[0].journaled

    async def test_the_journal_delivers_when_the_server_is_back(self) -> None:
        clock = FakeClock()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", *[Status(500)] * 4)
            task_id = stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock):
                await pass_waits(clock, 3)
                await until_parked(clock, 40)
                clock.advance(44)
                await stub.until_results(1)
                assert stub.results_for(task_id)[0]["outputData"] == {"answer": 42}

    async def test_the_journal_waits_longer_after_each_failure_c09(self) -> None:
        """The first wait of the journal is longer than the last wait of the report."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                await pass_waits(clock, 3)
                await events.until(TaskUpdateFailure)
                for attempts, wait_s in ((4, 40), (5, 80), (6, 120)):
                    await until_parked(clock, wait_s)
                    assert len(updates(stub)) == attempts
                    clock.advance(wait_s * 1.1)
                await stub.until(lambda: len(updates(stub)) == 7)

    async def test_a_kept_result_that_had_arrived_is_committed(self) -> None:
        """All answers were lost: on a Conductor server the task itself says that a report was taken."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Reset(applied=True), repeat=True)
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                await pass_waits(clock, 3)
                await until_parked(clock, 40)
                clock.advance(44)
                (completed,) = await events.until(TaskUpdateCompleted)
            assert (completed.verdict, completed.inferred) == (Verdict.COMMITTED, True)

    async def test_a_kept_result_is_not_dropped_because_the_task_cannot_be_found(self) -> None:
        """404 may be a proxy's word: what the server says to the report itself counts."""
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", *[Status(500)] * 4)
            stub.script("task", Status(404))
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                await pass_waits(clock, 3)
                await until_parked(clock, 40)
                clock.advance(44)
                (completed,) = await events.until(TaskUpdateCompleted)
            assert completed.verdict is Verdict.COMMITTED
            assert len(stub.results) == 1

    async def _lose(self, *, journal_enabled: bool, events: Events | None = None) -> str:
        clock, seen = FakeClock(), events or Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(500), repeat=True)
            task_id = stub.add_task("job")
            options = {"clock": clock, "events": seen, "journal_enabled": journal_enabled}
            async with working(stub, Worker("job", answer), **options):  # type: ignore[arg-type]
                await pass_waits(clock, 3)
                await seen.until(TaskUpdateFailure)
        return task_id


class Moment:
    """Async tasks that all end in the same turn of the event loop."""

    def __init__(self) -> None:
        self.entered = Gate()
        self.come = asyncio.Event()
        self.entered.let_go()

    def worker(self, thread_count: int) -> Worker:
        async def wait() -> dict[str, int]:
            await self.entered.enter_async()
            await self.come.wait()
            return {"answer": 42}

        return Worker("job", wait, thread_count=thread_count)

    async def of(self, count: int) -> None:
        """Let that many tasks come, and end."""
        await self.entered.until_entered(count)
        await turn_loop()
        self.come.set()


class TestBatches:
    """A server that takes arrays of reports gets one request for all that ended in the same moment."""

    async def test_results_of_one_moment_travel_together(self) -> None:
        moment, events = Moment(), Events()
        with ConductorStub(leases=True) as stub:
            for _ in range(8):
                stub.add_task("job")
            async with working(stub, moment.worker(8), events=events):
                await moment.of(8)
                await events.until(TaskUpdateCompleted, 8)
            assert len(stub.results) == 8
        assert [len(request.json) for request in stub.requests_of("reports")] == [8]
        assert {event.verdict for event in events.of(TaskUpdateCompleted)} == {Verdict.COMMITTED}

    async def test_a_conductor_server_never_sees_an_array(self, conductor_stub: ConductorStub) -> None:
        moment = Moment()
        for _ in range(8):
            conductor_stub.add_task("job")
        async with working(conductor_stub, moment.worker(8)):
            await moment.of(8)
            await conductor_stub.until_results(8)
        assert not conductor_stub.requests_of("reports")

    async def test_each_report_of_an_array_has_its_own_verdict(self) -> None:
        moment, events = Moment(), Events()
        with ConductorStub(leases=True) as stub:
            ids = [stub.add_task("job") for _ in range(4)]
            async with working(stub, moment.worker(4), events=events):
                await moment.entered.until_entered(4)
                stub.set_status(ids[1], "CANCELED")
                await moment.of(4)
                await events.until(TaskUpdateCompleted, 4)
        verdicts = {event.task_id: event.verdict for event in events.of(TaskUpdateCompleted)}
        assert verdicts[ids[1]] is Verdict.CANCELLED
        assert [verdicts[task_id] for task_id in ids].count(Verdict.COMMITTED) == 3

    @pytest.mark.parametrize("behaviour", [Malformed(b"[]"), Malformed(b"nonsense"), Status(500), Status(503)])
    async def test_an_array_without_answers_is_sent_again(self, behaviour: Behaviour) -> None:
        clock, moment, events = FakeClock(), Moment(), Events()
        with ConductorStub(leases=True, clock=clock) as stub:
            for _ in range(3):
                stub.add_task("job")
            stub.script("reports", behaviour)
            async with working(stub, moment.worker(3), clock=clock, events=events):
                await moment.of(3)
                await clock.until_sleeping(4)  # three reports and the watch over their leases
                clock.advance(11)
                await events.until(TaskUpdateCompleted, 3)
        assert len(stub.results) == 3

    async def test_an_array_that_is_too_large_is_sent_in_pieces(self) -> None:
        moment, events = Moment(), Events()
        with ConductorStub(leases=True) as stub:
            for _ in range(3):
                stub.add_task("job")
            stub.script("reports", Status(413))
            async with working(stub, moment.worker(3), events=events):
                await moment.of(3)
                await events.until(TaskUpdateCompleted, 3)
            assert len(stub.results) == 3
        assert not events.of(TaskUpdateRetried)


class TestLogs:
    @pytest.mark.parametrize("count", [0, 1, 10, 11, 25])
    async def test_p38_all_logs_of_a_report_arrive(self, conductor_stub: ConductorStub, count: int) -> None:
        """A Conductor server keeps ten logs of a report; the rest goes before it."""

        def talk() -> None:
            for n in range(count):
                get_task_context().add_log(f"line {n}")

        task_id = conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", talk)):
            await conductor_stub.until_results(1)
        assert sorted(conductor_stub.logs(task_id)) == sorted(f"line {n}" for n in range(count))
        routes = [request.route for request in conductor_stub.requests if request.route in ("log", "update")]
        assert routes == ["log"] * max(0, count - 10) + ["update"]

    @pytest.mark.parametrize(("leases", "count"), [(True, 1), (False, 1), (False, 11)])
    async def test_half_a_surrogate_pair_loses_no_report(self, leases: bool, count: int) -> None:
        """As in names of files that are not UTF-8."""

        def talk() -> None:
            for _ in range(count):
                get_task_context().add_log("a file \udce9")
            raise ValueError("cannot read \udce9")

        with ConductorStub(leases=leases) as stub:
            task_id = stub.add_task("job")
            async with working(stub, Worker("job", talk)):
                await stub.until_results(1)
            (result,) = stub.results_for(task_id)
            assert result["reasonForIncompletion"] == "ValueError: cannot read \\udce9"
            assert stub.logs(task_id).count("a file \\udce9") == count

    async def test_logs_that_cannot_be_sent_do_not_hold_up_the_result(self, conductor_stub: ConductorStub) -> None:
        conductor_stub.script("log", Status(500), repeat=True)
        conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", talk_a_lot)):
            await conductor_stub.until_results(1)
        assert len(conductor_stub.requests_of("log")) == 1

    async def test_the_result_is_on_disk_before_the_logs_travel(self, conductor_stub: ConductorStub) -> None:
        """A process that dies while it sends logs does not take the result along."""
        conductor_stub.hold("log")
        task_id = conductor_stub.add_task("job")
        async with working(conductor_stub, Worker("job", talk_a_lot)):
            await conductor_stub.until(lambda: conductor_stub.held("log") == 1)
            directory = Path(os.environ["CONDUCTOR_WORKER_JOURNAL_DIR"])
            kept = [
                entry for path in directory.iterdir() for entry in read_contents(path.read_bytes()).reports.values()
            ]
            assert [entry.task_id for entry in kept] == [task_id]
            conductor_stub.release()
            await conductor_stub.until_results(1)

    async def test_a_task_that_is_lost_while_the_logs_travel_is_not_reported(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.hold("log")
            task_id = stub.add_task("job", response_timeout_seconds=30)
            worker = Worker("job", talk_a_lot, thread_count=1, lease_extend_enabled=True)
            async with working(stub, worker, clock=clock, events=events):
                await stub.until(lambda: stub.held("log") == 1)
                stub.set_status(task_id, "CANCELED")
                await clock.until_sleeping(1)
                clock.advance(11)  # a heartbeat is due after a third of the response timeout
                await events.until(TaskLeaseLost)
                stub.release()
                (completed,) = await events.until(TaskUpdateCompleted)
            assert not stub.requests_of("update")
        assert completed.verdict is Verdict.CANCELLED


def talk_a_lot() -> None:
    for n in range(15):
        get_task_context().add_log(f"line {n}")


class TestTheWholeStory:
    async def test_events_of_a_report_come_in_order(self) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock) as stub:
            stub.script("update", Status(500), Status(500))
            stub.add_task("job")
            async with working(stub, Worker("job", answer), clock=clock, events=events):
                await pass_waits(clock, 2)
                await events.until(TaskUpdateCompleted)
        names = [name for name in events.names if name.startswith("Task")]
        assert names == [
            "TaskExecutionStarted",
            "TaskExecutionCompleted",
            "TaskUpdateRetried",
            "TaskUpdateRetried",
            "TaskUpdateCompleted",
        ]
        assert [event.delay_s for event in events.of(TaskUpdateRetried)] == waits_of(clock)
        assert events.of(TaskExecutionCompleted)[0].output_size_bytes == len(b'{"answer":42}')


#: Everything a server can say to a report, and whether that is the end of it.
SAYINGS: dict[str, tuple[Behaviour, bool]] = {
    **{name: (behaviour, False) for name, behaviour in SENT_AGAIN.items()},
    **{str(verdict): (Judge(verdict), True) for verdict in Verdict},
    **{str(status): (Status(status), True) for status in (400, 404, 409, 422)},
    "accepted": (Pass(), True),
    "a verdict on a 500": (Status(500, {"verdict": "REJECTED"}), True),
}


class TestNeverAfterAVerdict:
    """Property: whatever the server says, in whatever order, nothing is sent after a verdict, and never five times."""

    def test_no_report_is_sent_after_its_verdict(self) -> None:
        with ConductorStub() as stub:

            @settings(max_examples=40)
            @given(st.lists(st.lists(st.sampled_from(sorted(SAYINGS)), min_size=1, max_size=6), min_size=1, max_size=4))
            def holds(schedules: list[list[str]]) -> None:
                asyncio.run(self._holds(stub, schedules))

            holds()

    async def _holds(self, stub: ConductorStub, schedules: list[list[str]]) -> None:
        events = Events()
        stub.clear_script()
        ids = [self._plan(stub, schedule) for schedule in schedules]
        worker = Worker("job", answer, thread_count=len(ids), update_retry_delay_seconds=0)
        runner = AsyncTaskRunner(worker, Configuration(stub.url), event_listeners=[events], journal_enabled=False)
        assert await runner.run_once() == len(ids)
        for task_id, schedule in zip(ids, schedules, strict=True):
            self._check(stub, events, task_id, schedule)

    def _plan(self, stub: ConductorStub, schedule: list[str]) -> str:
        task_id = stub.add_task("job")
        behaviours = [SAYINGS[saying][0] for saying in schedule]
        stub.script(lambda r: r.route == "update" and r.json["taskId"] == task_id, *behaviours)
        return task_id

    def _check(self, stub: ConductorStub, events: Events, task_id: str, schedule: list[str]) -> None:
        said = [*schedule, *["accepted"] * 8]  # the stub behaves when the script is over
        sent = len([update for update in updates(stub) if update["taskId"] == task_id])
        heard = said[:sent]
        assert not any(SAYINGS[saying][1] for saying in heard[:-1]), f"sent again after a verdict: {heard}"
        # A connection that is lost after it had been kept alive is replaced once, silently.
        lost = sum(isinstance(SAYINGS[saying][0], Reset | Malformed) for saying in heard)
        assert sent <= 4 + lost
        judged = SAYINGS[heard[-1]][1]
        assert judged or sent >= 4, f"given up too early: {heard}"
        assert len([event for event in events.of(TaskUpdateCompleted) if event.task_id == task_id]) == judged
        assert len([event for event in events.of(TaskUpdateFailure) if event.task_id == task_id]) == (not judged)
