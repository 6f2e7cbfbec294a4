"""The part of HTTP/1.1 that the stub needs: requests, answers, and connections that stay open, close or break."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast


class BadRequest(Exception):
    """The received bytes are not a valid HTTP request."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request from the wire. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class StubAnswer:
    """The answer to one request."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self, *, close: bool) -> bytes:
        """Return the bytes to send; with `close`, announce that the connection ends."""
        phrase = HTTPStatus(self.status).phrase if self.status in list(HTTPStatus) else "Unknown"
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        if self.body or self.status not in (204, 304):
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        if close:
            lines.append("Connection: close")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class StubConnection(asyncio.Protocol):
    """A client connection. Serves one request at a time; a disconnect cancels the current one."""

    def __init__(
        self,
        number: int,
        serve: Callable[[StubConnection, RawRequest], Awaitable[None]],
        open_connections: set[StubConnection],
    ) -> None:
        self.number = number
        self.lost = asyncio.Event()
        self._serve = serve
        #: The open connections of a listener. All of its connections share this set.
        self._open_connections = open_connections
        self._received = bytearray()
        self._pending: deque[RawRequest] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open_connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while (parsed := parse_request(self._received)) is not None:
                request, length = parsed
                del self._received[:length]
                self._pending.append(request)
        except BadRequest as error:
            self.send(StubAnswer(400, str(error).encode(), "text/plain"), close=True)
            return
        if self._pending and self._serving is None:
            self._serving = asyncio.get_running_loop().create_task(self._serve_pending())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self._closing = True
        if self._serving is not None:
            self._serving.cancel()
        self._open_connections.discard(self)
        self.lost.set()

    async def _serve_pending(self) -> None:
        try:
            while self._pending and not self._closing:
                await self._serve(self, self._pending.popleft())
        finally:
            self._serving = None

    def send(self, answer: StubAnswer, *, close: bool = False) -> None:
        """Answer the current request; with `close`, announce the end of the connection and close it."""
        self.send_raw(answer.encode(close=close), close=close)

    def send_raw(self, data: bytes, *, close: bool) -> None:
        """Send bytes unchanged."""
        if self._closing:
            return
        self._transport.write(data)
        if close:
            self.close()

    def close(self) -> None:
        """Close the connection with a FIN."""
        self._closing = True
        self._transport.close()

    def reset(self) -> None:
        """Close the connection with an RST, so that the client reads "connection reset by peer". Idempotent."""
        self._closing = True
        if self.lost.is_set():
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def parse_request(data: bytearray) -> tuple[RawRequest, int] | None:
    """Return the first request in the data and its length in bytes, or None while it is incomplete."""
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    lines = data[:head_end].decode("latin-1").split("\r\n")
    try:
        method, target, version = lines[0].split(" ")
    except ValueError:
        raise BadRequest(f"not a request line: {lines[0][:80]!r}") from None
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = _parse_body(data, head_end + 4, headers)
    if body is None:
        return None
    keep_alive = headers.get("connection", "").lower() != "close" and version == "HTTP/1.1"
    return RawRequest(method, target, headers, body[0], keep_alive), body[1]


def _parse_body(data: bytearray, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
    """Return the body and the position of its end, or None while it is incomplete."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _parse_chunks(data, start)
    try:
        end = start + int(headers.get("content-length", "0"))
    except ValueError:
        raise BadRequest(f"not a content length: {headers['content-length']!r}") from None
    return (bytes(data[start:end]), end) if len(data) >= end else None


def _parse_chunks(data: bytearray, start: int) -> tuple[bytes, int] | None:
    chunks: list[bytes] = []
    while (line_end := data.find(b"\r\n", start)) >= 0:
        try:
            size = int(data[start:line_end].split(b";")[0], 16)
        except ValueError:
            raise BadRequest(f"not a chunk size: {bytes(data[start:line_end])[:80]!r}") from None
        end = line_end + 2 + size + 2
        if len(data) < end:
            return None
        if size == 0:
            return b"".join(chunks), end
        chunks.append(bytes(data[line_end + 2 : end - 2]))
        start = end
    return None
