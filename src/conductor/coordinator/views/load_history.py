"""The length of the queues over time. It is measured once a minute and kept in memory, so a restart forgets it."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from conductor.coordinator.store.statements import QUEUE_TOTALS, QueueTotals
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreClosed, StoreError

logger = logging.getLogger(__name__)

PERIOD_S = 60.0
#: The number of measurements that are kept: those of one week.
MAX_KEPT = 7 * 24 * 60


class _Measurement(NamedTuple):
    at_ms: int
    totals: QueueTotals


class LoadHistory:
    """Measures how many tasks wait in queues, and how many are held by workers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: deque[_Measurement] = deque(maxlen=MAX_KEPT)

    async def run(self) -> None:
        """Measure until cancelled. The sleeps use real time, because no workflow depends on a measurement."""
        while True:
            try:
                await self._store.read(self.add)
            except StoreClosed:
                return
            except StoreError as error:
                logger.warning("Queues could not be measured: error=%r", str(error))
            await asyncio.sleep(PERIOD_S)

    def add(self, tx: Tx) -> None:
        """Add the current totals of the queues to the history."""
        totals = tx.first(QUEUE_TOTALS)
        if totals is not None:
            self._kept.append(_Measurement(tx.now_ms, totals))

    def list_peaks(self, bounds: Sequence[int]) -> list[QueueTotals | None]:
        """Return the largest totals of each span between two bounds; None for a span without a measurement."""
        kept = list(self._kept)
        positions = [bisect_left(kept, at_ms, key=lambda one: one.at_ms) for at_ms in bounds]
        spans = (kept[low:high] for low, high in pairwise(positions))
        return [
            QueueTotals(max(one.totals.ready for one in span), max(one.totals.in_hand for one in span))
            if span
            else None
            for span in spans
        ]
