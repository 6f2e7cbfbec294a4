"""HTTP on a socket, with limits on what a client may do to it before a request exists."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from conductor.coordinator.app import MAX_HEADER_BYTES, Answer, Receive, Scope, Send, error_answer, send_answer
from conductor.coordinator.errors import ApiError, bad_request

#: More connections, or more requests at once, are answered with 503.
MAX_CONNECTIONS = 4096
#: A request's head must be complete within this time.
HEAD_TIMEOUT_S = 15.0
#: What is left of a body that was refused must have come within this time.
REST_TIMEOUT_S = 30.0


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol; a head that is too large or too slow ends the connection, and every answer is ours."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reader = _Parser(self)
        self.parser = self._reader  # type: ignore[assignment] # it has all that is called
        self._app = self.app
        self._head_bytes = 0
        #: Closes the connection unless a head comes in time.
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between_requests():
            self._head_bytes += len(data)
            self._expect_head(HEAD_TIMEOUT_S)
        super().data_received(data)
        if self._between_requests() and self._head_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refuse(ApiError(431, "the request's headers are too large"))

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that says no more may still listen: a request that is complete gets its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        # Most often it has left. Nothing may be granted to it: a parked poll is told and answers at once.
        cycle.scope["state"]["said_all"] = True
        cycle.message_event.set()
        return True

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the library's words
        self._refuse(bad_request("this is not an HTTP request"))

    def _refuse(self, error: ApiError) -> None:
        """Answer what never became a request."""
        answer = error_answer(error)
        head = f"HTTP/1.1 {error.status} \r\ncontent-length: {len(answer.body)}\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-type: application/json\r\n\r\n".encode() + answer.body)
        self.transport.close()

    # -- what the parser has found

    def on_headers_complete(self) -> None:
        if self._reader.ignores_upgrade():
            return
        self._head_done()
        full = len(self.connections) > MAX_CONNECTIONS or len(self.tasks) >= MAX_CONNECTIONS
        self.app = _answer_full if full else self._app
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._reader.ignores_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._head_bytes = 0
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._expect_head(REST_TIMEOUT_S)

    def _between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def _expect_head(self, timeout_s: float) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(timeout_s, self._head_overdue)

    def _head_done(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_overdue(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


class _Parser:
    """The parser of a connection, deaf to offers of another protocol.

    Java's HTTP client offers HTTP/2 with each first request. The library then stops reading and never sees the body;
    the offer may be ignored (RFC 9110, 7.8), so the request is read again without it.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._parser = self._new()

    def _new(self) -> Any:
        parser = httptools.HttpRequestParser(self._protocol)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        return parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def ignores_upgrade(self) -> bool:
        """Whether what is being read now is going to be read again."""
        return bool(self._parser.should_upgrade()) and self._parser.get_method() != b"CONNECT"

    def feed_data(self, data: bytes) -> None:
        """Read on."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if not self.ignores_upgrade():
                raise
            head = self._head_without_upgrade()
            self._parser = self._new()
            self.feed_data(head + data[offer.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        protocol = self._protocol
        lines = [b"%s %s HTTP/%s" % (self.get_method(), protocol.url, self.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in protocol.headers if header[0] != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"


async def _answer_full(_scope: Scope, _receive: Receive, send: Send) -> None:
    answer: Answer = error_answer(
        ApiError(503, "the coordinator has too many connections", retryable=True, closes=True)
    )
    await send_answer(send, answer)
