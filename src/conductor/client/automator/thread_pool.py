"""Threads for `def` workers. Results come back to the event loop in batches: one wake-up for many."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.client.automator.running_task import RunningTask

#: What a function returned, and what it raised instead.
CallResult = tuple[Any, BaseException | None]
_Call = tuple[Callable[[Any], Any], "RunningTask", contextvars.Context, "asyncio.Future[CallResult]"]

#: The result of a call that was withdrawn.
_NEVER_CALLED: CallResult = (None, None)


class ThreadPool:
    """Up to `size` daemon threads, made when needed, so that a function that never returns cannot hold up an exit.

    No locks: the loop alone counts calls and threads; both sides may use the queues. A thread that takes a call wakes
    the next one if there are more calls: short calls wake few threads, and a long call delays no other. There are never
    more calls than threads.
    """

    def __init__(
        self, size: int, name: str, monotonic: Callable[[], float], on_begin: Callable[[RunningTask], None]
    ) -> None:
        self._size = size
        self._name = name
        self._monotonic = monotonic
        #: Called on the event loop when a task gets its thread.
        self._on_begin = on_begin
        self._threads = 0
        self._busy = 0
        self._calls: deque[_Call] = deque()
        self._results: deque[tuple[asyncio.Future[CallResult], CallResult]] = deque()
        #: True wakes a thread, False ends it.
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._waking_thread = False
        self._waking_loop = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, function: Callable[[Any], Any], running: RunningTask) -> asyncio.Future[CallResult]:
        """Call the function with the task in a thread, in the caller's context. The future never fails."""
        self._loop = loop = asyncio.get_running_loop()
        future: asyncio.Future[CallResult] = loop.create_future()
        self._busy += 1
        self._on_begin(running)
        self._calls.append((function, running, contextvars.copy_context(), future))
        if self._busy > self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        elif not self._waking_thread:
            self._wake_thread()
        return future

    def withdraw(self, running: RunningTask) -> None:
        """Do not call the function of this task, unless a thread has taken it: no thread can be stopped."""
        for call in tuple(self._calls):
            if call[1] is running:
                try:
                    self._calls.remove(call)
                except ValueError:  # a thread was faster
                    return
                self._busy -= 1
                if not call[3].done():
                    call[3].set_result(_NEVER_CALLED)

    def close(self) -> None:
        """Let idle threads end. Busy ones end with their call."""
        for _ in range(self._threads):
            self._wakes.put(False)

    def _wake_thread(self) -> None:
        # A thread that was woken and has not run yet will see this call, too.
        self._waking_thread = True
        self._wakes.put(True)

    def _work(self) -> None:
        going_on = True
        while going_on:
            self._work_off()
            going_on = self._wakes.get()
            self._waking_thread = False

    def _work_off(self) -> None:
        calls, monotonic = self._calls, self._monotonic
        while calls:
            try:
                function, running, context, future = calls.popleft()
            except IndexError:  # another thread was faster
                return
            if calls and not self._waking_thread:
                self._wake_thread()
            began = monotonic()
            try:
                # One that was cancelled while it waited has nobody to wait for it: the loop is at its end.
                result = _NEVER_CALLED if future.done() else (context.run(function, running.task), None)
            except BaseException as error:
                result = None, error
            running.took_s = monotonic() - began
            self._results.append((future, result))
            del function, running, context, future, result
            if not self._waking_loop:
                self._wake_loop()

    def _wake_loop(self) -> None:
        # Between here and the wake-up other threads only append; the loop empties the queue once for all.
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
