"""One connection: bytes become requests, answers become bytes; with limits on what a client may do to it.

Requests of a connection are answered in their order, one at a time. What comes meanwhile waits, and is not read on.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections import deque
from collections.abc import Iterable
from typing import cast

import httptools

from conductor.coordinator.http.app import MAX_HEADER_BYTES, Answer, App, Request, error_answer
from conductor.coordinator.request_errors import ApiError, bad_request

logger = logging.getLogger(__name__)

#: More connections are answered with 503.
MAX_CONNECTIONS = 4096
#: An idle connection is closed after this.
KEEP_ALIVE_S = 75.0
#: A request's head must be complete within this time.
HEAD_TIMEOUT_S = 15.0
#: What is left of a body that was refused is read and thrown away, so that whoever sends it gets the answer: for this
#: long, and up to this many bytes.
REST_TIMEOUT_S = 30.0
MAX_REST_BYTES = 100 * 1024 * 1024
#: A client that reads nothing of its answer for this long is disconnected.
ANSWER_TIMEOUT_S = 30.0
#: A client that reads a large answer more slowly than this, after `ANSWER_TIMEOUT_S`, is disconnected.
MIN_ANSWER_BYTES_PER_S = 64 * 1024
#: Smaller answers fit into the socket's buffers and are written in one piece.
SMALL_ANSWER_BYTES = 64 * 1024

_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in http.HTTPStatus}
_NO_BODY = (204, 304)
_FULL = ApiError(503, "the coordinator has too many connections", retryable=True, closes=True)


class Connections:
    """All that are open, and their end."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.open: set[Connection] = set()
        self._empty = asyncio.Event()
        #: Whether each is closed with its next answer.
        self.ending = False

    def connect(self) -> Connection:
        """A new one: what the listening socket asks for."""
        return Connection(self)

    def closed(self, connection: Connection) -> None:
        """One is closed."""
        self.open.discard(connection)
        if not self.open:
            self._empty.set()

    async def end(self, now: asyncio.Event, timeout_s: float) -> None:
        """Close each after the answer it owes. When `now` is set, or the time is over, the rest is cut."""
        self.ending = True
        for connection in list(self.open):
            connection.end()
        if self.open:
            self._empty.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._empty, now)]
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        for connection in list(self.open):
            connection.cut()


class Connection(asyncio.Protocol):
    """What a client says on one socket, and what it is told."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._app = connections.app
        self._loop = asyncio.get_running_loop()
        self._parser = _parser(self)
        # The request whose head is being read.
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._hosts = 0
        self._head_bytes = 0
        #: The request that was read last; its body may still be coming in.
        self._reading: Request | None = None
        #: The request that is being answered, or was and is still being sent, and those that wait for their turn.
        self._current: Request | None = None
        self._answered = False
        self._waiting: deque[Request] = deque()
        #: Whether the client sends no more requests: it has closed its side, or sent bytes that are not HTTP.
        self._input_ended = False
        #: The error that is sent after the answers to the requests before it.
        self._refusal: ApiError | None = None
        self._task: asyncio.Task[None] | None = None
        self._paused = False
        #: Nothing more is written; the rest of the request is read and thrown away.
        self._only_reads = False
        self._thrown_away_bytes = 0
        #: When the client's patience with us, or ours with it, is over; one timer looks at it.
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._writable: asyncio.Event | None = None

    # -- what the socket does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.open.add(self)
        self._expect_within(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """It is closed."""
        self._connections.closed(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._writable is not None:
            self._writable.set()
        for request in (self._reading, self._current, *self._waiting):
            if request is not None:
                request.client_left()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes that have arrived."""
        between = self._reading is None
        self._head_bytes += len(data)  # what is no part of a body: see on_body
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(bad_request("this is not an HTTP request"))
            return
        if self._transport.is_closing():
            return
        if self._head_bytes > MAX_HEADER_BYTES:
            self._refuse(ApiError(431, "the request's headers are too large"))
        elif between and self._current is None:
            self._expect_head()

    def eof_received(self) -> bool:
        """Keep the connection open while complete requests wait for answers: the client may still be reading."""
        self._drop_incomplete()
        if self._current is None or not self._current.body_complete or (self._answered and not self._waiting):
            return False
        self._input_ended = True
        # Most often the client has left. A parked poll must not be granted a task: it is answered at once.
        self._current.client_said_all()
        return True

    def pause_writing(self) -> None:
        """The client does not read its answer as fast as it is written."""
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """It has read on."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    # -- what the parser finds

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # Java's HTTP client offers HTTP/2 with each first request. The parser then stops reading and never
                # sees the body. The offer may be ignored (RFC 9110, 7.8): the request is read again without it.
                if self._parser.get_method() == b"CONNECT" or self._hosts > 1:
                    raise httptools.HttpParserError("no tunnels, and one Host") from offer
                data = self._head_without_upgrade() + data[offer.args[0] :]
                self._parser = _parser(self)

    def _head_without_upgrade(self) -> bytes:
        line = b"%s %s HTTP/%s" % (self._parser.get_method(), self._url, self._parser.get_http_version().encode())
        lines = [b"%s: %s" % header for header in self._headers.items() if header[0] != b"upgrade"]
        return b"\r\n".join([line, *lines]) + b"\r\n\r\n"

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = {}
        self._hosts = 0

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. What comes behind the body says nothing: it could be something that a proxy would not let by."""
        if self._reading is not None:
            return
        name = name.lower()
        self._hosts += name == b"host"
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        if self._parser.should_upgrade() or self._transport.is_closing() or self._only_reads:
            return  # it is read again, or nothing more is answered here
        request = self._reading = Request(
            self._parser.get_method().decode("ascii"), self._url, self._headers, self._parser.get_http_version()
        )
        request.hosts = self._hosts
        request.keep_alive = self._parser.should_keep_alive()
        request.read_on, request.hold = self._read_on, self._pause
        self._head_bytes = self._thrown_away_bytes = 0
        if self._current is None:
            self._begin(request)
        else:
            self._waiting.append(request)
            self._pause()
            # While nothing is read, nobody would notice that the client has left: nothing may be granted to it.
            self._current.client_said_all()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._head_bytes = 0
        if self._answered or self._reading is None:
            self._thrown_away_bytes += len(body)
            if self._thrown_away_bytes > MAX_REST_BYTES:
                self._hang_up()
        else:
            self._reading.feed(body)

    def on_message_complete(self) -> None:
        """It is complete."""
        request, self._reading = self._reading, None
        self._head_bytes = 0
        if request is not None:
            request.complete_body()
        if self._only_reads:
            self._hang_up()
        elif self._answered and request is self._current and request is not None:
            self._next()

    # -- answering

    def _begin(self, request: Request) -> None:
        self._current = request
        self._deadline = None
        if self._waiting or self._input_ended:
            request.client_said_all()  # while nothing is read, nobody would notice that the client has left
        self._task = self._loop.create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            full = len(self._connections.open) > MAX_CONNECTIONS
            answer = error_answer(_FULL) if full else await self._app.answer(request)
            try:
                if answer is None or self._transport.is_closing():
                    self._end_input()
                else:
                    await self._send(request, answer)
            finally:
                if answer is not None and answer.reservation is not None:
                    answer.reservation.end()
        # An internal error: the client must not wait for an answer that cannot be written.
        except Exception:
            logger.exception("%s %s could not be answered", request.method, request.raw_path[:200])
            self._transport.abort()

    async def _send(self, request: Request, answer: Answer) -> None:
        """Write an answer, wait until the client has read most of it, then go on with the next request."""
        rest = self._write(request, answer)
        if rest:
            await self._write_in_pieces(rest)
        self._answered = True
        if self._writable is not None:
            await self._is_read(ANSWER_TIMEOUT_S)
        if self._transport.is_closing():
            return
        if not request.keep_alive or (self._input_ended and not request.body_complete):
            self._close(request)
        elif request.body_complete:
            self._next()
        else:
            self._resume()
            self._expect_within(REST_TIMEOUT_S)

    def _write(self, request: Request, answer: Answer) -> bytes:
        """Write an answer; return the part of it that is too large to be written at once."""
        # A client that asks before it sends a body does not send one that was refused.
        unsent = b"expect" in request.headers and not request.body_complete
        refused_next = self._refusal is not None and request.body_complete
        is_last = self._connections.ending or (self._input_ended and not self._waiting and not refused_next)
        request.keep_alive = not (answer.closes or unsent or is_last) and request.keep_alive
        body = b"" if request.method == "HEAD" or answer.status in _NO_BODY else answer.body
        fits = len(body) <= SMALL_ANSWER_BYTES
        self._transport.write(_head(answer, request) + body if fits else _head(answer, request))
        return b"" if fits else body

    async def _write_in_pieces(self, body: bytes) -> None:
        ends = self._loop.time() + ANSWER_TIMEOUT_S + len(body) / MIN_ANSWER_BYTES_PER_S
        for start in range(0, len(body), SMALL_ANSWER_BYTES):
            left_s = ends - self._loop.time()
            if left_s <= 0:
                self._transport.abort()
            if not await self._is_read(min(ANSWER_TIMEOUT_S, left_s)):
                return
            self._transport.write(body[start : start + SMALL_ANSWER_BYTES])

    async def _is_read(self, timeout_s: float) -> bool:
        """Wait until the client has read most of what was written; disconnect one that takes too long."""
        if self._writable is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._writable.wait()
            except TimeoutError:
                self._transport.abort()
        return not self._transport.is_closing()

    def _next(self) -> None:
        """Go on with the next request; without one, wait for it or close."""
        self._answered, self._current = False, None
        if self._waiting:
            self._begin(self._waiting.popleft())
        elif self._input_ended or self._connections.ending:
            self._end_input()
        else:
            self._resume()
            self._expect_within(KEEP_ALIVE_S)

    def _refuse(self, error: ApiError) -> None:
        """Answer bytes that are not a request, after the answers to the requests before them."""
        self._input_ended, self._refusal = True, error
        if self._only_reads or (self._answered and self._reading is self._current):
            self._hang_up()  # the request whose body is broken has had its answer
            return
        self._pause()
        self._drop_incomplete()
        if self._current is None:
            self._end_input()
        elif not self._current.body_complete:
            self._current.client_left()  # the rest of its body never comes; the refusal is its answer
        else:
            self._current.client_said_all()

    def _drop_incomplete(self) -> None:
        """Forget a waiting request whose body never becomes complete."""
        if self._waiting and not self._waiting[-1].body_complete:
            self._waiting.pop()
            self._reading = None

    def _end_input(self) -> None:
        """Close after the last answer; bytes that were not a request are refused first."""
        if self._refusal is not None and not self._transport.is_closing():
            answer = error_answer(self._refusal)
            self._transport.write(_head(answer, None) + answer.body)
        self._hang_up()

    def _close(self, request: Request) -> None:
        """Close, but not under a client that is still sending: it would not get to read its answer."""
        if request.body_complete or not self._transport.can_write_eof():
            self._hang_up()
            return
        self._only_reads = True
        self._transport.write_eof()
        self._resume()
        self._expect_within(REST_TIMEOUT_S)

    # -- ending

    def end(self) -> None:
        """Close it, after the answer that it owes."""
        if self._current is None or self._answered:
            self._hang_up()

    def _hang_up(self) -> None:
        """Close it once all is read that was written; who does not read is cut."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._expect_within(ANSWER_TIMEOUT_S)

    def cut(self) -> None:
        """Close it now."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    # -- reading the body as fast as it is used

    def _read_on(self, *, ask: bool) -> None:
        """Whoever answers wants more of the body. A client that waits to be asked for it is asked."""
        if ask:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._resume()

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    # -- time

    def _expect_head(self) -> None:
        """A part of a head has come. The rest must come in time, however slowly it trickles in."""
        if not self._head_bytes or (self._deadline is not None and self._deadline < self._loop.time() + HEAD_TIMEOUT_S):
            return
        self._expect_within(HEAD_TIMEOUT_S)

    def _expect_within(self, timeout_s: float) -> None:
        self._deadline = self._loop.time() + timeout_s
        if self._timer is not None and self._timer_at > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._set_timer(self._deadline)

    def _set_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer(self._deadline)
        elif self._transport.is_closing():
            self._transport.abort()
        else:
            self._hang_up()


def _parser(connection: Connection) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(connection)
    # Some clients send an empty line after their last request.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _head(answer: Answer, request: Request | None) -> bytes:
    lines = [_STATUS_LINES[answer.status]]
    if answer.status not in _NO_BODY:
        lines.append(b"content-length: %d\r\n" % len(answer.body))
    if answer.content_type is not None:
        # Without `nosniff` a browser may take text that somebody stored for a web page.
        lines.append(b"content-type: %s\r\nx-content-type-options: nosniff\r\n" % answer.content_type)
    lines += _lines(answer.headers)
    if request is None or not request.keep_alive:
        lines.append(b"connection: close\r\n")
    elif request.http_version == "1.0":
        lines.append(b"connection: keep-alive\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


def _lines(headers: Iterable[tuple[str, str]]) -> list[bytes]:
    return [f"{name}: {value}\r\n".encode() for name, value in headers]
