"""Differential fuzz test: the connection sees and answers random byte streams as plain httptools reads them.

A stream holds several requests, some of them broken. It arrives in random pieces, without waiting for answers. The
reference reads the whole stream at once and asks the application for one answer after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator
from typing import NamedTuple

import httptools
import pytest

from conductor.common.clock import SYSTEM_CLOCK
from conductor.coordinator.core import Core
from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.app import App
from conductor.coordinator.http.body import IncomingRequest
from conductor.coordinator.http.connection import Connections
from conductor.coordinator.http.origins import Origins
from conductor.coordinator.http.request import ApiRequest, RequestHead, split_url
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.store.database_file import MEMORY
from conductor.coordinator.store.writer import Store

UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
LINES = [
    b"GET /echo/a",
    b"GET /echo/b?c=%20d",
    b"POST /echo/a",
    b"POST /echo/b",
    b"HEAD /echo/a",
    b"PUT /echo/a",
    b"POST /no",
]
HOSTS = [b"Host: localhost\r\n"] * 20 + [b"", b"Host: elsewhere.example\r\n", b"Host: [::1]\r\nHost: localhost\r\n"]
MORE = [b""] * 20 + [b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n", UPGRADE]
LENGTHS = [
    b"Content-Length: %d\r\n",
    b"content-length:%d\r\n",
    b"Content-Length:  %d \r\n",
    b"Content-Length: 000%d\r\n",
]
GARBAGE = [
    b"\r\n\r\n",
    b"\0",
    b"GET",
    b"no HTTP at all\r\n\r\n",
    b"GET /echo/a HTTP/9.9\r\n\r\n",
    b"\xff" * 9,
    b"0\r\n\r\n",
]


class Seen(NamedTuple):
    """A request as the application sees it."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Echo:
    """An application whose answers repeat the request, and which remembers the requests that it saw."""

    def __init__(self, core: Core) -> None:
        self.seen: list[Seen] = []
        routes = [
            Route(method, "/echo/{name}", self._answer, Access.READ, text_body=True) for method in ("GET", "POST")
        ]
        self.app = App(core, routes, Origins("127.0.0.1"))

    async def _answer(self, request: ApiRequest) -> Answer:
        headers = tuple(sorted((name, value) for name, value in request.head.headers.items() if name != b"expect"))
        seen = Seen(request.head.method, request.head.path, request.head.query, headers, request.body)
        for _ in range(len(seen.body) % 7):
            await asyncio.sleep(0)
        self.seen.append(seen)
        return as_json(repr(seen))


# -- the streams


def chunked(rng: random.Random, body: bytes) -> bytes:
    """Return a body in chunks, some with extensions, some with trailers."""
    parts, at = [], 0
    while at < len(body):
        size = rng.randint(1, len(body) - at)
        parts.append(b"%x%s\r\n%s\r\n" % (size, rng.choice([b"", b";a=b"]), body[at : at + size]))
        at += size
    return b"".join([*parts, b"0\r\n", rng.choice([b"", b"", b"Host: trailer.example\r\n"]), b"\r\n"])


def one_request(rng: random.Random) -> bytes:
    """Return a request in one of many spellings."""
    line = rng.choice(LINES) + rng.choice([b" HTTP/1.1\r\n"] * 9 + [b" HTTP/1.0\r\n"])
    host, more = rng.choice(HOSTS), rng.choice(MORE)
    if more == UPGRADE and host.count(b"Host") > 1:
        more = b""  # refused without being read again, in other words
    head = line + host + more
    if rng.random() < 0.5:
        return head + b"\r\n"
    body = rng.randbytes(rng.choice([0, 1, 5, 5, 5, 40, 1000, 70_000 if rng.random() < 0.2 else 9]))
    if rng.random() < 0.3:
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(rng, body)
    return head + rng.choice(LENGTHS) % len(body) + b"\r\n" + body


def make_stream(rng: random.Random) -> bytes:
    """Return a few requests, most of them repeated; every third stream is damaged."""
    menu = [one_request(rng) for _ in range(rng.randint(1, 3))]
    stream = b"".join(rng.choice(menu) for _ in range(rng.randint(1, 9)))
    damage = rng.random()
    if damage < 0.1:
        stream += rng.choice(GARBAGE)
    elif damage < 0.2:
        stream = stream[: rng.randrange(len(stream))]
    elif damage < 0.3 and UPGRADE not in stream:
        at = rng.randrange(len(stream))
        stream = stream[:at] + rng.randbytes(1) + stream[at + 1 :]
    return stream


def cut(rng: random.Random, stream: bytes) -> list[bytes]:
    """Cut a stream into pieces, often between two requests."""
    ends = [at for at in range(len(stream)) if stream.startswith((b"GET ", b"POST ", b"HEAD ", b"PUT "), at)]
    places = rng.choice([ends, ends, [rng.randrange(len(stream) + 1) for _ in range(rng.randint(0, 9))]])
    cuts = sorted({0, *places, len(stream)})
    return [stream[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]


# -- the reference


class Parsed:
    """A request as httptools reads it."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.hosts = 0
        self.body = b""
        self.has_head = self.is_complete = False
        self.method, self.version, self.keep_alive = "", "", True

    def request(self) -> IncomingRequest:
        """Return it as the application wants it; the client of an incomplete one has disconnected."""
        head = RequestHead(self.method, *split_url(self.url), dict(self.headers), self.version, self.hosts)
        request = IncomingRequest(head, NoSocket())
        request.body.feed(self.body)
        if self.is_complete:
            request.body.finish()
        else:
            request.client_disconnected()
        return request


class NoSocket:
    """The source of a body that is there already."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def send_continue(self) -> None: ...


class Reference:
    """Plain httptools, fed with the whole stream."""

    def __init__(self, stream: bytes) -> None:
        self.requests: list[Parsed] = []
        self.is_broken = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            self._parser.feed_data(stream.replace(UPGRADE, b"Connection: Upgrade\r\n"))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.is_broken = True

    def on_message_begin(self) -> None:
        self.requests.append(Parsed())

    def on_url(self, url: bytes) -> None:
        self.requests[-1].url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        parsed = self.requests[-1]
        if not parsed.has_head:
            parsed.headers[name.lower()] = value
            parsed.hosts += name.lower() == b"host"

    def on_headers_complete(self) -> None:
        parsed = self.requests[-1]
        parsed.has_head = True
        parsed.method, parsed.version = self._parser.get_method().decode(), self._parser.get_http_version()
        parsed.keep_alive = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.requests[-1].body += body

    def on_message_complete(self) -> None:
        self.requests[-1].is_complete = True


# -- the answers


class Received(NamedTuple):
    """An answer as a client reads it."""

    status: int
    body: bytes
    closes: bool


def read_answers(raw: bytes, methods: Iterator[str]) -> list[Received]:
    """Split what the server has sent into answers. An answer to HEAD has no body, unless its own body is refused."""
    found = []
    while raw:
        head, end, raw = raw.partition(b"\r\n\r\n")
        assert end, "the last answer is cut"
        lines = head.lower().split(b"\r\n")
        status = int(lines[0].split()[1])
        if status == 100:
            continue
        lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
        size = 0 if next(methods, "") == "HEAD" and not raw.startswith(b"{") else sum(lengths)
        assert len(raw) >= size, "the last answer is cut"
        found.append(Received(status, raw[:size], b"connection: close" in lines))
        raw = raw[size:]
    return found


async def send(app: App, pieces: list[bytes], pauses: list[int]) -> bytes:
    """Send the pieces over a real socket, with turns of the event loop after each; return all that comes back."""
    loop = asyncio.get_running_loop()
    client, server = socket.socketpair()
    client.setblocking(False)
    await loop.connect_accepted_socket(Connections(app).accept, server)
    received = bytearray()

    async def read() -> None:
        with contextlib.suppress(ConnectionResetError):
            while part := await loop.sock_recv(client, 65536):
                received.extend(part)

    reader = asyncio.create_task(read())
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for piece, turns in zip(pieces, pauses, strict=True):
            await loop.sock_sendall(client, piece)
            for _ in range(turns):
                await asyncio.sleep(0)
        client.shutdown(socket.SHUT_WR)
    await reader
    client.close()
    return bytes(received)


async def compare(core: Core, pieces: list[bytes], pauses: list[int]) -> None:
    """Send a stream. Compare the requests of the application and the answers of the client with the reference."""
    reference = Reference(b"".join(pieces))
    plain, echo = Echo(core), Echo(core)
    raw = await send(echo.app, pieces, pauses)
    answers = read_answers(raw, iter([parsed.method for parsed in reference.requests]))
    shown = f"{pieces!r}\n{raw!r}"[:4000]
    for parsed in reference.requests:
        expected = await plain.app.answer(parsed.request()) if parsed.has_head else None
        if parsed.is_complete:
            assert expected is not None
            assert answers, f"a request is not answered; {shown}"
        elif not answers:
            assert not reference.is_broken, f"broken bytes are not refused; {shown}"
            break  # the client left in the middle of its request
        answer = answers.pop(0)
        if not parsed.is_complete and b"this is not an HTTP request" in answer.body:
            assert reference.is_broken, shown
            assert (answer.status, answer.closes) == (400, True), shown
            break
        assert expected is not None, shown
        body = b"" if parsed.method == "HEAD" else expected.body
        assert (answer.status, answer.body) == (expected.status, body), shown
        # The last one, or answered before its body, or from a client that may not send the body it asked about.
        if answer.closes or not parsed.is_complete:
            break
        assert parsed.keep_alive, f"the connection was to be closed; {shown}"
    else:
        if reference.is_broken:
            assert [(answer.status, answer.closes) for answer in answers] == [(400, True)], shown
            answers.clear()
    assert answers == [], f"an answer without a request; {shown}"
    assert echo.seen == plain.seen[: len(echo.seen)], shown


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    found = Store(MEMORY)
    yield found
    found.close()


async def compare_all(store: Store, seeds: range) -> None:
    core = Core(store, SYSTEM_CLOCK)
    for seed in seeds:
        rng = random.Random(seed)
        pieces = cut(rng, make_stream(rng))
        await compare(core, pieces, [rng.choice([0, 1, 2, 4, 30]) for _ in pieces])


async def test_random_streams_are_read_as_httptools_reads_them_a01(store: Store) -> None:
    await compare_all(store, range(400))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_many_random_streams_are_read_as_httptools_reads_them_a01(store: Store) -> None:
    await compare_all(store, range(1_000, 21_000))


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_repeated_request_is_not_confused_with_the_one_after_it_a01(store: Store, turns: int) -> None:
    """The last request of `one` was answered as `two`, which had arrived while `one` was being answered."""
    one, two = (
        b"POST /echo/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n[   ]" % name for name in (b"a", b"b")
    )
    await compare(Core(store, SYSTEM_CLOCK), [one, one, two, one], [50, turns, 50, 50])


@pytest.mark.parametrize("garbage", GARBAGE[1:], ids=repr)
async def test_garbage_is_refused_after_the_requests_before_it_a12(store: Store, garbage: bytes) -> None:
    ask = b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n[   ]"
    await compare(Core(store, SYSTEM_CLOCK), [ask * 3 + garbage], [0])
