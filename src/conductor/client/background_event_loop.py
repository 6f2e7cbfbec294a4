"""An event loop in a background thread, for code that calls coroutines without an event loop."""

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
    """The event loop of this process for all blocking calls. The first coroutine starts it.

    This is much faster than `asyncio.run`, which creates a new event loop for each call.

    Example:
        result = BackgroundEventLoop().run_coroutine(fetch(url))
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
        """Whether the event loop is running."""
        return self._loop is not None

    def run_coroutine(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and block until it ends. Return its result or raise its exception.

        Raises:
            RuntimeError: The caller is a coroutine on this event loop.
        """
        if self._loop is not None and threading.current_thread().name == _THREAD_NAME:
            coro.close()
            raise RuntimeError(
                "a blocking call on the background event loop never returns: await the coroutine instead"
            )
        return self.submit(coro).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the event loop and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._start())

    def submit_coroutine(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine, as `submit`. This is the name in conductor-python."""
        return self.submit(coro)

    def cleanup(self) -> None:
        """Stop the event loop and its thread. The next coroutine starts a new one."""
        with self._start_lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)

    def _start(self) -> asyncio.AbstractEventLoop:
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
