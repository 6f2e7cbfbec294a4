"""Threads for `def` workers. Results come back to the event loop in batches: one wake-up for many."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

#: What a call gave: its value, or what it raised.
Given = tuple[Any, BaseException | None]
_Call = tuple[Callable[[], Any], contextvars.Context, "asyncio.Future[Given]"]


class ThreadPool:
    """Up to `size` daemon threads, made when needed, so that a function that never returns cannot hold up an exit."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._finished: deque[tuple[asyncio.Future[Given], Given]] = deque()
        self._waking = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Given]:
        """Call the function in a thread, in the caller's context. The future never fails; it holds what was given."""
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Given] = self._loop.create_future()
        with self._lock:
            grow = self._idle == 0 and self._threads < self._size
            if grow:
                self._threads += 1
            else:
                self._idle -= 1
        self._calls.put((function, contextvars.copy_context(), future))
        if grow:
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle threads end. Busy ones end with their call."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, context, future = call
            self._give(future, _called(function, context))
            del call, function, context, future
            with self._lock:
                self._idle += 1

    def _give(self, future: asyncio.Future[Given], given: Given) -> None:
        self._finished.append((future, given))
        # Between here and the wake-up other threads only append; the loop empties the queue once for all.
        with self._lock:
            if self._waking:
                return
            self._waking = True
        try:
            assert self._loop is not None  # noqa: S101
            self._loop.call_soon_threadsafe(self._hand_over)
        except RuntimeError:
            self._waking = False  # the loop is closed: nobody waits any more

    def _hand_over(self) -> None:
        with self._lock:
            self._waking = False
        while self._finished:
            future, given = self._finished.popleft()
            if not future.done():
                future.set_result(given)


def _called(function: Callable[[], Any], context: contextvars.Context) -> Given:
    try:
        return context.run(function), None
    except BaseException as error:
        return None, error
