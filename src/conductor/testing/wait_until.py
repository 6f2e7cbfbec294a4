"""Waiting for something to become true, from a thread or from an event loop, without sleeping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

T = TypeVar("T")

#: How long a waiting test is patient, in real seconds.
DEFAULT_TIMEOUT_S = 30.0


class Watch:
    """A condition that threads and event loops can wait on together. Whoever changes what is watched notifies."""

    def __init__(self, describe: Callable[[], str]) -> None:
        #: Tells what is there instead, for the error when a wait is in vain.
        self._describe = describe
        self._condition = threading.Condition(threading.RLock())
        self._wakers: list[Callable[[], None]] = []

    @property
    def held(self) -> AbstractContextManager[bool]:
        """The lock that guards what is watched."""
        return self._condition

    def notify(self) -> None:
        """Let all waiters look again."""
        with self._condition:
            self._condition.notify_all()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wait_for(self, predicate: Callable[[], T], timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
        """Block this thread until the predicate gives something true, and return that."""
        with self._condition:
            found = self._condition.wait_for(predicate, timeout_s)
        return found or self._fail(timeout_s)

    async def until(self, predicate: Callable[[], T], timeout_s: float | None = DEFAULT_TIMEOUT_S) -> T:
        """The same on an event loop; None = for ever."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    with self._condition:
                        if found := predicate():
                            return found
                        changed = self._next_change()
                    await changed
        except TimeoutError:
            self._fail(timeout_s)

    def _next_change(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        changed = loop.create_future()
        self._wakers.append(lambda: call_on(loop, resolve, changed))
        return changed

    def _fail(self, timeout_s: float | None) -> NoReturn:
        with self._condition:
            raise TimeoutError(f"what the test waits for did not come within {timeout_s} s; {self._describe()}")


def resolve(future: asyncio.Future[None]) -> None:
    """Finish a future unless it is already done or given up."""
    if not future.done():
        future.set_result(None)


def call_on(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: object) -> None:
    """Run a function on a loop of any thread; nothing happens if that loop has ended."""
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
