"""Time that passes when a test says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

from conductor.common.clock import Clock
from conductor.testing.wait_until import DEFAULT_TIMEOUT_S, Watch, call_on, resolve

#: When every fake clock starts: a second that is easy to recognise, on both of its faces.
START_MONOTONIC_S = 1000.0
START_WALL_MS = 1_700_000_000_000


class FakeClock(Clock):
    """A clock that stands still until `advance` moves it. Sleepers may live on any number of event loops and threads.

    Timeouts of the waiting methods are real seconds: how long the test is patient with the code under test.
    """

    def __init__(self) -> None:
        self._time = _Time()
        #: Every duration that was asked for on this clock, by `sleep` and by `wait`, in order.
        self.sleeps: list[float] = []

    def twin(self) -> FakeClock:
        """Another clock of the same time and the same sleepers, with a list of `sleeps` of its own."""
        twin = FakeClock()
        twin._time = self._time
        return twin

    def monotonic(self) -> float:
        return self._time.now_s

    def wall_ms(self) -> int:
        return START_WALL_MS + round((self._time.now_s - START_MONOTONIC_S) * 1000)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = self._time.park(seconds)
        try:
            await sleeper.rung
        finally:
            self._time.leave(sleeper)

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
            await asyncio.wait((waiting, sleeper.rung), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            self._time.leave(sleeper)
        return event.is_set()

    @property
    def sleeping(self) -> int:
        """How many are parked now."""
        return self._time.parked()

    def advance(self, seconds: float) -> None:
        """Let time pass and wake, in order, everybody whose time has come. They run when their loops get to it."""
        self._time.move_to(self._time.now_s + seconds)

    async def advance_to_next(self, sleepers: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> float:
        """Wait until that many are parked and let time pass until the first is due. Returns the seconds passed."""
        await self.until_sleeping(sleepers, timeout_s)
        started_s = self._time.now_s
        self._time.move_to(max(started_s, self._time.next_due_s()))
        return self._time.now_s - started_s

    async def run_for(self, seconds: float, sleepers: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Let time pass from one due sleeper to the next, so that each sees the very time it asked for.

        `sleepers` is how many are parked when the code under test is at rest.
        """
        end_s = self._time.now_s + seconds
        await self.until_sleeping(sleepers, timeout_s)
        while self._time.next_due_s() <= end_s:
            await self.advance_to_next(sleepers, timeout_s)
            await self.until_sleeping(sleepers, timeout_s)
        self._time.move_to(end_s)

    async def until_sleeping(self, n: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until at least that many are parked."""
        await self._time.watch.until(lambda: self._time.parked() >= n, timeout_s)

    def wait_sleeping(self, n: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """The same for a test without an event loop."""
        self._time.watch.wait_for(lambda: self._time.parked() >= n, timeout_s)


@dataclass(eq=False, slots=True)
class _Sleeper:
    due_s: float
    order: int
    loop: asyncio.AbstractEventLoop
    rung: asyncio.Future[None]


class _Time:
    """The time that twins share, and the sleepers that are parked on it."""

    def __init__(self) -> None:
        self.now_s = START_MONOTONIC_S
        self.watch = Watch(self._describe)
        self._sleepers: list[_Sleeper] = []
        self._order = count()

    def parked(self) -> int:
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

    def leave(self, sleeper: _Sleeper) -> None:
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
            call_on(sleeper.loop, resolve, sleeper.rung)

    def _describe(self) -> str:
        due_in = sorted(round(sleeper.due_s - self.now_s, 3) for sleeper in self._sleepers)
        return f"{len(due_in)} parked on the clock, due in seconds: {due_in}"
