"""Leases on the worker: heartbeats, deadlines, and what a task learns of its loss."""

from __future__ import annotations

import asyncio
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
    TaskLeaseExtended,
    TaskLeaseLost,
    TaskUpdateCompleted,
)
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub, Delay, HalfOpen, Judge, Status
from conductor.wire import Verdict


class Seen:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.events: list[Any] = []

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


@asynccontextmanager
async def running(server: ConductorStub, function: Callable[..., Any], **options: Any) -> AsyncIterator[Seen]:
    seen = Seen()
    worker = Worker("job", function, **{"idle_poll_timeout": 100, **options})
    handler = TaskHandlerAsyncIO(
        workers=[worker], configuration=Configuration(server.url), event_listeners=[seen], shutdown_grace_seconds=5
    )
    async with handler:
        yield seen


async def until(condition: Callable[[], object], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p11_heartbeats_hold_a_lease_far_longer_than_its_response_timeout(leases: bool) -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    with ConductorStub(leases=leases) as server:
        async with running(server, job, lease_extend_enabled=not leases) as seen:
            task_id = server.add_task("job", response_timeout_seconds=3)
            await server.until(lambda: len(server.heartbeats) >= 5, timeout=30)
            release.set()
            await server.until_results(1)
        assert server.results_for(task_id)[0]["outputData"] == {"result": "done"}
    assert len(seen.of(TaskLeaseExtended)) >= 4
    assert not seen.of(TaskLeaseLost)
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


async def test_p11_heartbeats_go_on_while_a_task_blocks_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def job() -> str:
        time.sleep(5.2)  # far longer than the response timeout
        return "done"

    with ConductorStub(leases=True) as server:
        async with running(server, job) as seen:
            server.add_task("job", response_timeout_seconds=3)
            await server.until_results(1, timeout=30)
        assert len(server.heartbeats) >= 3
    assert not seen.of(TaskLeaseLost)
    blocked = [record for record in caplog.records if "event loop has been blocked" in record.getMessage()]
    assert len(blocked) == 1
    assert "time.sleep(5.2)" in blocked[0].getMessage()


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p11_a_task_that_ends_a_long_wait_for_work_has_its_whole_lease(leases: bool, kind: str) -> None:
    """The poll was sent long ago, but nobody held the task then: a heartbeat finds out how much time there is."""

    def job() -> str:
        return "done"

    async def job_async() -> str:
        return "done"

    with ConductorStub(leases=leases) as server:
        async with running(server, job if kind == "def" else job_async, idle_poll_timeout=4000) as seen:
            await server.until(lambda: any(poll.query.get("timeout") == "4000" for poll in server.polls()))
            await asyncio.sleep(1.3)  # longer than the response timeout
            server.add_task("job", response_timeout_seconds=1)
            await server.until_results(1)
        assert len(server.heartbeats) == 1
    assert not seen.of(TaskLeaseLost)
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


async def test_p11_a_task_that_was_lost_during_a_long_poll_is_not_begun() -> None:
    begun = []

    async def job() -> None:
        begun.append(1)

    with ConductorStub(leases=True) as server:
        server.script("heartbeat", Judge(Verdict.CANCELLED))
        async with running(server, job, idle_poll_timeout=4000) as seen:
            await server.until(lambda: any(poll.query.get("timeout") == "4000" for poll in server.polls()))
            await asyncio.sleep(0.6)
            server.add_task("job", response_timeout_seconds=1)
            await until(lambda: seen.of(TaskLeaseLost))
        assert not server.results
    assert not begun


async def test_p11_an_outage_is_one_line_and_no_storm(caplog: pytest.LogCaptureFixture) -> None:
    """Heartbeats that fail come again soon, but not more and more often until the lease ends."""

    async def job() -> None:
        await asyncio.sleep(60)

    with ConductorStub(leases=True) as server:
        server.script("heartbeat", Status(503, ""), repeat=True)
        async with running(server, job) as seen:
            server.add_task("job", response_timeout_seconds=3)
            await until(lambda: seen.of(TaskLeaseLost))
        assert 2 <= len(server.heartbeats) <= 11, "two seconds, at least 0.2 s apart"
    assert sum("Heartbeat of task" in record.getMessage() for record in caplog.records) == 1


async def test_p11_one_failed_heartbeat_loses_nothing() -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    with ConductorStub(leases=True) as server:
        server.script("heartbeat", Status(503, ""), Status(500, ""))
        async with running(server, job) as seen:
            server.add_task("job", response_timeout_seconds=2)
            await until(lambda: len(seen.of(TaskLeaseExtended)) >= 2)
            release.set()
            await server.until_results(1)
    assert not seen.of(TaskLeaseLost)


async def test_a_lease_that_is_not_extended_is_lost_and_nothing_more_is_sent() -> None:
    reasons: list[str | None] = []

    async def job() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            reasons.append(get_task_context().cancel_reason)
            raise
        return "never"

    with ConductorStub(leases=True) as server:
        server.script("heartbeat", Status(503, ""), repeat=True)
        async with running(server, job) as seen:
            task_id = server.add_task("job", response_timeout_seconds=1)
            await until(lambda: seen.of(TaskLeaseLost))
            sent = len([r for r in server.requests if task_id.encode() in (r.body or b"")])
            await until(lambda: reasons)
        after = len([r for r in server.requests if task_id.encode() in (r.body or b"")])
        assert after <= sent + 1, "at most a heartbeat that was on its way already"
        assert not server.results
    assert reasons == ["not extended for 1 s, its response timeout"]
    assert not seen.of(TaskUpdateCompleted)
    assert not seen.of(TaskExecutionFailure)


@pytest.mark.parametrize("leases", [True, False], ids=["coordinator", "plain"])
async def test_p37_a_task_cancelled_on_the_server_is_stopped_by_the_next_heartbeat(leases: bool) -> None:
    flag = threading.Event()

    def job() -> str:
        context = get_task_context()
        assert context.wait_cancelled(20)
        flag.set()
        context.raise_if_cancelled()
        return "never"

    with ConductorStub(leases=leases) as server:
        async with running(server, job, lease_extend_enabled=not leases) as seen:
            task_id = server.add_task("job", response_timeout_seconds=2)
            await server.until(lambda: server.heartbeats)
            server.set_status(task_id, "CANCELED")
            await until(flag.is_set)
            await until(lambda: seen.of(TaskLeaseLost))
        assert not server.results


async def test_p33_a_heartbeat_that_is_never_answered_leaves_time_for_another() -> None:
    release = asyncio.Event()

    async def job() -> str:
        await release.wait()
        return "done"

    with ConductorStub(leases=True) as server:
        server.script("heartbeat", HalfOpen())
        async with running(server, job) as seen:
            server.add_task("job", response_timeout_seconds=3)
            await until(lambda: len(seen.of(TaskLeaseExtended)) >= 2)
            release.set()
            await server.until_results(1)
    assert not seen.of(TaskLeaseLost)


async def test_p10_the_lease_is_kept_while_the_report_waits_for_its_verdict() -> None:
    async def job() -> str:
        return "done"

    with ConductorStub(leases=True) as server:
        server.script("update", Delay(4))
        async with running(server, job) as seen:
            server.add_task("job", response_timeout_seconds=3)
            await server.until_results(1, timeout=30)
            await until(lambda: seen.of(TaskUpdateCompleted))
        assert len(server.heartbeats) >= 2
    assert [event.verdict for event in seen.of(TaskUpdateCompleted)] == [Verdict.COMMITTED]


@pytest.mark.parametrize("sync", [True, False], ids=["def", "async def"])
async def test_a_task_that_runs_longer_than_its_timeout_fails_at_once(sync: bool) -> None:
    release = threading.Event()

    def blocking() -> None:
        release.wait(20)

    async def waiting() -> None:
        await asyncio.sleep(60)

    with ConductorStub(leases=True) as server:
        async with running(server, blocking if sync else waiting, thread_count=1) as seen:
            definition = {"name": "job", "timeoutSeconds": 1, "timeoutPolicy": "RETRY"}
            server.add_task("job", task_definition=definition)
            (result,) = await server.until_results(1)
            assert result["status"] == "FAILED"
            assert result["reasonForIncompletion"].startswith(
                "TimeoutError: the task ran longer than its timeout of 1 s"
            )
            assert len(seen.of(TaskExecutionFailure)) == 1
            if sync:  # the slot is stuck until the function returns
                later = server.add_task("job")
                polls = len(server.polls("job"))
                release.set()
                await server.until(lambda: len(server.polls("job")) > polls)
                await server.until(lambda: server.results_for(later))


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(409, Verdict.CANCELLED), (409, Verdict.REJECTED), (404, Verdict.REJECTED), (400, Verdict.REJECTED)],
)
async def test_after_any_verdict_a_report_is_never_sent_again(status: int, verdict: Verdict) -> None:
    async def job() -> str:
        return "done"

    with ConductorStub(leases=True) as server:
        body = {"status": status, "message": "no", "retryable": True, "verdict": verdict}
        server.script("update", Status(status, body, {"Conductor-Verdict": verdict}))
        async with running(server, job) as seen:
            server.add_task("job")
            await until(lambda: seen.of(TaskUpdateCompleted))
        assert len(server.requests_of("update")) == 1
    assert [(event.verdict, event.inferred) for event in seen.of(TaskUpdateCompleted)] == [(verdict, False)]
