"""Whether the writer writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from conductor.coordinator.store.statements import TOUCH
from conductor.coordinator.store.transaction import Tx

if TYPE_CHECKING:
    from conductor.coordinator.store.writer import Store

#: A writer that does not answer for this long hangs.
ANSWER_TIMEOUT_S = 2.0


class Probe:
    """Asks the writer. However many want to know, one question is under way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: asyncio.Task[None] | None = None
        self._asked_at = 0.0

    async def problem(self) -> str | None:
        """What is wrong with the writer; None while it writes."""
        loop = asyncio.get_running_loop()
        if self._asked is None or self._asked.done():
            self._asked = loop.create_task(self._store.write(self._touch))
            self._asked_at = loop.time()
            self._asked.add_done_callback(_look)
        asked = self._asked
        await asyncio.wait([asked], timeout=max(0.0, self._asked_at + ANSWER_TIMEOUT_S - loop.time()))
        if not asked.done():
            return f"the writer of the database has not answered for {ANSWER_TIMEOUT_S:.0f} s"
        if not asked.cancelled() and (error := asked.exception()) is not None:
            return str(error)
        return self._store.failure

    def _touch(self, tx: Tx) -> None:
        # Nothing is written while all is well. After a failure, only a write tells that it is over.
        if self._store.failure is not None:
            tx.run(TOUCH)


def _look(asked: asyncio.Task[None]) -> None:
    """The answer may come when nobody waits for it any more."""
    if not asked.cancelled():
        asked.exception()
