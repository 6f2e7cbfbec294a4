"""How long the writer waits for Litestream, and how often, with a log whose length the test sets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.coordinator.store import wal_gap
from conductor.coordinator.store.wal_gap import LONG_LOG_PAGES, MAX_GAP_S, WalGap


class FakeTime:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Log:
    """The shared memory file of a database, with the length of the log."""

    def __init__(self, database: Path) -> None:
        self._file = Path(f"{database}-shm")
        self._file.write_bytes(bytes(48))

    def set_pages(self, pages: int) -> None:
        with self._file.open("r+b") as file:
            file.seek(16)
            file.write(pages.to_bytes(4, sys.byteorder))


def waits_of(gap: WalGap, clock: FakeTime, duration_s: float, asked: Callable[[], int]) -> list[float]:
    """Commit every 10 ms. Return how long after the beginning each wait began."""
    began_s, waits = clock.now_s, []
    while clock.now_s < began_s + duration_s:
        before, at_s = asked(), clock.now_s
        gap.wait_for_reset()
        if asked() > before:
            waits.append(round(at_s - began_s, 1))
        clock.sleep(0.01)
    return waits


def test_the_pause_grows_while_the_log_is_not_reset_and_shrinks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, log, asks = FakeTime(), Log(tmp_path / "a.db"), list[float]()
    monkeypatch.setattr(wal_gap, "time", clock)
    gap = WalGap(str(tmp_path / "a.db"), lambda: asks.append(clock.now_s))
    try:
        assert waits_of(gap, clock, 5, lambda: len(asks)) == [], "a short log"
        log.set_pages(LONG_LOG_PAGES + 1)
        assert waits_of(gap, clock, 30, lambda: len(asks)) == pytest.approx(
            [0, 0.5, 1.5, 3.5, 7.5, 15.5, 23.5], abs=0.2
        )
        assert gap.total_s == pytest.approx(7 * MAX_GAP_S, rel=0.1)
        clock.sleep(8)
        monkeypatch.setattr(gap, "_ask_for_sync", lambda: log.set_pages(0))
        gap.wait_for_reset()  # Litestream resets the log at once
        monkeypatch.setattr(gap, "_ask_for_sync", lambda: asks.append(clock.now_s))
        log.set_pages(LONG_LOG_PAGES + 1)
        assert waits_of(gap, clock, 1, lambda: len(asks)) == pytest.approx([0, 0.5], abs=0.2)
    finally:
        gap.close()
