"""Signal handlers that are set for a block and restored after it. Python allows that only in the main thread."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: The log line for the first SIGTERM or Ctrl-C. Takes the grace period in seconds.
STOPPING_MESSAGE = "Stop requested: running tasks have up to %.0f s to finish; a second signal ends the program at once"
#: The log line for SIGUSR1.
DRAINING_MESSAGE = "SIGUSR1 received: polling stops, running tasks finish"
#: Signals within this time count as one, because timeout(1) signals a program and then its whole process group.
SAME_SIGNAL_S = 0.01


@contextmanager
def handle_signals(callback: Callable[[int], None], *signals: int) -> Iterator[None]:
    """Call `callback(number)` for these signals inside the block. Do nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        callback(number)

    before = {number: signal.signal(number, handle) for number in signals}
    try:
        for earlier in before.values():
            if isinstance(earlier, _DeferringHandler):
                earlier.replay(callback)
        yield
    finally:
        for number, handler in before.items():
            _restore(number, handler)


@contextmanager
def handle_stop_signals(
    callback: Callable[[bool], None], *, signals: tuple[int, ...] = (signal.SIGTERM,)
) -> Iterator[None]:
    """Call `callback(again)` for these signals inside the block: False for the first one, True for later ones."""
    first_at: float | None = None

    def handle(_number: int) -> None:
        nonlocal first_at
        if first_at is None:
            callback(False)
            first_at = time.monotonic()
        elif time.monotonic() - first_at >= SAME_SIGNAL_S:
            callback(True)

    with handle_signals(handle, *signals):
        yield


@contextmanager
def record_signal(number: int) -> Iterator[list[int]]:
    """Append a signal to the yielded list whenever it arrives inside the block, then call the previous handler.

    The list stays empty outside the main thread, and if the previous handler is not a Python function.
    """
    received: list[int] = []
    before = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield received
        return

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        before(number, frame)

    signal.signal(number, handle)
    try:
        yield received
    finally:
        # Keep a handler that code inside the block has set.
        if signal.getsignal(number) is handle:
            signal.signal(number, before)


class _DeferringHandler:
    """A signal handler that stores signals for `replay`."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._numbers.append(number)

    def replay(self, callback: Callable[[int], object]) -> None:
        while self._numbers:
            callback(self._numbers.pop(0))


@contextmanager
def defer_signal(number: int) -> Iterator[None]:
    """Store a signal that arrives inside the block.

    The next `handle_signals` inside the block receives it. Without one, the signal is raised after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferring = _DeferringHandler()
    before = signal.signal(number, deferring)
    try:
        yield
    finally:
        _restore(number, before)
        deferring.replay(signal.raise_signal)


def _restore(number: int, handler: Callable[[int, FrameType | None], object] | int | None) -> None:
    # None means a handler that was not set from Python. Such a handler cannot be restored, so the default handler is
    # set.
    signal.signal(number, signal.SIG_DFL if handler is None else handler)


def format_exit_status(exit_status: int | None) -> str:
    """Return how a process ended: `status 3`, `SIGSEGV`, or `unknown`.

    Args:
        exit_status: As in `multiprocessing`: negative for a signal, None if the end was not observed.
    """
    if exit_status is None:
        return "unknown"
    if exit_status >= 0:
        return f"status {exit_status}"
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"
