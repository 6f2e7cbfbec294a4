"""Parked polls: woken by the commit that brings work, first come first served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from house import House

from conductor.coordinator.core import Poll
from conductor.coordinator.waiters import Waiter, Waiters
from conductor.testing import FakeClock

KEY = ("work", "")


class Shelf:
    """What the polls of a test take from."""

    def __init__(self) -> None:
        self.items: list[int] = []

    async def take(self, count: int = 1) -> list[int]:
        await asyncio.sleep(0)
        taken, self.items = self.items[:count], self.items[count:]
        return taken


async def park(waiters: Waiters, shelf: Shelf, count: int = 1) -> tuple[Waiter, asyncio.Task[list[int]]]:
    """A poll that has found nothing and waits."""
    waiter, before = Waiter(), len(waiters)
    task = asyncio.create_task(waiters.wait(KEY, 5, waiter, lambda: shelf.take(count), count))
    while len(waiters) == before or waiter.rung.is_set():
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    return waiter, task


async def test_first_come_first_served() -> None:
    waiters, shelf = Waiters(FakeClock()), Shelf()
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
    waiters, shelf = Waiters(clock), Shelf()
    _, task = await park(waiters, shelf)
    shelf.items = [1]
    waiters.wake({KEY: 1})
    assert await task == [1]
    assert clock.monotonic() == FakeClock().monotonic(), "no time passed"
    assert clock.sleeps == [5], "one wait for the whole poll, no shorter ones"


async def test_a_vanished_clients_ring_goes_to_the_next() -> None:
    waiters, shelf = Waiters(FakeClock()), Shelf()
    gone, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1]
    gone.leave()
    waiters.wake({KEY: 1})
    assert await first == []
    assert await second == [1]


async def test_a_cancelled_polls_ring_goes_to_the_next() -> None:
    waiters, shelf = Waiters(FakeClock()), Shelf()
    _, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1]
    waiters.wake({KEY: 1})
    first.cancel()
    assert await second == [1]


async def test_more_work_than_the_first_can_take_goes_on_to_the_next() -> None:
    waiters, shelf = Waiters(FakeClock()), Shelf()
    _, first = await park(waiters, shelf)
    _, second = await park(waiters, shelf)
    shelf.items = [1, 2]
    waiters.wake({KEY: 1})
    assert await first == [1]
    assert await second == [2]


async def test_the_time_is_over() -> None:
    clock = FakeClock()
    waiters, shelf = Waiters(clock), Shelf()
    _, task = await park(waiters, shelf)
    await clock.advance_to_next()
    assert await task == []
    assert len(waiters) == 0


async def test_closing_answers_everyone_at_once() -> None:
    waiters, shelf = Waiters(FakeClock()), Shelf()
    tasks = [(await park(waiters, shelf))[1] for _ in range(3)]
    waiters.close()
    assert await asyncio.gather(*tasks) == [[], [], []]


class TestWithTheStore:
    @pytest.fixture
    async def house(self, tmp_path: Path) -> AsyncIterator[House]:
        with House(tmp_path / "coordinator.db") as found:
            await found.core.start()
            yield found
            await found.core.stop()

    async def parked(self, house: House, worker: str, count: int = 1) -> asyncio.Task[list]:
        before = len(house.core.waiters)
        task = asyncio.create_task(house.core.poll(Poll("work", "", worker, count, 5000)))
        # At rest: in line, and the clock knows how long it is going to wait.
        await house.clock.until_sleeping(before + 1)
        return task

    async def test_woken_by_the_commit_that_brings_the_work(self, house: House) -> None:
        poll = await self.parked(house, "w1")
        workflow = await asyncio.to_thread(house.start_one)
        (task,) = await poll
        assert task["workflowInstanceId"] == workflow
        assert house.clock.monotonic() == FakeClock().monotonic(), "no timer in between"

    async def test_as_many_as_there_is_work(self, house: House) -> None:
        polls = [await self.parked(house, f"w{n}") for n in range(3)]
        await asyncio.to_thread(house.start_one)
        assert [task["workerId"] for task in await polls[0]] == ["w0"]
        assert not polls[1].done()
        assert not polls[2].done()
        house.core.drain()
        assert await asyncio.gather(*polls[1:]) == [[], []]

    async def test_woken_when_a_delay_is_over(self, house: House) -> None:
        await asyncio.to_thread(house.start_one, task_def={"retryDelaySeconds": 2})
        task = (await house.core.poll(Poll("work", "", "w", 1, 0)))[0]
        await asyncio.to_thread(house.report, {**task}, "FAILED")
        poll = asyncio.create_task(house.core.poll(Poll("work", "", "w", 1, 5000)))
        await house.clock.until_sleeping(2)  # the poll and the timer
        assert await house.clock.advance_to_next(2) == 2.0
        assert (await poll)[0]["retriedTaskId"] == task["taskId"]

    async def test_a_grant_that_nobody_received_is_taken_back(self, house: House) -> None:
        await asyncio.to_thread(house.start_one)
        left: list = []

        async def watch(gone: object) -> None:
            left.append(gone)
            await asyncio.Event().wait()

        real = house.core.store.write

        async def write(fn: object) -> object:
            found = await real(fn)  # type: ignore[arg-type]
            if left and isinstance(found, list) and found:
                left.pop()()  # the client hangs up while its task is on the way
            return found

        house.core.store.write = write  # type: ignore[method-assign, assignment]
        assert await house.core.poll(Poll("work", "", "gone", 1, 5000), watch) == []
        (task,) = await house.core.poll(Poll("work", "", "w2", 1, 0))
        assert task["workerId"] == "w2"


async def test_idle_means_no_wake_ups(tmp_path: Path) -> None:
    with House(tmp_path / "coordinator.db") as house:
        await house.core.start()
        await asyncio.sleep(0)
        assert house.clock.sleeping == 0, "nothing is due: nobody sleeps on the clock"
        await house.core.stop()
