"""Leases on the worker: heartbeats, deadlines, and what a task learns of its loss."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionFailure,
    TaskExecutionStarted,
    TaskLeaseExtended,
    TaskLeaseLost,
    TaskUpdateCompleted,
)
from conductor.client.worker.worker import Worker
from conductor.protocol.wire import Verdict
from conductor.testing import ConductorStub, FakeClock, HalfOpen, Judge, Status

#: Time is turned by hand: no machine is too slow for it.
LEASE_S = 3600
BEAT_S = LEASE_S / 3
#: How patient a test is, in real seconds.
PATIENCE_S = 60.0


class Seen:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        self.events.append(event)

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        self.events.append(event)

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        self.events.append(event)

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.events.append(event)

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@asynccontextmanager
async def running(
    server: ConductorStub, function: Callable[..., Any], clock: FakeClock, **options: Any
) -> AsyncIterator[Seen]:
    """One slot: while its task runs, only the lease waits for the time."""
    seen = Seen()
    handler = TaskHandlerAsyncIO(
        workers=[Worker("job", function, **{"thread_count": 1, **options})],
        configuration=Configuration(server.url),
        event_listeners=[seen],
        clock=clock,
        shutdown_grace_seconds=0,
    )
    async with handler:
        yield seen
        server.stop()  # no poll is waited for, on a clock that stands still


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def beat(clock: FakeClock, condition: Callable[[], object]) -> None:
    """Let it be time for a heartbeat, and wait for what it brings."""
    await clock.until_sleeping()  # the watch over the leases: what comes before it has looked at the clock is too early
    clock.advance(BEAT_S)
    await until(condition)


async def pass_time_until(
    condition: Callable[[], object], clock: FakeClock, step_s: float, patience_s: float = 0.3
) -> None:
    """Let time pass step by step. After each, what follows from it is given some real time to happen."""
    while not condition():
        clock.advance(step_s)
        patient_until = time.monotonic() + patience_s
        while not condition() and time.monotonic() < patient_until:
            await asyncio.sleep(0.005)


async def long_poll_parked(server: ConductorStub, clock: FakeClock) -> None:
    """Wait until the worker has nothing to do and waits for work with a long poll."""

    def is_long() -> bool:
        return server.polls()[-1:] != [] and server.polls()[-1].query["timeout"] == "5000"

    # In small steps: one that went to the next sleeper could end the very poll that is waited for.
    while not is_long():
        clock.advance(0.05)
        await asyncio.sleep(0.002)
    await server.until(lambda: server.parked_polls == 1 and is_long(), PATIENCE_S)


@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p11_heartbeats_hold_a_lease_far_longer_than_its_response_timeout(leases: bool, clock: FakeClock) -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    with ConductorStub(leases=leases, clock=clock) as server:
        task_id = server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock, lease_extend_enabled=not leases) as seen:
            await until(lambda: seen.of(TaskExecutionStarted))
            for number in range(1, 6):
                await beat(clock, lambda n=number: len(seen.of(TaskLeaseExtended)) >= n)  # type: ignore[misc]
            release.set()
            await until(lambda: seen.of(TaskUpdateCompleted))
        assert server.results_for(task_id)[0]["outputData"] == {"result": "done"}
    assert not seen.of(TaskLeaseLost)
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


async def test_p11_heartbeats_go_on_while_a_task_blocks_the_event_loop(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The task really blocks the loop, until the heartbeats and the warning have been seen."""
    told = threading.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "event loop has been blocked" in record.getMessage():
                told.set()

    async def job() -> str:
        for beat in range(1, 4):
            clock.wait_sleeping()
            clock.advance(BEAT_S)
            server.wait_for(lambda n=beat: len(server.heartbeats) >= n, PATIENCE_S)  # type: ignore[misc]
        assert told.wait(PATIENCE_S), "the blocked loop was not reported"
        return "done"

    ear = Ear()
    logging.getLogger("conductor").addHandler(ear)
    try:
        with ConductorStub(leases=True, clock=clock) as server:
            server.add_task("job", response_timeout_seconds=LEASE_S)
            async with running(server, job, clock) as seen:
                await until(lambda: seen.of(TaskUpdateCompleted))
            assert len(server.results) == 1
    finally:
        logging.getLogger("conductor").removeHandler(ear)
    assert not seen.of(TaskLeaseLost)
    blocked = [record for record in caplog.records if "event loop has been blocked" in record.getMessage()]
    assert len(blocked) == 1
    first_line, _, stack = blocked[0].getMessage().partition("\n")
    assert f"({__file__}:" in first_line, "the first line names the user's own line"
    assert "in job" in stack


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p11_a_task_that_ends_a_long_wait_for_work_has_its_whole_lease(
    leases: bool, kind: str, clock: FakeClock
) -> None:
    """The poll was sent long ago, but the lease began later: a heartbeat finds out how much time is left."""

    def job() -> str:
        return "done"

    async def job_async() -> str:
        return "done"

    with ConductorStub(leases=leases, clock=clock) as server:
        async with running(server, job if kind == "def" else job_async, clock, idle_poll_timeout=5000) as seen:
            await long_poll_parked(server, clock)
            clock.advance(4.9)  # more than a quarter of the response timeout
            server.add_task("job", response_timeout_seconds=15)
            await until(lambda: seen.of(TaskUpdateCompleted))
        assert len(server.heartbeats) == 1
    assert not seen.of(TaskLeaseLost)
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


async def test_p11_a_task_that_was_lost_during_a_long_poll_is_not_begun(clock: FakeClock) -> None:
    begun = []

    async def job() -> None:
        begun.append(1)

    with ConductorStub(leases=True, clock=clock) as server:
        server.script("heartbeat", Judge(Verdict.CANCELLED))
        async with running(server, job, clock, idle_poll_timeout=5000) as seen:
            await long_poll_parked(server, clock)
            clock.advance(4.9)
            server.add_task("job", response_timeout_seconds=15)
            await until(lambda: seen.of(TaskLeaseLost))
        assert not server.results
    assert not begun


async def test_p11_an_outage_is_one_line_and_no_storm(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """Heartbeats that fail come again soon, but not more and more often until the lease ends."""

    async def job() -> None:
        await asyncio.Event().wait()

    with ConductorStub(leases=True, clock=clock) as server:
        server.script("heartbeat", Status(503, ""), repeat=True)
        server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock) as seen:
            await until(lambda: seen.of(TaskExecutionStarted))
            await beat(clock, lambda: server.heartbeats)
            began_s = clock.monotonic()
            await pass_time_until(lambda: len(server.heartbeats) >= 5, clock, 1)
            assert clock.monotonic() - began_s >= 4 * 0.8, "at least 0.8 s apart"
            await clock.until_sleeping()
            clock.advance(LEASE_S)
            await until(lambda: seen.of(TaskLeaseLost))
    assert sum("Heartbeat failed" in record.getMessage() for record in caplog.records) == 1


async def test_p11_one_failed_heartbeat_loses_nothing(clock: FakeClock) -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    with ConductorStub(leases=True, clock=clock) as server:
        server.script("heartbeat", Status(503, ""), Status(500, ""))
        server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock) as seen:
            await until(lambda: seen.of(TaskExecutionStarted))
            await beat(clock, lambda: server.heartbeats)
            await pass_time_until(lambda: seen.of(TaskLeaseExtended), clock, 1)
            assert len(server.heartbeats) == 3
            release.set()
            await until(lambda: seen.of(TaskUpdateCompleted))
    assert not seen.of(TaskLeaseLost)


async def test_a_lease_that_is_not_extended_is_lost_and_nothing_more_is_sent(clock: FakeClock) -> None:
    began = asyncio.Event()
    reasons: list[str | None] = []

    async def job() -> str:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reasons.append(get_task_context().cancel_reason)
            raise
        return "never"

    with ConductorStub(leases=True, clock=clock) as server:
        server.script("heartbeat", Status(503, ""), repeat=True)
        task_id = server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock) as seen:
            await until(began.is_set)
            await beat(clock, lambda: server.heartbeats)
            await clock.until_sleeping()
            clock.advance(LEASE_S)
            await until(lambda: seen.of(TaskLeaseLost))
            sent = len([r for r in server.requests if task_id.encode() in (r.body or b"")])
            await until(lambda: reasons)
        after = len([r for r in server.requests if task_id.encode() in (r.body or b"")])
        assert after <= sent + 1, "at most a heartbeat that was on its way already"
        assert not server.results
    assert reasons == [f"not extended for {LEASE_S} s, its response timeout"]
    assert not seen.of(TaskUpdateCompleted)
    assert not seen.of(TaskExecutionFailure)


@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p37_a_task_cancelled_on_the_server_is_stopped_by_the_next_heartbeat(
    leases: bool, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    flag = threading.Event()

    def job() -> str:
        context = get_task_context()
        assert context.wait_cancelled(PATIENCE_S)
        flag.set()
        context.raise_if_cancelled()
        return "never"

    with ConductorStub(leases=leases, clock=clock) as server:
        task_id = server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock, lease_extend_enabled=not leases) as seen:
            await until(lambda: seen.of(TaskExecutionStarted))
            await beat(clock, lambda: seen.of(TaskLeaseExtended))
            server.set_status(task_id, "CANCELED")
            await beat(clock, lambda: seen.of(TaskLeaseLost))
            await until(flag.is_set)
        assert not server.results
    assert sum("Lost the lease" in record.getMessage() for record in caplog.records) == 1


async def test_p33_a_heartbeat_that_is_never_answered_leaves_time_for_another(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    def given_up() -> bool:
        return any("Heartbeat failed" in record.getMessage() for record in caplog.records)

    with ConductorStub(leases=True, clock=clock) as server:
        server.script("heartbeat", HalfOpen())
        server.add_task("job", response_timeout_seconds=9)  # a request is given up after half of what is left
        async with running(server, job, clock) as seen:
            await until(lambda: seen.of(TaskExecutionStarted))
            await clock.until_sleeping()
            clock.advance(3)
            await until(lambda: server.heartbeats)
            await until(given_up)
            await pass_time_until(lambda: seen.of(TaskLeaseExtended), clock, 1, patience_s=3)
            release.set()
            await until(lambda: seen.of(TaskUpdateCompleted))
    assert not seen.of(TaskLeaseLost)


async def test_p10_the_lease_is_kept_while_the_report_waits_for_its_verdict(clock: FakeClock) -> None:
    async def job() -> str:
        return "done"

    with ConductorStub(leases=True, clock=clock) as server:
        server.hold("update")
        server.add_task("job", response_timeout_seconds=LEASE_S)
        async with running(server, job, clock) as seen:
            await server.until(lambda: server.held("update") == 1, PATIENCE_S)
            for number in range(1, 5):
                await beat(clock, lambda n=number: len(seen.of(TaskLeaseExtended)) >= n)  # type: ignore[misc]
            server.release("update")
            await until(lambda: seen.of(TaskUpdateCompleted))
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


@pytest.mark.parametrize("sync", [True, False], ids=["def", "async def"])
async def test_a_task_that_runs_longer_than_its_timeout_fails_at_once(sync: bool, clock: FakeClock) -> None:
    began, release = threading.Event(), threading.Event()

    def blocking() -> None:
        began.set()
        release.wait(PATIENCE_S)

    async def waiting() -> None:
        began.set()
        await asyncio.Event().wait()

    with ConductorStub(leases=True, clock=clock) as server:
        definition = {"name": "job", "timeoutSeconds": 1, "timeoutPolicy": "RETRY"}
        server.add_task("job", task_definition=definition)
        async with running(server, blocking if sync else waiting, clock) as seen:
            await until(began.is_set)
            await clock.until_sleeping()
            clock.advance(1)
            await until(lambda: seen.of(TaskUpdateCompleted))
            (result,) = server.results
            assert result["status"] == "FAILED"
            assert result["reasonForIncompletion"].startswith(
                "TimeoutError: the task ran longer than its timeout of 1 s"
            )
            assert len(seen.of(TaskExecutionFailure)) == 1
            if sync:  # the slot is stuck until the function returns
                later = server.add_task("job")
                polls = len(server.polls("job"))
                release.set()
                await server.until(lambda: len(server.polls("job")) > polls, PATIENCE_S)
                await server.until(lambda: server.results_for(later), PATIENCE_S)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(409, Verdict.CANCELLED), (409, Verdict.REJECTED), (404, Verdict.REJECTED), (400, Verdict.REJECTED)],
)
async def test_after_any_verdict_a_report_is_never_sent_again(status: int, verdict: Verdict, clock: FakeClock) -> None:
    async def job() -> str:
        return "done"

    with ConductorStub(leases=True, clock=clock) as server:
        body = {"status": status, "message": "no", "retryable": True, "verdict": verdict}
        server.script("update", Status(status, body, {"Conductor-Verdict": verdict}))
        server.add_task("job")
        async with running(server, job, clock) as seen:
            await until(lambda: seen.of(TaskUpdateCompleted))
        assert len(server.requests_of("update")) == 1
    assert [(event.verdict, event.inferred) for event in seen.of(TaskUpdateCompleted)] == [(verdict, False)]
