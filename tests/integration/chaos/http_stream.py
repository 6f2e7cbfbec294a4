"""Reads whole HTTP/1.1 messages from a socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import NamedTuple

_HEAD_END = b"\r\n\r\n"


class Message(NamedTuple):
    """A request or an answer, as bytes."""

    head: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.head + self.body

    @property
    def first_line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    def header(self, name: str) -> str | None:
        """A header's value, or None."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.encode():
                return value.strip().decode("latin-1")
        return None


class Stream:
    """Reads the messages of one side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._buffer = bytearray()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ended(self) -> None:
        """Return when the other side has closed; what it sends before is kept."""
        while await self._fill():
            pass

    async def message(self, *, answer: bool = False) -> Message | None:
        """The next whole message; None when the other side closes first."""
        while _HEAD_END not in self._buffer:
            if not await self._fill():
                return None
        length = self._buffer.index(_HEAD_END) + len(_HEAD_END)
        head = Message(bytes(self._buffer[:length]), b"")
        del self._buffer[:length]
        body = await self._body(head, answer=answer)
        return None if body is None else Message(head.head, body)

    def close(self) -> None:
        """Drop the connection with whatever is on its way."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """Drop the connection with a reset, as a machine does that knows nothing of it any more."""
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    async def _body(self, head: Message, *, answer: bool) -> bytes | None:
        if answer and head.first_line.split(" ")[1] in ("204", "304"):
            return b""
        if (head.header("transfer-encoding") or "").lower() == "chunked":
            return await self._chunks()
        return await self._exactly(int(head.header("content-length") or 0))

    async def _exactly(self, length: int) -> bytes | None:
        while len(self._buffer) < length:
            if not await self._fill():
                return None
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    async def _chunks(self) -> bytes | None:
        whole = b""
        while True:
            while b"\r\n" not in self._buffer:
                if not await self._fill():
                    return None
            line = bytes(self._buffer[: self._buffer.index(b"\r\n") + 2])
            size = int(line.split(b";")[0], 16)
            chunk = await self._exactly(len(line) + size + 2)
            if chunk is None:
                return None
            whole += chunk
            if size == 0:
                return whole

    async def _fill(self) -> bool:
        try:
            data = await self._reader.read(65536)
        except OSError:
            return False
        self._buffer += data
        return bool(data)
