"""Waiting for a condition, from a thread or from an event loop, without sleeping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NoReturn, TypeVar

T = TypeVar("T")

#: A wait fails after this many real seconds.
DEFAULT_TIMEOUT_S = 30.0


class Watch:
    """A condition variable for threads and event loops. Code that changes the watched state calls `notify`."""

    def __init__(self, describe: Callable[[], str]) -> None:
        #: Describes the watched state for the error of a wait that times out.
        self._describe = describe
        self._condition = threading.Condition(threading.RLock())
        self._wakers: list[Callable[[], None]] = []

    @property
    def held(self) -> AbstractContextManager[bool]:
        """The lock that guards the watched state."""
        return self._condition

    def notify(self) -> None:
        """Let all waiters check their predicates again."""
        with self._condition:
            self._condition.notify_all()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wait_for(self, predicate: Callable[[], T], timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
        """Block this thread until the predicate returns a true value, and return that value."""
        with self._condition:
            found = self._condition.wait_for(predicate, timeout_s)
        return found or self._fail(timeout_s)

    async def until(self, predicate: Callable[[], T], timeout_s: float | None = DEFAULT_TIMEOUT_S) -> T:
        """Wait on an event loop until the predicate returns a true value, and return it. None waits forever."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    with self._condition:
                        if found := predicate():
                            return found
                        loop = asyncio.get_running_loop()
                        changed = loop.create_future()
                        self._wakers.append(partial(call_on, loop, resolve, changed))
                    await changed
        except TimeoutError:
            self._fail(timeout_s)

    def _fail(self, timeout_s: float | None) -> NoReturn:
        with self._condition:
            raise TimeoutError(f"the condition did not become true within {timeout_s} s; {self._describe()}")


def resolve(future: asyncio.Future[None]) -> None:
    """Finish a future unless it is already done or cancelled."""
    if not future.done():
        future.set_result(None)


def call_on(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: object) -> None:
    """Run a function on the event loop of any thread. No-op if that loop is closed."""
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
