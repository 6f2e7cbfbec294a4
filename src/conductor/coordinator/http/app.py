"""The application: a table of routes, one way in for bodies, one way out for answers and errors."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, unquote

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.http.memory_budget import (
    ANSWER_BUDGET_BYTES,
    BODY_BUDGET_BYTES,
    UNCOUNTED_BYTES,
    MemoryBudget,
    Reservation,
)
from conductor.coordinator.http.origins import Origins, check_content_type
from conductor.coordinator.http.unsupported_routes import ABSENT, no_such_family
from conductor.coordinator.limits import LARGE_BODY_BYTES, MAX_BODY_BYTES, MAX_JSON_VALUES
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.store.writer import StoreClosed, StoreError
from conductor.protocol.wire import VERDICT_HEADER
from conductor.telemetry import tracing

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: A larger body is refused with 413 where no token is asked for.
MAX_PUBLIC_BODY_BYTES = 64 * 1024
#: Request line and headers together.
MAX_HEADER_BYTES = 64 * 1024
#: A body that takes longer is cut.
BODY_TIMEOUT_S = 30.0
#: What a client whose request is refused for want of capacity is told to wait, in whole seconds.
RETRY_AFTER_S = 1
#: So much of a body is read before anybody has asked for it.
UNASKED_BODY_BYTES = 64 * 1024

_NO_MARKS = bytes(set(range(256)) - set(b',[{"'))
#: Paths whose route is remembered, and how long one may be.
KEPT_PATHS = 1024
KEPT_PATH_BYTES = 200

_JSON_TEXT = re.compile(rb'"[^"]*"?')
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")

JSON = b"application/json"
TEXT = b"text/plain;charset=UTF-8"


class Answer(NamedTuple):
    """Status, headers and body of an answer."""

    status: int = 200
    body: bytes = b""
    content_type: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: the connection ends with it
    closes: bool = False
    #: Undoes the request and returns a small answer (or raises); called if there is no memory for this one.
    fallback: Callable[[], Awaitable[Answer]] | None = None
    #: The bytes of the answer budget that a large body holds until it is sent.
    reservation: Reservation | None = None


#: 200 and nothing more: Conductor's answer of a method without a result.
DONE = Answer()
#: 204: there is nothing.
NOTHING = Answer(204)


def as_json(value: Any, *headers: tuple[str, str], status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status, msgspec.json.encode(value), JSON, headers)


def as_text(value: str, *headers: tuple[str, str]) -> Answer:
    """A plain text answer: ids travel like this."""
    return Answer(200, value.encode(), TEXT, headers)


class Request:
    """One request. Its body may still be coming in when it is looked at first."""

    __slots__ = (
        "_arrived", "_chunks", "_on_gone", "_query", "_said_all", "body", "body_bytes", "body_complete",
        "core", "headers", "hold", "hosts", "http_version", "keep_alive", "left", "method", "params",
        "raw_path", "raw_query", "read_on", "route",
    )  # fmt: skip

    def __init__(self, method: str, url: bytes, headers: dict[bytes, bytes], http_version: str = "1.1") -> None:
        self.method = method
        self.headers = headers
        self.http_version = http_version
        self.raw_path, _, self.raw_query = _origin_form(url).partition(b"?")
        #: How many Host headers it has.
        self.hosts = 1
        #: Whether the connection outlives it.
        self.keep_alive = True
        #: How its connection is told to read on or to stop for a while.
        self.read_on: Callable[..., None] = _nothing
        self.hold: Callable[[], None] = _nothing
        #: The values of the names in its route, and who answers it; from when it is admitted.
        self.params: dict[str, str] = {}
        self.core: Core
        self.route: Route | None = None
        self._query: list[tuple[str, str]] | None = None
        #: Empty until it is known that the request is to be answered.
        self.body = b""
        #: What has come of the body so far, and whether that is all.
        self.body_bytes = 0
        self.body_complete = False
        self._chunks: list[bytes] = []
        self._arrived: asyncio.Future[None] | None = None
        #: Whether the connection is gone.
        self.left = False
        self._said_all = False
        self._on_gone: Callable[[], None] | None = None

    # -- the body, as it comes in

    def feed(self, chunk: bytes) -> None:
        """A part of the body has come."""
        self._chunks.append(chunk)
        self.body_bytes += len(chunk)
        if self._arrived is not None:
            self._wake()
        elif self.body_bytes > UNASKED_BODY_BYTES:
            self.hold()

    def complete_body(self) -> None:
        """That was all."""
        self.body_complete = True
        if self._arrived is not None:
            self._wake()

    async def more_body(self) -> None:
        """Wait for more of the body. A client that waits to be asked for it is asked, once."""
        if self.left:
            raise ConnectionResetError("the client hung up in the middle of its request")
        self._arrived = asyncio.get_running_loop().create_future()
        asks = self.headers.pop(b"expect", b"").lower() == b"100-continue" and self.http_version != "1.0"
        self.read_on(ask=asks and not self.body_bytes)
        await self._arrived

    def whole_body(self) -> bytes:
        """All of it."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
        self._arrived = None

    # -- the client

    def when_gone(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when the client hangs up, or says that it has said all."""
        self._on_gone = tell
        if self._said_all:
            tell()

    def client_said_all(self) -> None:
        """It sends no more, and may be gone."""
        self._said_all = True
        if self._on_gone is not None:
            self._on_gone()

    def client_left(self) -> None:
        """It is gone."""
        self.left = True
        self._wake()
        self.client_said_all()

    # -- what it says

    def all(self, name: str) -> list[str]:
        """Every value of a query parameter."""
        if self._query is None:
            try:
                self._query = parse_qsl(self.raw_query.decode("utf-8"), keep_blank_values=True, max_num_fields=1000)
            except (UnicodeDecodeError, ValueError) as error:
                raise bad_request(f"the query string cannot be read: {error}") from error
        return [value for key, value in self._query if key == name]

    def query(self, name: str) -> str | None:
        """A query parameter; None when absent or empty."""
        values = self.all(name) if self.raw_query else []
        return (values[0] or None) if values else None

    def integer(self, name: str, default: int) -> int:
        """A whole number from the query."""
        text = self.query(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise bad_request(f"query parameter {name!r} must be a whole number, not {text[:100]!r}") from None
        if not -(2**53) < value < 2**53:
            raise bad_request(f"query parameter {name!r} is out of range")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false from the query."""
        text = self.query(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise bad_request(f"query parameter {name!r} must be true or false, not {text[:100]!r}")
        return text.lower() == "true"

    def required(self, name: str) -> str:
        """A query parameter that must be there."""
        value = self.query(name)
        if value is None:
            raise bad_request(f"query parameter {name!r} is required")
        return value

    def traceparent(self) -> str | None:
        """Return the traceparent of this request's span; without tracing, the one that the client sent."""
        given = self.headers.get(b"traceparent")
        span = None if tracing.tracer is None else tracing.current_traceparent()
        return span or (None if given is None else given.decode("latin-1"))

    def json(self, wanted: type[T]) -> T:
        """The body as JSON of this shape; 400 says what is wrong and where."""
        if not self.body:
            raise bad_request("Required request body is missing")
        return read_json(self.body, wanted)

    async def beside(self, work: Callable[[], T]) -> T:
        """Do what takes long when the body is large: beside the event loop then, so that others are served."""
        return await asyncio.to_thread(work) if len(self.body) > LARGE_BODY_BYTES else work()


def _nothing(**_: Any) -> None:
    """A request without a connection has nobody to tell."""


def _origin_form(url: bytes) -> bytes:
    """Path and query. A proxy's form, `http://host/path`, is one too; what is behind a `#` never counts."""
    if not url.startswith(b"/"):
        scheme, separator, rest = url.partition(b"://")
        url = b"/" + rest.partition(b"/")[2] if separator and scheme.isalpha() else url
    return url.partition(b"#")[0]


def read_json(body: bytes, wanted: type[T]) -> T:
    """Decode, leniently in scalars as Conductor is, strictly in everything else."""
    if body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    _check_values(body)
    try:
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Any", wanted))
        return decoder.decode(body)
    except RecursionError:
        raise bad_request("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"JSON parse error: {_why(body, error)}") from error


@functools.cache
def _decoder(wanted: Any) -> Any:
    """One for each shape that a route knows: to make it takes longer than to read a small body."""
    return msgspec.json.Decoder(wanted, strict=False)


def _check_values(body: bytes) -> None:
    """Refuse more values than fit into memory with ease, before they are made."""
    if len(body) <= MAX_JSON_VALUES or _marks(body) <= MAX_JSON_VALUES:
        return
    # Marks inside of texts do not count. Taking the texts out is slow, so it is done only now, and only to so many.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_MARKS)
    if plain.count(b'"') // 2 > MAX_JSON_VALUES or _marks(_JSON_TEXT.sub(b"", plain)) > MAX_JSON_VALUES:
        raise ApiError(413, f"the JSON has more than {MAX_JSON_VALUES} values")


def _marks(body: bytes) -> int:
    """What begins a value in JSON, except for the first: there are as many values, about."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _why(body: bytes, error: Exception) -> str:
    """What is wrong with this JSON. Of half a character the decoder only says that something is missing."""
    if "truncated" in str(error) and _HALF_CHARACTER.search(body):
        return "a string has one half of a surrogate pair (\\ud800 to \\udfff) without the other"
    return str(error)


def whole_number(what: str, text: str) -> int:
    """A number from a path."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f"{what} is a whole number, not {text[:100]!r}")
    return int(text)


Handler = Callable[[Request], Awaitable[Answer]]


class Route(NamedTuple):
    """`path` below /api; `{name}` stands for one segment. Literal segments win over names."""

    method: str
    path: str
    handler: Handler
    #: reachable without a token
    public: bool = False
    #: a GET that changes something, as a poll does: not for HEAD, nor for pages of other sites
    takes: bool = False
    #: the body is plain text
    text: bool = False
    #: query parameters and their JSON types, for the documentation
    query: dict[str, str] = {}  # noqa: RUF012 - never written to
    #: the type of the JSON body, for the documentation
    body: Any = None

    @property
    def names(self) -> list[tuple[int, str]]:
        """The segments that are names, and where they stand."""
        return _names_in(self.path)


@functools.cache
def _names_in(path: str) -> list[tuple[int, str]]:
    segments = enumerate(path.strip("/").split("/"))
    return [(at, segment[1:-1]) for at, segment in segments if segment.startswith("{")]


class App:
    """Finds the route, reads the body, calls the handler."""

    def __init__(
        self,
        core: Core,
        routes: Iterable[Route],
        origins: Origins,
        check_token: Callable[[Request], None] | None = None,
    ) -> None:
        self._core = core
        self._origins = origins
        self._check_token = check_token
        self.body_budget = MemoryBudget(BODY_BUDGET_BYTES, "large requests")
        self.answer_budget = MemoryBudget(ANSWER_BUDGET_BYTES, "large answers")
        self._paths: dict[tuple[str, bytes], tuple[Route, dict[str, str]]] = {}
        self._root = _Branch()
        for path, name in ABSENT.items():
            self._root.at(path).absent = name, path
        for route in routes:
            self._root.at(route.path).methods[route.method] = route

    async def answer(self, request: Request) -> Answer | None:
        """Answer a request. Return None if its client has hung up."""
        began, reservation = time.perf_counter(), None
        try:
            route = self._admit(request)
            if self._check_token is not None and not route.public:
                self._check_token(request)
            if request.method not in ("GET", "HEAD"):
                limit = MAX_PUBLIC_BODY_BYTES if route.public else MAX_BODY_BYTES
                if request.body_complete and request.body_bytes <= min(limit, UNASKED_BODY_BYTES):
                    request.body = request.whole_body()  # as most are: it is here, and takes nobody's room
                else:
                    reservation = Reservation(self.body_budget)
                    request.body = await _read_body(request, limit, reservation)
            answer = await self._handle(route, request)
        except ConnectionResetError:
            return None
        except Exception as error:
            answer = _refusal(request, error)
        finally:
            if reservation is not None:
                reservation.end()
        # What has no route is counted together: its method and its path may be anything.
        method, uri = (request.method, request.route.path) if request.route is not None else ("", "")
        took_s = time.perf_counter() - began
        self._core.request_times.observe(method, uri, answer.status, took_s)
        if logger.isEnabledFor(logging.DEBUG):
            shown = request.raw_path[:200].decode("latin-1")
            logger.debug("%s %s: %d in %.1f ms", request.method, shown, answer.status, took_s * 1000)
        return answer

    async def _handle(self, route: Route, request: Request) -> Answer:
        """Call the route's handler. Reserve memory for a large answer; the connection frees it when it is sent.

        Without free memory a read is discarded, and repeated as soon as its size is reserved. A request with a
        `fallback` is undone. Every other request has had its effect, so its answer exceeds the budget.
        """
        answer = await _call(route, request)
        size = len(answer.body)
        if size <= UNCOUNTED_BYTES:
            return answer
        reservation = Reservation(self.answer_budget)
        try:
            while not reservation.try_grow(size):
                if answer.fallback is not None:
                    return await answer.fallback()
                if route.takes or request.method not in ("GET", "HEAD"):
                    reservation.grow_anyway(size)
                    break
                answer = DONE  # the body must not stay in memory during the wait
                await reservation.grow(size)
                answer = await _call(route, request)
                size = len(answer.body)
        except BaseException:
            reservation.end()
            raise
        return answer._replace(reservation=reservation)

    def _admit(self, request: Request) -> Route:
        """Its route, if it is to be answered at all. Nothing of the body was looked at for this."""
        headers, method = request.headers, request.method
        head_bytes = sum(map(len, headers)) + sum(map(len, headers.values())) + len(request.raw_path)
        if head_bytes > MAX_HEADER_BYTES:
            raise ApiError(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes", closes=True)
        if request.hosts > 1:
            raise bad_request("a request has one Host header, not several")
        self._origins.check_host(request.http_version, headers)
        route, request.params = self._found(method, request.raw_path)
        request.route = route
        if route.takes or method not in ("GET", "HEAD"):
            if b"origin" in headers or b"sec-fetch-site" in headers:
                self._origins.check_page(headers)
            if not route.text and headers.get(b"content-type") != JSON:
                check_content_type(headers)
        request.core = self._core
        return route

    def _found(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route of a path, and the values of its names. Clients ask for the same few again and again."""
        known = self._paths.get((method, raw_path))
        if known is None:
            known = self._find(method, raw_path)
            if len(raw_path) <= KEPT_PATH_BYTES:
                if len(self._paths) >= KEPT_PATHS:
                    self._paths.clear()
                self._paths[method, raw_path] = known
        return known

    def _find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        segments = _segments(raw_path)
        found, known, absent = None, False, None
        # Literals before names, position by position: "poll" is tried before "{taskId}".
        left: list[tuple[_Branch, int]] = [(self._root, 0)]
        while left and found is None:
            branch, at = left.pop()
            if branch.absent is not None:
                absent = branch.absent
                if at == len(segments) or not left:
                    break
            if at < len(segments):
                if branch.named is not None and segments[at]:
                    left.append((branch.named, at + 1))
                if segments[at] in branch.literal:
                    left.append((branch.literal[segments[at]], at + 1))
            elif branch.methods:
                known = True
                found = branch.methods.get(method) or (branch.to_look_at() if method == "HEAD" else None)
        if found is not None:
            return found, {name: segments[at] for at, name in found.names}
        if absent is not None:
            raise no_such_family(*absent)
        if known:
            raise ApiError(405, f"Request method '{method}' is not supported")
        raise ApiError(404, f"No static resource {'/'.join(segments).rstrip('/')}.")


def _refusal(request: Request, error: Exception) -> Answer:
    """What goes back when a request could not be done."""
    if isinstance(error, ApiError):
        # A client that asks first does not send what was refused: what came next would be taken for it.
        error.closes = error.closes or (b"expect" in request.headers and not request.body_complete)
        return error_answer(error)
    if isinstance(error, StoreClosed):
        return error_answer(ApiError(503, "the coordinator is shutting down", retryable=True))
    if isinstance(error, StoreError):
        return error_answer(ApiError(500, str(error), retryable=True))
    if isinstance(error, RecursionError):
        return error_answer(bad_request("the request is nested too deeply"))
    # The last line of defence: a bug of ours must not show its stack to a client.
    logger.error("%s %s failed", request.method, request.raw_path[:200].decode("latin-1"), exc_info=error)
    return error_answer(ApiError(500, "internal error; the server's log has the details"))


async def _call(route: Route, request: Request) -> Answer:
    """Call the route's handler, inside a span if the request changes something."""
    tracer = tracing.tracer
    if tracer is None or request.method == "GET" or route.takes:
        return await route.handler(request)
    parent = tracer.read_parent(request.headers.get(b"traceparent", b"").decode("latin-1"))
    attributes = {"http.request.method": request.method, "http.route": route.path}
    attributes |= {f"conductor.{name}": value for name, value in request.params.items()}
    with tracer.start_current_span(f"{request.method} {route.path}", parent, attributes, kind="SERVER"):
        return await route.handler(request)


class _Branch:
    """The routes that go on from here: by a literal segment, by a name, or that end here."""

    __slots__ = ("absent", "literal", "methods", "named")

    def __init__(self) -> None:
        self.literal: dict[str, _Branch] = {}
        self.named: _Branch | None = None
        self.methods: dict[str, Route] = {}
        #: What Conductor has from here on and this coordinator has not, and its path.
        self.absent: tuple[str, str] | None = None

    def at(self, path: str) -> _Branch:
        """The branch of a path, made if it is not there."""
        at = self
        for segment in path.removeprefix("/").split("/"):
            if segment.startswith("{"):
                at.named = at.named or _Branch()
                at = at.named
            else:
                at = at.literal.setdefault(segment, _Branch())
        return at

    def to_look_at(self) -> Route | None:
        """The GET that a HEAD may use."""
        route = self.methods.get("GET")
        return None if route is None or route.takes else route


def _segments(raw_path: bytes) -> list[str]:
    try:
        path = raw_path.decode("ascii").removeprefix("/")
        return [unquote(part, errors="strict") for part in path.split("/")] if "%" in path else path.split("/")
    except UnicodeDecodeError:
        raise bad_request("the path is not valid UTF-8") from None


async def _read_body(request: Request, limit: int, reservation: Reservation) -> bytes:
    announced = int(request.headers.get(b"content-length", 0))
    if announced > limit:
        raise _too_large(limit)
    await reservation.grow(announced)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            await _whole_body(request, limit, reservation)
    except TimeoutError:
        late = f"the request body did not arrive within {BODY_TIMEOUT_S:.0f} s"
        raise ApiError(408, late, closes=True) from None
    return request.whole_body()


async def _whole_body(request: Request, limit: int, reservation: Reservation) -> None:
    while True:
        if request.body_bytes > limit:
            raise _too_large(limit)
        await reservation.grow(request.body_bytes)
        if request.body_complete:
            return
        await request.more_body()


def _too_large(limit: int) -> ApiError:
    """Whoever is still sending reads no answer before all is sent: the connection throws away what comes."""
    return ApiError(413, f"the request body is larger than {limit} bytes")


def error_answer(error: ApiError) -> Answer:
    """Return Conductor's error body with the headers that belong to it."""
    headers = ((VERDICT_HEADER, str(error.verdict)),) if error.verdict is not None else ()
    if error.status == 503 and error.retryable:
        headers = (*headers, ("Retry-After", str(RETRY_AFTER_S)))
    return Answer(error.status, msgspec.json.encode(error.body()), JSON, headers, error.closes)
