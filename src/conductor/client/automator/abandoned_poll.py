"""A poll that nobody waits for any more, but whose answer may still bring a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant


class LastPoll(asyncio.Task[None]):
    """Waits for the answer and passes on what it brings. It cannot be cancelled.

    A plain server cannot be told to forget a poll: broken off, it would still hand out a task, to nobody, until that
    task's response timeout. A program that ends cancels what is left on its event loop, and waits for it: so it waits
    here for the poll to end, which is a matter of seconds, while its stop has long returned.
    """

    def __init__(
        self,
        polling: asyncio.Task[list[Grant]],
        give_back: Callable[[list[Grant]], Awaitable[None]],
        limit_s: float,
    ) -> None:
        asyncio._unregister_task(polling)  # else the end of the loop would cancel it
        super().__init__(self._read(polling, give_back, limit_s), loop=asyncio.get_running_loop())

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002
        """Not this one."""
        return False

    @staticmethod
    async def _read(
        polling: asyncio.Task[list[Grant]], give_back: Callable[[list[Grant]], Awaitable[None]], limit_s: float
    ) -> None:
        await asyncio.wait({polling}, timeout=limit_s)
        if not polling.done():
            polling.cancel()
            await asyncio.wait({polling})
        failed = polling.cancelled() or polling.exception() is not None
        await give_back([] if failed else polling.result())
