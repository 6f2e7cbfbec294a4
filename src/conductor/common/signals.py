"""Borrowed signals: handlers are set for a block and put back after it, and only where Python allows it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: What the first SIGTERM or Ctrl-C does, in the log; takes the grace in seconds.
FINISHING = "Told to stop: finishing what is in hand, up to %.0f s; a second signal ends it at once"
#: What SIGUSR1 does, in the log.
QUIET = "SIGUSR1: no new tasks; what is in hand is finished"
#: timeout(1) and others signal a program and then its whole group, and mean one thing: signals this close count as one.
ONE_SIGNAL_S = 0.01


@contextmanager
def borrowed(callback: Callable[[int], None], *signals: int) -> Iterator[None]:
    """Call `callback(number)` for these signals inside the block.

    Off the main thread nothing can be borrowed, and nothing is: the program's own arrangement stands.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        callback(number)

    before = {number: signal.signal(number, handle) for number in signals}
    try:
        for earlier in before.values():
            if isinstance(earlier, _Kept):
                earlier.hand_over(callback)
        yield
    finally:
        for number, handler in before.items():
            # None: the handler was not set from Python and cannot be set back; the default is the nearest.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def on_stop(callback: Callable[[bool], None], *, signals: tuple[int, ...] = (signal.SIGTERM,)) -> Iterator[None]:
    """Call `callback(again)` for these signals inside the block: False for the first, True for any that follows."""
    told_at: float | None = None

    def handle(_number: int) -> None:
        nonlocal told_at
        if told_at is None:
            callback(False)
            told_at = time.monotonic()
        elif time.monotonic() - told_at >= ONE_SIGNAL_S:
            callback(True)

    with borrowed(handle, *signals):
        yield


@contextmanager
def overheard(number: int) -> Iterator[list[int]]:
    """Let a signal do what it does, and note it in the list given; nothing is noted off the main thread."""
    heard: list[int] = []
    before = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield heard
        return

    def handle(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        before(number, frame)

    signal.signal(number, handle)
    try:
        yield heard
    finally:
        if signal.getsignal(number) is handle:  # else somebody has set another one inside the block
            signal.signal(number, before)


class _Kept:
    """A handler that only remembers."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._numbers.append(number)

    def hand_over(self, callback: Callable[[int], object]) -> None:
        """Pass on what has come so far."""
        while self._numbers:
            callback(self._numbers.pop(0))


@contextmanager
def kept(number: int) -> Iterator[None]:
    """Keep a signal that comes inside the block for the next borrower there; without one, it comes after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    keeper = _Kept()
    before = signal.signal(number, keeper)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if before is None else before)
        keeper.hand_over(signal.raise_signal)


def exit_name(exit_status: int | None) -> str:
    """Return how a process ended: `status 3`, `SIGSEGV`, or `unknown`.

    Args:
        exit_status: As `multiprocessing` gives it: negative for a signal; None if nobody has seen the end.
    """
    if exit_status is None:
        return "unknown"
    if exit_status >= 0:
        return f"status {exit_status}"
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"
