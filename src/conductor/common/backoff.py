"""Growing delays between failed attempts."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Computes the delay after each failure in a row: doubled every time, capped, and shortened by random jitter."""

    def __init__(
        self, first_s: float, cap_s: float, *, jitter: float = 0.0, rng: Callable[[], float] = random.random
    ) -> None:
        #: The number of failures in a row.
        self.count = 0
        self._first_s = first_s
        self._cap_s = cap_s
        self._jitter = jitter
        self._rng = rng

    @property
    def at_cap(self) -> bool:
        """Whether the last delay had reached the cap, before jitter."""
        return self.count > 0 and self._delay() >= self._cap_s

    def next(self) -> float:
        """Count a failure and return the seconds to wait."""
        self.count += 1
        return self._delay() * (1 - self._jitter * self._rng())

    def reset(self) -> int:
        """Start over after a success. Return the number of failures before it."""
        count, self.count = self.count, 0
        return count

    def _delay(self) -> float:
        # The exponent is at most 64, because 2 ** 64 ms exceeds every cap and much larger powers overflow a float.
        return float(min(self._first_s * 2 ** min(self.count - 1, 64), self._cap_s))
