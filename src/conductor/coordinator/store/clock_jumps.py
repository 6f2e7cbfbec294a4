"""Detects that the wall clock was set, or that the machine was suspended.

Rows store wall-clock times, because they are read after a restart and shown to people. The writer compares the wall
clock with the monotonic clock, which never jumps, and has the stored times corrected (`tasks/clock_correction.py`).
"""

from __future__ import annotations

import logging

from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: A smaller difference is not corrected, because time servers adjust a clock by less than a second per hour.
MIN_JUMP_MS = 5_000


class ClockJumps:
    """Compares the wall clock with the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = self._read_offset_ms(clock.wall_ms())

    def measure(self, wall_ms: int) -> int:
        """Return by how many milliseconds the wall clock has jumped since the last correction; 0 for no jump."""
        jump_ms = self._read_offset_ms(wall_ms) - self._offset_ms
        return jump_ms if abs(jump_ms) >= MIN_JUMP_MS else 0

    def accept(self, jump_ms: int, failure: BaseException | None) -> None:
        """Log a jump, and measure later jumps relative to the clock after this jump.

        Args:
            jump_ms: The jump.
            failure: Why the stored times were not shifted; None if they were. There is no second attempt, because it
                would fail like the first one, in every commit.
        """
        self._offset_ms += jump_ms
        logger.log(
            logging.WARNING if failure is None else logging.ERROR,
            "Wall clock jumped %s: by=%.1fs; it was set, or the machine was suspended; leases and delays %s",
            "forward" if jump_ms > 0 else "back",
            abs(jump_ms) / 1000,
            "were shifted, too" if failure is None else "could not be shifted",
            exc_info=failure,
        )

    def _read_offset_ms(self, wall_ms: int) -> int:
        return wall_ms - round(self._clock.monotonic() * 1000)
