"""HTTP/1.1 connections: parse bytes into requests, write answers, and limit the time and memory that a client takes.

The requests of a connection are answered one at a time, in their order. A request that arrives while another one is
being answered waits, and the connection reads nothing more until its turn comes.

Phases and their deadlines:

- idle, between two requests: `KEEP_ALIVE_S`;
- head, from its first byte: `HEAD_TIMEOUT_S`;
- body, while the application reads it: `body.BODY_TIMEOUT_S`;
- answer, while the client reads it: `ANSWER_TIMEOUT_S` and `MIN_ANSWER_BYTES_PER_S`;
- rest of a rejected body, which is read and discarded so that the client finishes sending and reads its answer:
  `REST_TIMEOUT_S`.

If there are too many connections, a new one displaces the oldest one that waits for its client. Otherwise a client
without a key could open connections, send nothing, and so keep all others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import cast

import httptools

from conductor.common.machine import read_file_limit
from conductor.coordinator.http.answer import Answer, error_answer
from conductor.coordinator.http.app import MAX_HEADER_BYTES, App
from conductor.coordinator.http.body import IncomingRequest
from conductor.coordinator.http.request import RequestHead, split_url
from conductor.coordinator.keys.roles import Identity
from conductor.coordinator.request_errors import ApiError, bad_request

logger = logging.getLogger(__name__)

#: The maximum number of connections. A further one displaces an idle one. If none is idle, its requests get a 503.
MAX_CONNECTIONS = 4096
#: Files that the coordinator itself opens: the database, script processes and calls of HTTP tasks. If the limit of open
#: files of the process is low, fewer connections than `MAX_CONNECTIONS` are open at the same time.
RESERVED_FILES = 128
#: This many connections are always allowed, even if the limit of open files is low.
MIN_CONNECTIONS = 64
#: The maximum number of requests that a client sends on a connection without waiting for their answers. Otherwise the
#: bytes of one read could become ten thousand requests, and take ten times their size.
MAX_PIPELINED = 100
KEEP_ALIVE_S = 75.0
#: The path of the routes that manage keys.
KEYS_PATH = b"/api/keys"
HEAD_TIMEOUT_S = 15.0
REST_TIMEOUT_S = 30.0
#: The connection is closed after this many bytes of a rejected body have been discarded.
MAX_REST_BYTES = 100 * 1024 * 1024
#: A client that reads nothing of its answer for this long is disconnected.
ANSWER_TIMEOUT_S = 30.0
#: A client that reads a large answer more slowly than this, after `ANSWER_TIMEOUT_S`, is disconnected.
MIN_ANSWER_BYTES_PER_S = 64 * 1024
#: Answers up to this size fit into the socket's buffers and are written in one piece.
SMALL_ANSWER_BYTES = 64 * 1024

_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in http.HTTPStatus}
_STATUSES_WITHOUT_BODY = (204, 304)
_TOO_MANY_REQUESTS = bad_request(f"more than {MAX_PIPELINED} requests of this connection wait for their answers")
_TOO_MANY_CONNECTIONS = ApiError(503, "the coordinator has too many connections", retryable=True, closes=True)


class Connections:
    """The open connections of a server."""

    def __init__(self, app: App) -> None:
        self.app = app
        #: The open connections, the oldest first.
        self.open: dict[Connection, None] = {}
        self._limit = max(MIN_CONNECTIONS, read_file_limit() - RESERVED_FILES)
        self._all_closed = asyncio.Event()
        #: True during a shutdown: each connection is then closed after its next answer.
        self.is_draining = False

    def accept(self) -> Connection:
        """Return the protocol for a new connection."""
        return Connection(self)

    @property
    def are_too_many(self) -> bool:
        """Whether more connections are open than allowed."""
        return len(self.open) > min(MAX_CONNECTIONS, self._limit)

    def add(self, connection: Connection) -> None:
        """Record a new connection. If there are too many, abort the oldest one that waits for its client."""
        self.open[connection] = None
        if self.are_too_many:
            idle = (other for other in self.open if other is not connection and other.waits_for_client)
            if (oldest := next(idle, None)) is not None:
                oldest.abort()

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self.open.pop(connection, None)
        if not self.open:
            self._all_closed.set()

    def disconnect_revoked(self, is_current: Callable[[Identity], bool]) -> None:
        """Disconnect the clients whose key was revoked while they wait for an answer, such as parked polls."""
        for connection in list(self.open):
            connection.disconnect_revoked(is_current)

    async def drain(self, abort: asyncio.Event, timeout_s: float) -> None:
        """Close each connection after its pending answer; abort the rest after `timeout_s`, or when `abort` is set."""
        self.is_draining = True
        for connection in list(self.open):
            connection.close_if_idle()
        if self.open:
            self._all_closed.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._all_closed, abort)]
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        for connection in list(self.open):
            connection.abort()


class PhaseDeadline:
    """The deadline of a connection's current phase.

    Most deadlines move before they pass. Moving a deadline to a later time therefore keeps the event loop's timer,
    which checks the current deadline when it fires.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expiry: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expiry = on_expiry
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, timeout_s: float) -> None:
        """Set the deadline of the phase to `timeout_s` from now."""
        self._deadline = self._loop.time() + timeout_s
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check)

    def shorten(self, timeout_s: float) -> None:
        """Set the deadline of the phase to `timeout_s` from now, unless the current deadline is earlier."""
        if self._deadline is None or self._deadline >= self._loop.time() + timeout_s:
            self.set(timeout_s)

    def clear(self) -> None:
        """Remove the deadline: the phase may last any time."""
        self._deadline = None

    def cancel(self) -> None:
        """Stop the timer, because the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check)
        else:
            self._on_expiry()


class Connection(asyncio.Protocol):
    """The protocol of one socket, called by asyncio (socket events) and by httptools (`on_…`)."""

    _transport: asyncio.Transport
    _peer: str

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._app = connections.app
        self._loop = asyncio.get_running_loop()
        self._parser = _new_parser(self)
        self._deadline = PhaseDeadline(self._loop, self._end_phase)
        # The head that is being parsed.
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._host_count = 0
        #: Bytes of an incomplete head that have arrived so far. Reset by the end of a head and by each part of a body.
        self._head_bytes = 0
        #: The request whose body is arriving.
        self._reading: IncomingRequest | None = None
        #: The request that is being answered. `_is_answer_written` is true from the end of its answer until the next
        #: request begins; the rest of its body may still be arriving.
        self._answering: IncomingRequest | None = None
        self._is_answer_written = False
        #: Requests that wait until earlier requests are answered.
        self._pipelined: deque[IncomingRequest] = deque()
        #: True if no more requests come: the client has closed its side, or sent bytes that are not HTTP.
        self._has_input_ended = False
        #: The answer to bytes that are not HTTP. It is sent after the answers to all earlier requests.
        self._parse_error: ApiError | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_reading_paused = False
        #: True if the coordinator has closed its side of the connection, and discards the rest of the request.
        self._is_discarding = False
        self._discarded_bytes = 0
        #: Set while the socket's write buffer is full.
        self._write_resumed: asyncio.Event | None = None

    # -- events of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, and wait for the head of the first request."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._connections.add(self)
        self._deadline.set(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Tell the requests of this connection that their client is gone."""
        self._connections.remove(self)
        self._deadline.cancel()
        if self._write_resumed is not None:
            self._write_resumed.set()
        for request in (self._reading, self._answering, *self._pipelined):
            if request is not None:
                request.client_disconnected()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes that have arrived."""
        is_new_head = self._reading is None
        self._head_bytes += len(data)  # reset by `on_body`
        try:
            self._feed_parser(data)
        except httptools.HttpParserError:
            is_full = len(self._pipelined) >= MAX_PIPELINED
            self._reject_input(_TOO_MANY_REQUESTS if is_full else bad_request("this is not an HTTP request"))
            return
        if self._transport.is_closing():
            return
        if self._head_bytes > MAX_HEADER_BYTES:
            self._reject_input(ApiError(431, "the request's headers are too large"))
        elif is_new_head and self._answering is None and self._head_bytes:
            self._deadline.shorten(HEAD_TIMEOUT_S)  # further bytes of this head do not extend the deadline

    def eof_received(self) -> bool:
        """Return whether the connection stays open for pending answers: a client that sends no more may still read."""
        self._drop_incomplete_request()
        request = self._answering
        if request is None or not request.body.is_complete or (self._is_answer_written and not self._pipelined):
            return False
        if not self._transport.can_write_eof():
            return False  # TLS has no half-closed connections
        self._has_input_ended = True
        # The client has probably disconnected, so a parked poll is answered at once instead of being granted a task.
        request.client_fell_silent()
        return True

    def pause_writing(self) -> None:
        """Record that the write buffer is full, because the client reads slowly."""
        self._write_resumed = asyncio.Event()

    def resume_writing(self) -> None:
        """Record that the client has read most of the write buffer."""
        if self._write_resumed is not None:
            self._write_resumed.set()
            self._write_resumed = None

    # -- events of the parser

    def _feed_parser(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # Java's HTTP client offers HTTP/2 with the first request of a connection. The parser then stops and
                # never sees the body. The offer may be ignored (RFC 9110, 7.8): the request is parsed again without it.
                if self._parser.get_method() == b"CONNECT" or self._host_count > 1:
                    raise httptools.HttpParserError("CONNECT or a second Host header is not supported") from offer
                data = self._head_without_upgrade() + data[offer.args[0] :]
                self._parser = _new_parser(self)

    def _head_without_upgrade(self) -> bytes:
        line = b"%s %s HTTP/%s" % (self._parser.get_method(), self._url, self._parser.get_http_version().encode())
        lines = [b"%s: %s" % header for header in self._headers.items() if header[0] != b"upgrade"]
        return b"\r\n".join([line, *lines]) + b"\r\n\r\n"

    def on_message_begin(self) -> None:
        """Start a new head."""
        self._url = b""
        self._headers = {}
        self._host_count = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers after a body are ignored: they could carry headers past a proxy."""
        if self._reading is not None:
            return
        name = name.lower()
        self._host_count += name == b"host"
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Answer the request now, or queue it if an earlier request is being answered."""
        parser = self._parser
        if parser.should_upgrade() or self._transport.is_closing() or self._is_discarding:
            return  # `_feed_parser` parses this head again, or the connection answers no more requests
        head = RequestHead(
            parser.get_method().decode("ascii"),
            *split_url(self._url),
            self._headers,
            parser.get_http_version(),
            self._host_count,
            parser.should_keep_alive(),
            self._peer,
        )
        if len(self._pipelined) >= MAX_PIPELINED:
            raise httptools.HttpParserError("too many pipelined requests")
        request = self._reading = IncomingRequest(head, self)
        self._head_bytes = self._discarded_bytes = 0
        if self._answering is None:
            self._start_answer(request)
        else:
            self._pipelined.append(request)
            self.pause_reading()
            # While reading is paused, a disconnect goes unnoticed. If the current request is a parked poll, it is
            # answered at once, because a task granted to it could be lost.
            self._answering.client_fell_silent()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to its request, or discard it if the request has been answered."""
        self._head_bytes = 0
        if self._is_answer_written or self._reading is None:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > MAX_REST_BYTES:
                self._close()
        else:
            self._reading.body.feed(body)

    def on_message_complete(self) -> None:
        """Continue with the next request if this one has been answered."""
        request, self._reading = self._reading, None
        self._head_bytes = 0
        if request is not None:
            request.body.finish()
        if self._is_discarding:
            self._close()
        elif self._is_answer_written and request is self._answering and request is not None:
            self._continue_with_next()

    # -- flow control, used by the body of the current request (`body.BodySource`)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading from the socket."""
        if self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    def send_continue(self) -> None:
        """Tell the client to send its body."""
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # -- answering

    def _start_answer(self, request: IncomingRequest) -> None:
        self._answering = request
        self._deadline.clear()
        if self._pipelined or self._has_input_ended:
            request.client_fell_silent()  # nothing is read now, so a disconnect would go unnoticed
        self._task = self._loop.create_task(self._answer(request))

    async def _answer(self, request: IncomingRequest) -> None:
        try:
            is_full = self._connections.are_too_many
            answer = error_answer(_TOO_MANY_CONNECTIONS) if is_full else await self._app.answer(request)
            try:
                if answer is None or self._transport.is_closing():
                    self._close_after_input()
                else:
                    await self._send(request, answer)
            finally:
                if answer is not None and answer.reservation is not None:
                    answer.reservation.end()
        # An internal error: the client must not wait for an answer that cannot be written.
        except Exception:
            logger.exception(
                "Internal error while answering, connection closed: method=%s path=%s",
                request.head.method,
                request.head.path[:200],
            )
            self._transport.abort()

    async def _send(self, request: IncomingRequest, answer: Answer) -> None:
        """Write an answer, wait until the client has read most of it, then continue with the next request."""
        keeps_alive = self._keeps_alive(request, answer) and answer.stream is None
        connection = b"close" if not keeps_alive else b"keep-alive" if request.head.http_version == "1.0" else None
        head = _format_head(answer, connection)
        has_body = request.head.method != "HEAD" and answer.status not in _STATUSES_WITHOUT_BODY
        if answer.stream is not None:
            self._transport.write(head)
            if has_body:
                await self._write_stream(answer.stream)
        elif has_body and len(answer.body) <= SMALL_ANSWER_BYTES:
            self._transport.write(head + answer.body)
        else:
            self._transport.write(head)
            if has_body:
                await self._write_in_pieces(answer.body)
        self._is_answer_written = True
        await self._wait_until_read(ANSWER_TIMEOUT_S)
        if self._transport.is_closing():
            return
        if not keeps_alive or (self._has_input_ended and not request.body.is_complete):
            self._close_after(request)
        elif request.body.is_complete:
            self._continue_with_next()
        else:
            self.resume_reading()
            self._deadline.set(REST_TIMEOUT_S)

    def _keeps_alive(self, request: IncomingRequest, answer: Answer) -> bool:
        """Return whether the connection stays open after an answer."""
        body = request.body
        # A client that did not get `100 Continue` does not send its body. Its next request would be parsed as the
        # missing body, so the connection is closed.
        lacks_body = body.awaits_continue and not body.is_complete
        has_parse_error = self._parse_error is not None and body.is_complete
        is_last = self._has_input_ended and not self._pipelined and not has_parse_error
        return request.head.keep_alive and not (answer.closes or lacks_body or is_last or self._connections.is_draining)

    async def _write_in_pieces(self, body: bytes) -> None:
        deadline = self._loop.time() + ANSWER_TIMEOUT_S + len(body) / MIN_ANSWER_BYTES_PER_S
        for start in range(0, len(body), SMALL_ANSWER_BYTES):
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                self._transport.abort()
            if not await self._wait_until_read(min(ANSWER_TIMEOUT_S, left_s)):
                return
            self._transport.write(body[start : start + SMALL_ANSWER_BYTES])

    async def _write_stream(self, stream: AsyncGenerator[bytes]) -> None:
        """Write the parts of a stream until it ends or the client disconnects."""
        async with contextlib.aclosing(stream):
            async for part in stream:
                if not await self._wait_until_read(ANSWER_TIMEOUT_S):
                    return
                self._transport.write(part)

    async def _wait_until_read(self, timeout_s: float) -> bool:
        """Wait until the write buffer has room; disconnect a slow client. Return whether the connection is open."""
        if self._write_resumed is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._write_resumed.wait()
            except TimeoutError:
                self._transport.abort()
        return not self._transport.is_closing()

    def _continue_with_next(self) -> None:
        """Answer the next request. If there is none, wait for one, or close if no more may come."""
        self._is_answer_written, self._answering = False, None
        if self._pipelined:
            self._start_answer(self._pipelined.popleft())
        elif self._has_input_ended or self._connections.is_draining:
            self._close_after_input()
        else:
            self.resume_reading()
            self._deadline.set(KEEP_ALIVE_S)

    def _reject_input(self, error: ApiError) -> None:
        """Answer bytes that are not an HTTP request with an error, after the answers to all earlier requests."""
        self._has_input_ended, self._parse_error = True, error
        if self._is_discarding or (self._is_answer_written and self._reading is self._answering):
            self._close()  # these bytes belong to a body whose request is already answered
            return
        self.pause_reading()
        self._drop_incomplete_request()
        if self._answering is None:
            self._close_after_input()
        elif not self._answering.body.is_complete:
            # The body of the request stays incomplete, so the parse error is the answer to this request.
            self._answering.client_disconnected()
        else:
            self._answering.client_fell_silent()

    def _drop_incomplete_request(self) -> None:
        """Remove the last waiting request if its body is incomplete, because the rest will never arrive."""
        if self._pipelined and not self._pipelined[-1].body.is_complete:
            self._pipelined.pop()
            self._reading = None

    # -- closing

    @property
    def waits_for_client(self) -> bool:
        """Whether the connection waits for bytes of its client, so that a new connection may displace it.

        That is the case between requests, after an answer was written, and while the body of a request arrives whose
        client is not identified.
        """
        if self._transport.is_closing():
            return False
        request = self._answering
        if request is None or self._is_answer_written:
            return True
        return request.identity is None and not request.body.is_complete

    def close_if_idle(self) -> None:
        """Close the connection if no answer is pending. Otherwise `_send` closes it after that answer."""
        if self._answering is None or self._is_answer_written:
            self._close()

    def disconnect_revoked(self, is_current: Callable[[Identity], bool]) -> None:
        """Disconnect the client if its pending request has a revoked key.

        The request is not cancelled, because a poll must undo its grants. A request about keys gets its answer, because
        it may have revoked its own key.
        """
        request = self._answering
        if request is None or request.identity is None or is_current(request.identity):
            return
        if not request.head.path.startswith(KEYS_PATH):
            self._transport.abort()

    def abort(self) -> None:
        """Close the connection at once, and cancel the pending answer."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _close(self) -> None:
        """Close after the write buffer drains; abort if the client stops reading."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._deadline.set(ANSWER_TIMEOUT_S)

    def _close_after_input(self) -> None:
        """Send the parse error, if there is one, and close the connection."""
        if self._parse_error is not None and not self._transport.is_closing():
            answer = error_answer(self._parse_error)
            self._transport.write(_format_head(answer, b"close") + answer.body)
        self._close()

    def _close_after(self, request: IncomingRequest) -> None:
        """Close the connection after an answer.

        If the client is still sending, close only the coordinator's side: a full close could discard the answer before
        the client has read it.
        """
        if request.body.is_complete or not self._transport.can_write_eof():
            self._close()
            return
        self._is_discarding = True
        self._transport.write_eof()
        self.resume_reading()
        self._deadline.set(REST_TIMEOUT_S)

    def _end_phase(self) -> None:
        """Close the connection, because the deadline of its phase has passed."""
        if self._transport.is_closing():
            self._transport.abort()
        else:
            self._close()


def _new_parser(connection: Connection) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(connection)
    # Some clients send an empty line after their last request, which the parser rejects by default.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _format_head(answer: Answer, connection: bytes | None) -> bytes:
    """Return status line and headers. `connection` is the value of the Connection header, if one is needed."""
    lines = [_STATUS_LINES[answer.status]]
    if answer.status not in _STATUSES_WITHOUT_BODY and answer.stream is None:
        lines.append(b"content-length: %d\r\n" % len(answer.body))
    if answer.content_type is not None:
        # Without `nosniff` a browser may interpret stored text as a web page.
        lines.append(b"content-type: %s\r\nx-content-type-options: nosniff\r\n" % answer.content_type)
    lines += [f"{name}: {value}\r\n".encode() for name, value in answer.headers]
    if connection is not None:
        lines.append(b"connection: %s\r\n" % connection)
    lines.append(b"\r\n")
    return b"".join(lines)
