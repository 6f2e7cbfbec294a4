"""How long to wait after something has failed, again and again."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """How long to wait after the n-th mishap of one kind in a row: doubling, up to a cap, shortened by some jitter."""

    def __init__(
        self, first_s: float, cap_s: float, *, jitter: float = 0.0, rng: Callable[[], float] = random.random
    ) -> None:
        self.count = 0
        self._first_s = first_s
        self._cap_s = cap_s
        self._jitter = jitter
        self._rng = rng

    @property
    def at_cap(self) -> bool:
        """Whether the last wait was as long as waits get."""
        return self.count > 0 and self._delay() >= self._cap_s

    def next(self) -> float:
        """One more mishap: the seconds to wait now."""
        self.count += 1
        return self._delay() * (1 - self._jitter * self._rng())

    def reset(self) -> int:
        """A success: back to the beginning. Returns how many mishaps there were."""
        count, self.count = self.count, 0
        return count

    def _delay(self) -> float:
        # The exponent is bounded: 2 ** 64 ms is past every cap, and floats stay floats.
        return float(min(self._first_s * 2 ** min(self.count - 1, 64), self._cap_s))
