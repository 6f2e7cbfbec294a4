"""The fake clock stands still until it is turned, and wakes sleepers in order, on any event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from conductor.testing import FakeClock


async def test_time_stands_still_until_it_is_advanced(fake_clock: FakeClock) -> None:
    assert (fake_clock.monotonic(), fake_clock.wall_ms()) == (1000.0, 1_700_000_000_000)
    fake_clock.advance(1.5)
    assert (fake_clock.monotonic(), fake_clock.wall_ms()) == (1001.5, 1_700_000_001_500)


async def test_a_sleeper_wakes_when_its_time_has_come_and_not_before(fake_clock: FakeClock) -> None:
    sleeper = asyncio.create_task(fake_clock.sleep(10))
    await fake_clock.until_sleeping()
    fake_clock.advance(9.999)
    await asyncio.sleep(0)
    assert not sleeper.done()
    fake_clock.advance(0.001)
    await sleeper
    assert fake_clock.sleeping == 0


async def test_sleepers_wake_in_the_order_of_their_deadlines(fake_clock: FakeClock) -> None:
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await fake_clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleep(name, s)) for name, s in [("c", 3), ("a", 1), ("b", 2), ("b2", 2)]]
    await fake_clock.until_sleeping(4)
    fake_clock.advance(5)
    await asyncio.gather(*tasks)
    assert woken == ["a", "b", "b2", "c"]


async def test_every_duration_asked_for_is_remembered(fake_clock: FakeClock) -> None:
    async def ask() -> None:
        await fake_clock.sleep(0)
        await fake_clock.sleep(0.5)
        await fake_clock.wait(asyncio.Event(), 7)

    asked = asyncio.create_task(ask())
    assert await fake_clock.advance_to_next() == 0.5
    assert await fake_clock.advance_to_next() == 7
    await asked
    assert fake_clock.sleeps == [0, 0.5, 7]


async def test_a_cancelled_sleeper_is_gone(fake_clock: FakeClock) -> None:
    sleeper = asyncio.create_task(fake_clock.sleep(10))
    await fake_clock.until_sleeping()
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    assert fake_clock.sleeping == 0


async def test_wait_sees_the_event_or_the_end_of_the_time(fake_clock: FakeClock) -> None:
    event = asyncio.Event()
    in_vain = asyncio.create_task(fake_clock.wait(event, 5))
    await fake_clock.advance_to_next()
    assert await in_vain is False

    met = asyncio.create_task(fake_clock.wait(event, 5))
    await fake_clock.until_sleeping()
    event.set()
    assert await met is True
    assert fake_clock.sleeping == 0

    assert await fake_clock.wait(event, 5) is True, "already set: nobody is parked"
    assert await fake_clock.wait(event) is True
    assert await fake_clock.wait(asyncio.Event(), 0) is False


async def test_wait_without_a_timeout_parks_nobody(fake_clock: FakeClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(fake_clock.wait(event))
    await asyncio.sleep(0)
    assert (fake_clock.sleeping, fake_clock.sleeps) == (0, [])
    event.set()
    assert await waiting is True


async def test_a_cancelled_wait_leaves_nothing_behind(fake_clock: FakeClock) -> None:
    waiting = asyncio.create_task(fake_clock.wait(asyncio.Event(), 5))
    await fake_clock.until_sleeping()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert fake_clock.sleeping == 0
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_run_for_shows_each_sleeper_the_time_it_asked_for(fake_clock: FakeClock) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await fake_clock.sleep(7)
            ticks.append(fake_clock.monotonic() - 1000)

    ticking = asyncio.create_task(tick())
    await fake_clock.run_for(30)
    assert ticks == [7, 14, 21, 28]
    assert fake_clock.monotonic() == 1030
    ticking.cancel()


async def test_sleepers_on_several_loops_wake() -> None:
    clock = FakeClock()
    seen: list[float] = []

    def other_loop(seconds: float) -> None:
        async def sleep() -> None:
            await clock.sleep(seconds)
            seen.append(clock.monotonic())

        asyncio.run(sleep())

    threads = [threading.Thread(target=other_loop, args=(s,)) for s in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    here = asyncio.create_task(clock.sleep(3))
    await clock.until_sleeping(3)
    for thread in threads:
        assert await clock.advance_to_next() == 1
        await asyncio.to_thread(thread.join)
    await clock.advance_to_next()
    await here
    assert seen == [1001, 1002]


def test_a_test_without_a_loop_can_wait_too() -> None:
    clock = FakeClock()
    thread = threading.Thread(target=lambda: asyncio.run(clock.sleep(60)))
    thread.start()
    clock.wait_sleeping()
    clock.advance(60)
    thread.join(60)
    assert not thread.is_alive()


def test_a_sleeper_whose_loop_is_closed_harms_nobody() -> None:
    clock = FakeClock()
    loop = asyncio.new_event_loop()
    sleeper = clock.sleep(1)
    task = loop.create_task(sleeper)
    loop.run_until_complete(asyncio.sleep(0))
    loop.call_soon(task.cancel)
    clock.advance(1)
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    clock.advance(1)
    assert clock.sleeping == 0


async def test_twins_share_the_time_but_not_the_list_of_sleeps(fake_clock: FakeClock) -> None:
    twin = fake_clock.twin()
    sleeper = asyncio.create_task(twin.sleep(2))
    assert await fake_clock.advance_to_next() == 2
    await sleeper
    assert (twin.monotonic(), twin.sleeps, fake_clock.sleeps) == (1002, [2], [])


async def test_waiting_in_vain_says_who_is_parked(fake_clock: FakeClock) -> None:
    sleeper = asyncio.create_task(fake_clock.sleep(2.5))
    await fake_clock.until_sleeping()
    with pytest.raises(TimeoutError, match=r"sleepers on the clock: 1, due in seconds: \[2.5\]"):
        await fake_clock.until_sleeping(2, timeout_s=0.01)
    sleeper.cancel()
