"""Forgetting finished workflows, by age and by number, in small steps beside the work."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from conductor.common.clock import Clock
from conductor.coordinator.store.lookup import remove_workflow
from conductor.coordinator.store.statements import ENDED_BEFORE, ENDED_BEYOND, OLDEST_ENDED
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreError

logger = logging.getLogger(__name__)

#: Workflows removed in one transaction: short enough that nobody notices.
STEP = 50
#: After something has ended, wait this long for more before looking.
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept of what has finished. None: everything."""

    age_s: float | None = None
    count: int | None = None

    def __bool__(self) -> bool:
        return self.age_s is not None or self.count is not None


KEEP_ALL = Limits()


class Retention:
    """Removes what is beyond the limits."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._ended = asyncio.Event()

    def notice(self) -> None:
        """Something has ended."""
        self._ended.set()

    async def run(self) -> None:
        """Until cancelled. Idle, it sleeps until the oldest finished workflow is too old."""
        while True:
            next_s = await self.sweep()
            await self._clock.wait(self._ended, next_s)
            self._ended.clear()
            await self._clock.sleep(SETTLE_S)

    async def sweep(self) -> float | None:
        """Remove all that is beyond the limits; in how many seconds there will be more, if nothing ends meanwhile."""
        try:
            while await self._store.write(self.step) == STEP:
                pass
            oldest_ms: int | None = await self._store.write(lambda tx: tx.first(OLDEST_ENDED))
        except StoreError as error:
            logger.error("finished workflows could not be removed: %s", error)
            return SETTLE_S
        if self._limits.age_s is None or oldest_ms is None:
            return None
        return max(0.0, self._limits.age_s - (self._clock.wall_ms() - oldest_ms) / 1000)

    def step(self, tx: Tx) -> int:
        """Remove a few; how many."""
        found = []
        if self._limits.age_s is not None:
            found = tx.rows(ENDED_BEFORE, tx.now_ms - int(self._limits.age_s * 1000), STEP)
        if self._limits.count is not None and not found:
            found = tx.rows(ENDED_BEYOND, STEP, self._limits.count)
        for workflow in found:
            remove_workflow(tx, workflow)
        return len(found)
