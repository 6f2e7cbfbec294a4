"""Threads for `def` workers. Results come back to the event loop in batches: one wake-up for many."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

#: What a function returned, and what it raised instead.
CallResult = tuple[Any, BaseException | None]
_Call = tuple[Callable[[Any], Any], Any, contextvars.Context, "asyncio.Future[CallResult]"]


class ThreadPool:
    """Up to `size` daemon threads, made when needed, so that a function that never returns cannot hold up an exit.

    No locks: the loop alone counts calls and threads; both sides may use the queues. A thread that takes a call wakes
    the next one if there are more calls: short calls wake few threads, and long ones hold up nobody.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._threads = 0
        self._busy = 0
        self._calls: deque[_Call] = deque()
        self._results: deque[tuple[asyncio.Future[CallResult], CallResult]] = deque()
        #: True wakes a thread, False ends it.
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._waking_thread = False
        self._waking_loop = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, function: Callable[[Any], Any], argument: Any) -> asyncio.Future[CallResult]:
        """Call the function in a thread, in the caller's context. The future never fails: it holds a result."""
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[CallResult] = self._loop.create_future()
        self._calls.append((function, argument, contextvars.copy_context(), future))
        self._busy += 1
        if self._busy > self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        else:
            self._wake_thread()
        return future

    def close(self) -> None:
        """Let idle threads end. Busy ones end with their call."""
        for _ in range(self._threads):
            self._wakes.put(False)

    def _wake_thread(self) -> None:
        # A thread that was woken and has not run yet will see this call, too.
        if not self._waking_thread:
            self._waking_thread = True
            self._wakes.put(True)

    def _work(self) -> None:
        going_on = True
        while going_on:
            self._work_off()
            going_on = self._wakes.get()
            self._waking_thread = False

    def _work_off(self) -> None:
        while self._calls:
            try:
                *work, future = self._calls.popleft()
            except IndexError:  # another thread was faster
                return
            if self._calls:
                self._wake_thread()
            self._results.append((future, _call(*work)))
            del work, future
            self._wake_loop()

    def _wake_loop(self) -> None:
        # Between here and the wake-up other threads only append; the loop empties the queue once for all.
        if self._waking_loop:
            return
        self._waking_loop = True
        try:
            assert self._loop is not None  # noqa: S101
            self._loop.call_soon_threadsafe(self._set_results)
        except RuntimeError:
            self._waking_loop = False  # the loop is closed: nobody waits any more

    def _set_results(self) -> None:
        self._waking_loop = False
        while self._results:
            future, result = self._results.popleft()
            self._busy -= 1
            if not future.done():
                future.set_result(result)


def _call(function: Callable[[Any], Any], argument: Any, context: contextvars.Context) -> CallResult:
    try:
        return context.run(function, argument), None
    except BaseException as error:
        return None, error
