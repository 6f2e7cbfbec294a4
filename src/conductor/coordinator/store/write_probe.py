"""Finds out whether the writer can write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from conductor.coordinator.store.statements import TOUCH
from conductor.coordinator.store.transaction import Tx

if TYPE_CHECKING:
    from conductor.coordinator.store.writer import Store

#: The writer is reported as hanging if it does not answer within this time.
ANSWER_TIMEOUT_S = 2.0


class WriteProbe:
    """Submits a test job to the writer. Concurrent callers share one job."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._job: asyncio.Task[None] | None = None
        self._submitted_at = 0.0

    async def find_problem(self) -> str | None:
        """Return what is wrong with the writer, or why it must not write; None while it can write."""
        if self._store.fence.reason is not None:
            return self._store.fence.reason
        loop = asyncio.get_running_loop()
        if self._job is None or self._job.done():
            self._job = loop.create_task(self._store.write(self._touch))
            self._submitted_at = loop.time()
            self._job.add_done_callback(_retrieve_error)
        job = self._job
        await asyncio.wait([job], timeout=max(0.0, self._submitted_at + ANSWER_TIMEOUT_S - loop.time()))
        if not job.done():
            return f"the writer of the database has not answered for {ANSWER_TIMEOUT_S:.0f} s"
        if not job.cancelled() and (error := job.exception()) is not None:
            return str(error)
        return self._store.failure or self._store.disk.find_problem()

    def _touch(self, tx: Tx) -> None:
        # Write only after a failed commit, because only a write shows whether the database is writable again.
        if self._store.failure is not None:
            tx.run(TOUCH)


def _retrieve_error(job: asyncio.Task[None]) -> None:
    """Retrieve the error, so that asyncio does not log it if all callers have given up waiting."""
    if not job.cancelled():
        job.exception()
