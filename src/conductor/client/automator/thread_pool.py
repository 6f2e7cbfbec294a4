"""Threads for `def` workers. Results return to the event loop in batches: one wake-up serves many calls."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple


class CallResult(NamedTuple):
    """The end of one call: the value that the function returned, or the error that it raised."""

    value: Any
    error: BaseException | None
    took_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[[Any], Any]
    argument: Any
    context: contextvars.Context
    future: asyncio.Future[CallResult]


#: The result of a call that was withdrawn.
_NEVER_CALLED = CallResult(None, None)


class ThreadPool:
    """Up to `size` daemon threads, started on demand. A daemon thread that never returns does not delay an exit.

    The pool needs no lock:

    - Only the event loop changes `_threads` and `_busy`.
    - Both sides use `_calls` and `_results`. The single operations of a deque are atomic, so each call is taken either
      by one thread or by `withdraw`, never by both.
    - `_waking_thread` and `_waking_loop` save wake-ups. The side that sends a wake-up sets the flag first. The side
      that is woken clears the flag before it reads the deque. A call or result that is appended while the flag is set
      is therefore read by that wake-up; one that is appended later sends a wake-up of its own. Two threads may both
      see a cleared flag and send two wake-ups: the second one finds nothing.
    - A thread that takes a call wakes the next thread if more calls wait. Short calls thus wake few threads, and a
      long call delays no other, because there are never more calls than threads.
    """

    def __init__(self, size: int, name: str, monotonic: Callable[[], float]) -> None:
        self._size = size
        self._name = name
        self._monotonic = monotonic
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
        """Call the function on a thread, in the caller's context, and return a future for the result.

        An error of the function is part of the future's result.
        """
        self._loop = loop = asyncio.get_running_loop()
        future: asyncio.Future[CallResult] = loop.create_future()
        self._busy += 1
        self._calls.append(_Call(function, argument, contextvars.copy_context(), future))
        if self._busy > self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._run_thread, name=f"{self._name}-{self._threads}", daemon=True).start()
        elif not self._waking_thread:
            self._wake_thread()
        return future

    def withdraw(self, future: asyncio.Future[CallResult]) -> None:
        """Withdraw a call that waits for a thread. A call that a thread has already taken continues."""
        for call in tuple(self._calls):
            if call.future is future:
                try:
                    self._calls.remove(call)
                except ValueError:  # a thread has taken the call meanwhile
                    return
                self._busy -= 1
                if not future.done():
                    future.set_result(_NEVER_CALLED)

    def close(self) -> None:
        """Let idle threads end. Busy threads end after their call."""
        for _ in range(self._threads):
            self._wakes.put(False)

    def _wake_thread(self) -> None:
        self._waking_thread = True
        self._wakes.put(True)

    def _run_thread(self) -> None:
        is_open = True
        while is_open:
            self._make_calls()
            is_open = self._wakes.get()
            self._waking_thread = False

    def _make_calls(self) -> None:
        calls, monotonic = self._calls, self._monotonic
        while calls:
            try:
                call = calls.popleft()
            except IndexError:  # another thread has taken the call
                return
            if calls and not self._waking_thread:
                self._wake_thread()
            began = monotonic()
            try:
                if call.future.done():  # cancelled while the call waited: the event loop is closing
                    result = _NEVER_CALLED
                else:
                    result = CallResult(call.context.run(call.function, call.argument), None, monotonic() - began)
            except BaseException as error:
                result = CallResult(None, error, monotonic() - began)
            self._results.append((call.future, result))
            del call, result  # so that an idle thread keeps no task alive
            if not self._waking_loop:
                self._wake_loop()

    def _wake_loop(self) -> None:
        self._waking_loop = True
        try:
            assert self._loop is not None  # noqa: S101
            self._loop.call_soon_threadsafe(self._set_results)
        except RuntimeError:
            self._waking_loop = False  # the loop is closed: no caller waits any more

    def _set_results(self) -> None:
        self._waking_loop = False
        while self._results:
            future, result = self._results.popleft()
            self._busy -= 1
            if not future.done():
                future.set_result(result)
