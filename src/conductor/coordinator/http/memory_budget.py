"""Limits on the memory that request bodies and answers occupy, over all connections.

The application has one budget for bodies and one for answers. Small bodies and answers are not counted, because the
socket buffers of a connection take as much memory.
"""

from __future__ import annotations

import asyncio
from collections import deque

from conductor.coordinator.request_errors import ApiError

#: Maximum bytes of request bodies in memory at the same time.
BODY_BUDGET_BYTES = 64 * 1024 * 1024
#: Maximum bytes of answers that clients have not read yet.
ANSWER_BUDGET_BYTES = 64 * 1024 * 1024
#: Bodies and answers up to this size are not counted.
UNCOUNTED_BYTES = 64 * 1024
#: A reservation that is not granted within this time fails with a 503.
RESERVE_TIMEOUT_S = 1.0


class MemoryBudget:
    """A limited number of bytes, which bodies or answers reserve first come, first served.

    Args:
        size: The total bytes that can be reserved at the same time.
        what: The plural noun in the error message, such as "large requests".
    """

    def __init__(self, size: int, what: str) -> None:
        self.size = self.free = size
        self._what = what
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_take(self, size: int) -> bool:
        """Take bytes if they are free and no reservation is waiting; return whether they were taken."""
        if size > self.free or self._waiting:
            return False
        self.free -= size
        return True

    async def take(self, size: int) -> None:
        """Take bytes, or wait for them.

        Raises:
            ApiError: 503, if the bytes are not free within `RESERVE_TIMEOUT_S`.
        """
        if self.try_take(size):
            return
        granted = asyncio.get_running_loop().create_future()
        entry = size, granted
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(RESERVE_TIMEOUT_S):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self.give(size)  # the bytes were granted just before the timeout or cancellation: release them
            else:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                self._grant_waiting()
            if isinstance(error, TimeoutError):
                raise self.exhausted() from None
            raise

    def take_anyway(self, size: int) -> None:
        """Take bytes even if they are not free. `free` can then be negative, and later reservations wait."""
        self.free -= size

    def give(self, size: int) -> None:
        """Release bytes."""
        self.free += size
        self._grant_waiting()

    def exhausted(self) -> ApiError:
        """Return the 503 for a request that gets no reservation."""
        message = f"the coordinator has too many {self._what} in memory; try again in a moment"
        return ApiError(503, message, retryable=True)

    def _grant_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, granted = self._waiting.popleft()
            if granted.cancelled():
                continue
            self.free -= size
            granted.set_result(None)


class Reservation:
    """Bytes of a budget that one body or one answer holds until `end`.

    An answer larger than the budget reserves the whole budget and no more, so that it can be sent.
    """

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0

    def try_grow(self, size: int) -> bool:
        """Reserve `size` bytes in total without waiting; return whether they are reserved."""
        missing = self._missing(size)
        if missing and not self._budget.try_take(missing):
            return False
        self.size += missing
        return True

    async def grow(self, size: int) -> None:
        """Reserve `size` bytes in total, or wait for them; 503 if they do not become free."""
        if missing := self._missing(size):
            await self._budget.take(missing)
            self.size += missing

    def grow_anyway(self, size: int) -> None:
        """Reserve `size` bytes in total even if they are not free."""
        missing = self._missing(size)
        self._budget.take_anyway(missing)
        self.size += missing

    def end(self) -> None:
        """Release all bytes; a second call does nothing."""
        if self.size:
            self._budget.give(self.size)
            self.size = 0

    def _missing(self, size: int) -> int:
        return 0 if size <= UNCOUNTED_BYTES else max(0, min(size, self._budget.size) - self.size)
