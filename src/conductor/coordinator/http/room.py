"""Room for the bodies of requests: how many bytes of them may be in memory at once, over all connections."""

from __future__ import annotations

import asyncio
from collections import deque

from conductor.coordinator.errors import ApiError

#: Bytes of bodies in memory at once.
MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024
#: A body up to this size is not counted: the sockets' buffers hold as much.
SMALL_BODY_BYTES = 64 * 1024
#: Who finds no room waits this long for it.
ROOM_TIMEOUT_S = 1.0


class Room:
    """Bytes to give out; who asks first is served first."""

    def __init__(self, size: int = MAX_BYTES_IN_FLIGHT) -> None:
        self.free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Take so many bytes; 503 if there is no room for them for too long."""
        if size <= self.free and not self._waiting:
            self.free -= size
            return
        granted = asyncio.get_running_loop().create_future()
        entry = size, granted
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(ROOM_TIMEOUT_S):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self.give(size)  # granted in the very moment it was given up
            else:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                self._serve()
            if isinstance(error, TimeoutError):
                raise ApiError(
                    503, "the coordinator has too many large requests in hand; try again in a moment", retryable=True
                ) from None
            raise

    def give(self, size: int) -> None:
        """Give them back."""
        self.free += size
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, granted = self._waiting.popleft()
            if granted.cancelled():
                continue
            self.free -= size
            granted.set_result(None)


class Share:
    """What one request has of the room; given back with it."""

    __slots__ = ("_room", "size")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0

    async def grow(self, size: int) -> None:
        """Have room for a body of this size."""
        if size > SMALL_BODY_BYTES and size > self.size:
            await self._room.take(size - self.size)
            self.size = size

    def end(self) -> None:
        """The request is answered."""
        if self.size:
            self._room.give(self.size)
            self.size = 0
