"""One event loop in a background thread, for programs that call coroutines from plain code."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class BackgroundEventLoop:
    """The process's background loop: one for all callers, started by the first coroutine, gone at exit.

        BackgroundEventLoop().run_coroutine(fetch(url))     # blocks until the result is there

    Much cheaper than `asyncio.run` for each call, which makes and destroys a loop every time.
    """

    _instance: ClassVar[BackgroundEventLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __new__(cls) -> BackgroundEventLoop:
        with cls._lock:
            # A forked child inherits the object but not its thread.
            if cls._instance is None or cls._instance._pid != os.getpid():
                cls._instance = super().__new__(cls)
                cls._instance._pid = os.getpid()
                cls._instance._loop = None
                cls._instance._start_lock = threading.Lock()
            return cls._instance

    _pid: int
    _loop: asyncio.AbstractEventLoop | None
    _start_lock: threading.Lock

    @property
    def is_running(self) -> bool:
        """Whether a coroutine has started the loop already."""
        return self._loop is not None

    def run_coroutine(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the background loop; block until it ends; return or raise what it did."""
        if self._loop is not None and threading.current_thread().name == _THREAD_NAME:
            coro.close()
            raise RuntimeError("this would wait for itself: a coroutine on the background loop must be awaited instead")
        return self.submit(coro).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start the coroutine on the background loop and return at once."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started())

    def submit_coroutine(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """`submit` under its name in conductor-python."""
        return self.submit(coro)

    def cleanup(self) -> None:
        """Stop the loop and its thread; the next coroutine starts a new one."""
        with self._start_lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._start_lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name=_THREAD_NAME, daemon=True).start()
                atexit.register(self.cleanup)
            return self._loop


_THREAD_NAME = "conductor-background-loop"


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()
