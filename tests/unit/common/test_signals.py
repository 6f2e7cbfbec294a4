"""Signal handlers are set for a block and restored after it."""

from __future__ import annotations

import signal
import threading

import pytest

from conductor.common.signals import defer_signal, handle_signals, handle_stop_signals


def test_the_first_signal_and_those_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []
    monkeypatch.setattr("conductor.common.signals.SAME_SIGNAL_S", 0.0)
    with handle_stop_signals(heard.append, signals=(signal.SIGUSR2,)):
        for _ in range(3):
            signal.raise_signal(signal.SIGUSR2)
    assert heard == [False, True, True]


def test_two_signals_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """timeout(1) signals the program, and then its group."""
    heard: list[bool] = []
    monkeypatch.setattr("conductor.common.signals.SAME_SIGNAL_S", 3600.0)
    with handle_stop_signals(heard.append, signals=(signal.SIGUSR2,)):
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR2)
    assert heard == [False]


def test_each_block_counts_from_the_beginning() -> None:
    heard: list[bool] = []
    for _ in range(2):
        with handle_stop_signals(heard.append, signals=(signal.SIGUSR2,)):
            signal.raise_signal(signal.SIGUSR2)
    assert heard == [False, False]


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN, lambda *_: None], ids=["default", "ignored", "own"])
def test_the_handler_from_before_comes_back_after_an_error_too(before: signal.Handlers) -> None:
    kept = signal.signal(signal.SIGUSR2, before)
    try:
        with pytest.raises(ZeroDivisionError), handle_signals(lambda _: None, signal.SIGUSR2):
            assert signal.getsignal(signal.SIGUSR2) is not before
            raise ZeroDivisionError
        assert signal.getsignal(signal.SIGUSR2) is before
    finally:
        signal.signal(signal.SIGUSR2, kept)


def test_blocks_may_be_nested() -> None:
    heard: list[str] = []
    with handle_signals(lambda _: heard.append("outer"), signal.SIGUSR2):
        with handle_signals(lambda _: heard.append("inner"), signal.SIGUSR2):
            signal.raise_signal(signal.SIGUSR2)
        signal.raise_signal(signal.SIGUSR2)
    assert heard == ["inner", "outer"]


def test_a_signal_that_came_too_early_is_kept_for_the_next_block(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []
    monkeypatch.setattr("conductor.common.signals.SAME_SIGNAL_S", 0.0)
    with defer_signal(signal.SIGUSR2):
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR2)
        with handle_stop_signals(heard.append, signals=(signal.SIGUSR2,)):
            signal.raise_signal(signal.SIGUSR2)
    assert heard == [False, True, True]


def test_a_signal_without_a_handler_is_delivered_after_the_block() -> None:
    heard: list[int] = []
    with handle_signals(heard.append, signal.SIGUSR2):
        with defer_signal(signal.SIGUSR2):
            signal.raise_signal(signal.SIGUSR2)
            assert heard == []
        assert heard == [signal.SIGUSR2]


def test_outside_the_main_thread_no_handler_is_set() -> None:
    before = signal.getsignal(signal.SIGTERM)
    during: list[object] = []

    def elsewhere() -> None:
        with handle_stop_signals(lambda _: None):
            during.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert during == [before]
