"""Finds loops that run many rounds per second. Such a loop is usually a mistake, and it can use most of a core.

The pace of a loop is measured once per `ROUNDS_BETWEEN_CHECKS` rounds, in memory.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from conductor.common.clock import Clock
from conductor.protocol.views import LoopPace

logger = logging.getLogger(__name__)

ROUNDS_BETWEEN_CHECKS = 100
#: A loop with at least this many rounds per second is fast.
FAST_ROUNDS_PER_S = 10.0
#: A loop whose last measurement is older than this is not fast, because a fast loop is measured again within this time.
FORGET_AFTER_S = ROUNDS_BETWEEN_CHECKS / FAST_ROUNDS_PER_S
#: The maximum number of loops whose last measurement is kept.
MAX_LOOPS = 1_000


class LoopRound(NamedTuple):
    """A round of a loop at which its pace is measured."""

    workflow: str
    workflow_name: str
    ref: str
    round_no: int


class _MeasuredLoop(NamedTuple):
    """A loop, and its pace at the last measurement."""

    last: LoopRound
    at_s: float
    rounds_per_s: float


class FastLoops:
    """Measures the pace of running loops, and lists the loops that are fast."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loops: dict[tuple[str, str], _MeasuredLoop] = {}

    def note(self, reached: LoopRound) -> None:
        """Measure the pace of a loop, and log a warning when the loop becomes fast."""
        now_s, key = self._clock.monotonic(), (reached.workflow, reached.ref)
        before = self._loops.pop(key, None)
        pace = 0.0
        if before is not None and reached.round_no > before.last.round_no and self._is_recent(before, now_s):
            pace = (reached.round_no - before.last.round_no) / max(now_s - before.at_s, 0.001)
        self._loops[key] = _MeasuredLoop(reached, now_s, pace)
        if len(self._loops) > MAX_LOOPS:
            del self._loops[next(iter(self._loops))]
        was_fast = before is not None and before.rounds_per_s >= FAST_ROUNDS_PER_S
        if pace >= FAST_ROUNDS_PER_S and not was_fast:
            logger.warning(
                "Loop runs without a pause: workflow_id=%s workflow=%s loop=%s rounds=%d rounds_per_second=%.0f",
                *reached,
                pace,
            )

    def list_fast(self) -> list[LoopPace]:
        """Return the loops that are fast now, the fastest first."""
        now_s = self._clock.monotonic()
        fast = [
            LoopPace(*loop.last, rounds_per_second=loop.rounds_per_s)
            for loop in self._loops.values()
            if loop.rounds_per_s >= FAST_ROUNDS_PER_S and self._is_recent(loop, now_s)
        ]
        return sorted(fast, key=lambda loop: -loop.rounds_per_second)

    @staticmethod
    def _is_recent(loop: _MeasuredLoop, now_s: float) -> bool:
        return now_s - loop.at_s <= FORGET_AFTER_S
