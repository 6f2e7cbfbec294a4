"""Removes finished workflows by age and by number, in small transactions."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from conductor.common.clock import Clock
from conductor.coordinator.limits import TURN_S
from conductor.coordinator.store.lookup import remove_workflow
from conductor.coordinator.store.statements import ENDED_BEFORE, ENDED_BEYOND, OLDEST_ENDED
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreError

logger = logging.getLogger(__name__)

#: The maximum number of workflows that one transaction removes.
REMOVED_PER_TRANSACTION = 50
#: The retention waits this long after a workflow has ended, so that it removes several workflows at once.
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long finished workflows and audit entries are kept, and how many finished workflows. None means no limit."""

    age_s: float | None = None
    count: int | None = None
    #: How long entries of the audit trail are kept.
    audit_s: float | None = None

    def __bool__(self) -> bool:
        return self.age_s is not None or self.count is not None


KEEP_ALL = Limits()


class Retention:
    """Removes finished workflows that exceed the limits."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._ended = asyncio.Event()

    def notice(self) -> None:
        """Wake the retention, because a workflow has ended."""
        self._ended.set()

    async def run(self) -> None:
        """Until cancelled, sweep when a workflow has ended and when the oldest finished workflow becomes too old."""
        while True:
            next_s = await self.sweep()
            await self._clock.wait(self._ended, next_s)
            self._ended.clear()
            await self._clock.sleep(SETTLE_S)

    async def sweep(self) -> float | None:
        """Remove all workflows that exceed the limits.

        Return the seconds until the next sweep; None to wait until a workflow ends.
        """
        try:
            while await self._store.write(self.step):
                pass
            oldest_ms: int | None = await self._store.write(lambda tx: tx.first(OLDEST_ENDED))
        except StoreError as error:
            logger.error("Finished workflows could not be removed: error=%r", str(error))
            return SETTLE_S
        if self._limits.age_s is None or oldest_ms is None:
            return None
        return max(0.0, self._limits.age_s - (self._clock.wall_ms() - oldest_ms) / 1000)

    def step(self, tx: Tx) -> bool:
        """Remove up to `REMOVED_PER_TRANSACTION` workflows, for about `TURN_S`. Return False if none was left."""
        ends_s = time.thread_time() + TURN_S
        found = []
        if self._limits.age_s is not None:
            found = tx.rows(ENDED_BEFORE, tx.now_ms - int(self._limits.age_s * 1000), REMOVED_PER_TRANSACTION)
        if self._limits.count is not None and not found:
            found = tx.rows(ENDED_BEYOND, REMOVED_PER_TRANSACTION, self._limits.count)
        for workflow in found:
            remove_workflow(tx, workflow)
            if time.thread_time() > ends_s:
                break
        return bool(found)
