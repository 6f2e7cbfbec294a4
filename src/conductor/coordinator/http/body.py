"""A request whose body is arriving: flow control, limits, and the disconnect of its client.

The connection adds the bytes of the body as they arrive, and the application takes them. The connection stops reading
from its socket when `UNREAD_BODY_BYTES` have arrived and the application has not asked for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from conductor.coordinator.http.memory_budget import Reservation
from conductor.coordinator.http.request import RequestHead
from conductor.coordinator.keys.roles import Identity
from conductor.coordinator.request_errors import ApiError

#: A body that takes longer than this to arrive is rejected with 408.
BODY_TIMEOUT_S = 30.0
#: Bytes of a body that are read from the socket before the application asks for the body.
UNREAD_BODY_BYTES = 64 * 1024


class BodySource(Protocol):
    """The connection that a body arrives on."""

    def pause_reading(self) -> None:
        """Stop reading from the socket."""

    def resume_reading(self) -> None:
        """Continue reading from the socket."""

    def send_continue(self) -> None:
        """Tell the client to send the body: `100 Continue`."""


class IncomingBody:
    """The part of a body that has arrived so far."""

    __slots__ = (
        "_arrival", "_data", "_sends_continue", "_source", "awaits_continue", "is_complete", "is_cut_off", "size",
    )  # fmt: skip

    def __init__(self, source: BodySource, head: RequestHead) -> None:
        self._source = source
        #: The bytes that have arrived and were not taken, in one buffer. A client can send a body in tiny chunks, and a
        #: list of them would take up to 70 times their size.
        self._data: bytes | bytearray = b""
        self._arrival: asyncio.Future[None] | None = None
        #: Bytes that have arrived.
        self.size = 0
        self.is_complete = False
        #: True if the client has disconnected, so that the rest of the body never arrives.
        self.is_cut_off = False
        expect = head.headers.get(b"expect")
        #: True if the client may be waiting for `100 Continue`, and the application has not requested the body yet.
        self.awaits_continue = expect is not None
        self._sends_continue = expect is not None and expect.lower() == b"100-continue" and head.http_version != "1.0"

    def feed(self, chunk: bytes) -> None:
        """Add the bytes that have just arrived."""
        if not self._data:
            self._data = chunk  # the common case: a body of one chunk is not copied
        elif isinstance(self._data, bytes):
            self._data = bytearray(self._data) + chunk
        else:
            self._data += chunk
        self.size += len(chunk)
        if self._arrival is not None:
            self._wake()
        elif self.size > UNREAD_BODY_BYTES:
            self._source.pause_reading()

    def finish(self) -> None:
        """Mark the body as complete."""
        self.is_complete = True
        self._wake()

    def cut_off(self) -> None:
        """Record that the client has disconnected; reading the body then raises `ConnectionResetError`."""
        self.is_cut_off = True
        self._wake()

    async def wait_for_more(self) -> None:
        """Wait until more bytes have arrived. Send `100 Continue` first if the client waits for it.

        Raises:
            ConnectionResetError: The client has disconnected.
        """
        if self.is_cut_off:
            raise ConnectionResetError("the client disconnected in the middle of its request")
        self._arrival = asyncio.get_running_loop().create_future()
        if self.awaits_continue and self._sends_continue and not self.size:
            self._source.send_continue()
        self.awaits_continue = False
        self._source.resume_reading()
        await self._arrival

    def take(self) -> bytes:
        """Return the bytes that have arrived, and forget them."""
        data, self._data = self._data, b""
        return bytes(data)  # no copy unless there were several chunks

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        self._arrival = None


class IncomingRequest:
    """A request on a connection, from its head to the end of its body."""

    __slots__ = ("_callback", "_client_is_silent", "body", "head", "identity")

    def __init__(self, head: RequestHead, source: BodySource) -> None:
        self.head = head
        self.body = IncomingBody(source, head)
        #: The key of the client; None before it is known, and on public routes.
        self.identity: Identity | None = None
        self._client_is_silent = False
        self._callback: Callable[[], None] | None = None

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the client has disconnected, or once a disconnect would go unnoticed."""
        self._callback = callback
        if self._client_is_silent:
            callback()

    def client_fell_silent(self) -> None:
        """Record that nothing more is read from the client, so that a disconnect would go unnoticed."""
        self._client_is_silent = True
        if self._callback is not None:
            self._callback()

    def client_disconnected(self) -> None:
        """Record that the client has disconnected: neither its body nor its answer can be transferred."""
        self.body.cut_off()
        self.client_fell_silent()


async def read_body(request: IncomingRequest, limit: int, reservation: Reservation) -> bytes:
    """Return the whole body of a request.

    Args:
        request: The request whose body is read.
        limit: The largest body that is accepted.
        reservation: Grows with the body, so that all bodies together stay within the body budget.

    Raises:
        ApiError: 413, 408 or 503: the body is too large, too slow, or larger than the free memory.
        ConnectionResetError: The client has disconnected.
    """
    body = request.body
    if body.is_complete and body.size <= min(limit, UNREAD_BODY_BYTES):
        return body.take()  # the common case: a small body that arrived together with its head
    announced = int(request.head.headers.get(b"content-length", 0))
    if announced > limit:
        raise _too_large(limit)
    await reservation.grow(announced)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                if body.size > limit:
                    raise _too_large(limit)
                await reservation.grow(body.size)
                if body.is_complete:
                    return body.take()
                await body.wait_for_more()
    except TimeoutError:
        message = f"the request body did not arrive within {BODY_TIMEOUT_S:.0f} s"
        raise ApiError(408, message, closes=True) from None


def _too_large(limit: int) -> ApiError:
    """Return a 413 that keeps the connection open, because most clients send the whole body before they read."""
    return ApiError(413, f"the request body is larger than {limit} bytes")
