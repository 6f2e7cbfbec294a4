"""Parked polls: woken by the commit that brings work, first come first served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import Poll
from conductor.coordinator.tasks.parked_polls import ParkedPoll, ParkedPolls
from conductor.testing import FakeClock
from tests.unit.coordinator.core_harness import Harness, simple

KEY = ("work", "")


class Shelf:
    """The work that the polls of a test take."""

    def __init__(self) -> None:
        self.items: list[int] = []

    async def take(self, count: int = 1) -> list[int]:
        await asyncio.sleep(0)
        taken, self.items = self.items[:count], self.items[count:]
        return taken


async def park(waiters: ParkedPolls, shelf: Shelf, count: int = 1) -> tuple[ParkedPoll, asyncio.Task[list[int]]]:
    """A poll that has found nothing and waits."""
    waiter, before = ParkedPoll(count=count), len(waiters)
    task = asyncio.create_task(waiters.park(KEY, 5, waiter, lambda: shelf.take(count)))
    while len(waiters) == before or waiter.woken.is_set():
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    return waiter, task


async def test_first_come_first_served() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    _, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1]
    waiters.wake({KEY: 1})
    assert await first == [1]
    assert not second.done()
    shelf.items = [2]
    waiters.wake({KEY: 1})
    assert await second == [2]


async def test_no_timer_rings_between_the_work_and_the_poll() -> None:
    clock = FakeClock()
    waiters, shelf = ParkedPolls(clock), Shelf()
    _, task = await park(waiters, shelf)
    shelf.items = [1]
    waiters.wake({KEY: 1})
    assert await task == [1]
    assert clock.monotonic() == FakeClock().monotonic(), "no time passed"
    assert clock.sleeps == [5], "one wait for the whole poll, no shorter ones"


async def test_a_vanished_clients_ring_goes_to_the_next() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    gone, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1]
    gone.cancel()
    waiters.wake({KEY: 1})
    assert await first == []
    assert await second == [1]


async def test_a_cancelled_polls_ring_goes_to_the_next() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    _, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1]
    waiters.wake({KEY: 1})
    first.cancel()
    assert await second == [1]


async def test_more_work_than_the_first_poll_can_take_goes_to_the_next() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    _, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1, 2]
    waiters.wake({KEY: 1})
    assert await first == [1]
    assert await second == [2]


async def test_the_time_is_over() -> None:
    clock = FakeClock()
    waiters, shelf = ParkedPolls(clock), Shelf()
    _, task = await park(waiters, shelf)
    await clock.advance_to_next()
    assert await task == []
    assert len(waiters) == 0


async def test_closing_answers_all_parked_polls_at_once() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    tasks = [(await park(waiters, shelf))[1] for _ in range(3)]
    waiters.close()
    assert await asyncio.gather(*tasks) == [[], [], []]


async def test_nothing_is_granted_to_a_poll_that_tries_for_itself() -> None:
    waiters, tries, found = ParkedPolls(FakeClock()), asyncio.Event(), asyncio.Event()

    async def attempt() -> list[int]:
        tries.set()
        await found.wait()
        return [1]

    task = asyncio.create_task(waiters.park(KEY, 5, ParkedPoll(), attempt))
    await tries.wait()
    assert waiters.claim(KEY) is None
    found.set()
    assert await task == [1]


async def test_a_poll_woken_during_a_grant_takes_it_and_passes_the_wake_on() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    first, task = await park(waiters, shelf, count=2)
    _, other = await park(waiters, shelf)
    assert waiters.claim(KEY) is first
    shelf.items = [7]
    first.woken.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    first.finish_grant([1])
    assert await task == [1]
    assert await other == [7]


async def test_a_poll_that_found_work_or_timed_out_is_granted_nothing_more() -> None:
    clock = FakeClock()
    waiters, shelf = ParkedPolls(clock), Shelf()
    waiter, task = await park(waiters, shelf)
    assert waiters.claim(KEY) is waiter
    waiter.finish_grant([1])
    assert waiters.claim(KEY) is None
    assert await task == [1]
    _, late = await park(waiters, shelf)
    await clock.advance_to_next()
    assert await late == []
    assert waiters.claim(KEY) is None


async def test_a_ring_for_one_that_was_just_served_goes_to_who_came_after_it() -> None:
    waiters, shelf = ParkedPolls(FakeClock()), Shelf()
    first, task = await park(waiters, shelf, count=5)
    assert waiters.claim(KEY) is first
    first.finish_grant([1])
    shelf.items = [2]
    waiters.wake({KEY: 1})
    other = asyncio.create_task(waiters.park(KEY, 5, ParkedPoll(), lambda: shelf.take(1)))
    assert await task == [1]
    assert await other == [2]


class TestWithTheStore:
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        with Harness(tmp_path / "coordinator.db") as found:
            await found.core.start()
            yield found
            await found.core.stop()

    async def parked(self, harness: Harness, worker: str, count: int = 1) -> asyncio.Task[list[Any]]:
        before = len(harness.core.tasks.parked)
        task = asyncio.create_task(harness.core.tasks.poll(Poll("work", "", worker, count, 5000)))
        # At rest: in line, and the clock knows how long it is going to wait.
        await harness.clock.until_sleeping(before + 1)
        return task

    async def test_a_parked_poll_is_woken_by_the_commit_that_brings_the_work(self, harness: Harness) -> None:
        poll = await self.parked(harness, "w1")
        workflow = await asyncio.to_thread(harness.start_one)
        (task,) = await poll
        assert task["workflowInstanceId"] == workflow
        assert harness.clock.monotonic() == FakeClock().monotonic(), "no timer in between"

    async def test_granted_by_the_transaction_that_brings_the_work(self, harness: Harness) -> None:
        statements: list[str] = []
        await asyncio.to_thread(harness.workflow_def, "one", simple("work"))
        poll = await self.parked(harness, "w1")
        harness.core.store._db.set_trace_callback(statements.append)
        await asyncio.to_thread(harness.start, "one")
        (task,) = await poll
        assert task["workerId"] == "w1"
        assert statements.count("COMMIT") == 1

    async def test_granted_in_the_moment_its_client_left_it_is_taken_back(self, harness: Harness) -> None:
        poll = await self.parked(harness, "gone")
        (line,) = harness.core.tasks.parked._lines.values()
        real = harness.core.tasks.poll_now

        def leave_first(tx: Tx, asked: Poll) -> list[dict[str, Any]]:
            line[0].is_cancelled = True
            return real(tx, asked)

        harness.core.tasks.poll_now = leave_first  # type: ignore[assignment, method-assign]
        await asyncio.to_thread(harness.start_one)
        assert await poll == []
        harness.core.tasks.poll_now = real  # type: ignore[method-assign]
        (task,) = await harness.core.tasks.poll(Poll("work", "", "w2", 1, 0))
        assert task["workerId"] == "w2"

    async def test_granted_in_the_moment_its_time_was_over_it_is_answered_with_it(self, harness: Harness) -> None:
        poll = await self.parked(harness, "late")
        loop, real = asyncio.get_running_loop(), harness.core.tasks.poll_now

        def let_time_pass(tx: Tx, asked: Poll) -> list[dict[str, Any]]:
            asyncio.run_coroutine_threadsafe(harness.clock.advance_to_next(), loop).result()
            return real(tx, asked)

        harness.core.tasks.poll_now = let_time_pass  # type: ignore[assignment, method-assign]
        await asyncio.to_thread(harness.start_one)
        (task,) = await poll
        assert task["workerId"] == "late"

    async def test_a_transaction_that_cannot_grant_leaves_the_work_to_the_next(
        self, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        poll, real = await self.parked(harness, "w1"), harness.core.tasks.poll_now

        def fail_once(_tx: Tx, _asked: Poll) -> list[dict[str, Any]]:
            harness.core.tasks.poll_now = real  # type: ignore[method-assign]
            raise LookupError("on purpose")

        harness.core.tasks.poll_now = fail_once  # type: ignore[assignment, method-assign]
        await asyncio.to_thread(harness.start_one)
        (task,) = await poll
        assert task["workerId"] == "w1"
        assert "Parked polls could not be served" in caplog.text

    async def test_as_many_parked_polls_are_woken_as_there_is_work(self, harness: Harness) -> None:
        polls = [await self.parked(harness, f"w{n}") for n in range(3)]
        await asyncio.to_thread(harness.start_one)
        assert [task["workerId"] for task in await polls[0]] == ["w0"]
        assert not polls[1].done()
        assert not polls[2].done()
        harness.core.drain()
        assert await asyncio.gather(*polls[1:]) == [[], []]

    async def test_a_parked_poll_is_woken_when_a_delay_is_over(self, harness: Harness) -> None:
        await asyncio.to_thread(harness.start_one, task_def={"retryDelaySeconds": 2})
        task = (await harness.core.tasks.poll(Poll("work", "", "w", 1, 0)))[0]
        await asyncio.to_thread(harness.report, {**task}, "FAILED")
        poll = asyncio.create_task(harness.core.tasks.poll(Poll("work", "", "w", 1, 5000)))
        await harness.clock.until_sleeping(2)  # the poll and the timer
        assert await harness.clock.advance_to_next(2) == 2.0
        assert (await poll)[0]["retriedTaskId"] == task["taskId"]

    async def test_a_grant_that_nobody_received_is_taken_back(self, harness: Harness) -> None:
        await asyncio.to_thread(harness.start_one)
        left: list[Any] = []

        real = harness.core.store.write

        async def write(fn: Any, **how: Any) -> object:
            found: Any = await real(fn, **how)
            if left and isinstance(found, list) and found:
                left.pop()()  # the client hangs up while its task is on the way
            return found

        harness.core.store.write = write  # type: ignore[assignment, method-assign]
        assert await harness.core.tasks.poll(Poll("work", "", "gone", 1, 5000), left.append) == []
        (task,) = await harness.core.tasks.poll(Poll("work", "", "w2", 1, 0))
        assert task["workerId"] == "w2"


async def test_idle_means_no_wake_ups(tmp_path: Path) -> None:
    with Harness(tmp_path / "coordinator.db") as harness:
        await harness.core.start()
        await asyncio.sleep(0)
        assert harness.clock.sleeping == 0, "nothing is due: nobody sleeps on the clock"
        await harness.core.stop()
