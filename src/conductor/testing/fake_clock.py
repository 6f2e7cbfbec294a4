"""A clock for tests: time passes only when a test advances it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

from conductor.common.clock import Clock
from conductor.testing.wait_until import DEFAULT_TIMEOUT_S, Watch, call_on, resolve

#: Every fake clock starts at these times, which are easy to recognize in a failure.
START_MONOTONIC_S = 1000.0
START_WALL_MS = 1_700_000_000_000


class FakeClock(Clock):
    """A clock that stands still until `advance` moves it.

    Sleepers may be on any number of event loops and threads. The `timeout_s` of the waiting methods is in real
    seconds: the code under test must reach the expected state within that time.

    Attributes:
        sleeps: Every duration requested by `sleep` and `wait` on this clock, in order.
    """

    def __init__(self) -> None:
        self._time = _Time()
        self.sleeps: list[float] = []

    def twin(self) -> FakeClock:
        """Return a clock that shares time and sleepers with this one but has its own list of `sleeps`."""
        twin = FakeClock()
        twin._time = self._time
        return twin

    def monotonic(self) -> float:
        return self._time.now_s

    def wall_ms(self) -> int:
        return START_WALL_MS + round((self._time.now_s - START_MONOTONIC_S + self._time.wall_offset_s) * 1000)

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back with a negative number. Durations stay the same, and no sleeper wakes."""
        self._time.wall_offset_s += seconds

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = self._time.park(seconds)
        try:
            await sleeper.woken
        finally:
            self._time.remove(sleeper)

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> bool:
        if timeout_s is None:
            return await event.wait()
        self.sleeps.append(timeout_s)
        if timeout_s <= 0 or event.is_set():
            await asyncio.sleep(0)
            return event.is_set()
        sleeper = self._time.park(timeout_s)
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((waiting, sleeper.woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            self._time.remove(sleeper)
        return event.is_set()

    @property
    def sleeping(self) -> int:
        """The number of sleepers now."""
        return self._time.count()

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake the due sleepers in order. Each continues on its own event loop."""
        self._time.move_to(self._time.now_s + seconds)

    async def advance_to_next(self, sleepers: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> float:
        """Wait for at least `sleepers` sleepers, then advance until the first is due.

        Returns:
            The seconds that passed on this clock.
        """
        await self.until_sleeping(sleepers, timeout_s)
        started_s = self._time.now_s
        self._time.move_to(max(started_s, self._time.next_due_s()))
        return self._time.now_s - started_s

    async def run_for(self, seconds: float, sleepers: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Advance from one due sleeper to the next, so that each sleeper wakes exactly at its time.

        Args:
            seconds: How far to advance in total.
            sleepers: The number of sleepers while the code under test is idle.
            timeout_s: Real seconds to wait for them each time.
        """
        end_s = self._time.now_s + seconds
        await self.until_sleeping(sleepers, timeout_s)
        while self._time.next_due_s() <= end_s:
            await self.advance_to_next(sleepers, timeout_s)
            await self.until_sleeping(sleepers, timeout_s)
        self._time.move_to(end_s)

    async def until_sleeping(self, n: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait on the event loop for at least `n` sleepers."""
        await self._time.watch.until(lambda: self._time.count() >= n, timeout_s)

    def wait_sleeping(self, n: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Block the thread until there are at least `n` sleepers."""
        self._time.watch.wait_for(lambda: self._time.count() >= n, timeout_s)


@dataclass(eq=False, slots=True)
class _Sleeper:
    due_s: float
    order: int
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Future[None]


class _Time:
    """The time and the sleepers that a clock shares with its twins."""

    def __init__(self) -> None:
        self.now_s = START_MONOTONIC_S
        #: By how much tests have set the wall clock forward.
        self.wall_offset_s = 0.0
        self.watch = Watch(self._describe)
        self._sleepers: list[_Sleeper] = []
        self._order = count()

    def count(self) -> int:
        return len(self._sleepers)

    def next_due_s(self) -> float:
        with self.watch.held:
            return min((sleeper.due_s for sleeper in self._sleepers), default=float("inf"))

    def park(self, seconds: float) -> _Sleeper:
        loop = asyncio.get_running_loop()
        with self.watch.held:
            sleeper = _Sleeper(self.now_s + seconds, next(self._order), loop, loop.create_future())
            self._sleepers.append(sleeper)
            self.watch.notify()
        return sleeper

    def remove(self, sleeper: _Sleeper) -> None:
        with self.watch.held:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                self.watch.notify()

    def move_to(self, now_s: float) -> None:
        with self.watch.held:
            self.now_s = now_s
            due = sorted((s for s in self._sleepers if s.due_s <= now_s), key=lambda s: (s.due_s, s.order))
            self._sleepers = [s for s in self._sleepers if s.due_s > now_s]
            self.watch.notify()
        for sleeper in due:
            call_on(sleeper.loop, resolve, sleeper.woken)

    def _describe(self) -> str:
        due_in = sorted(round(sleeper.due_s - self.now_s, 3) for sleeper in self._sleepers)
        return f"sleepers on the clock: {len(due_in)}, due in seconds: {due_in}"
