"""The ASGI application: a table of routes, one way in for bodies, one way out for answers and errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.errors import ApiError, bad_request
from conductor.coordinator.store import StoreClosed, StoreError
from conductor.wire import VERDICT_HEADER

logger = logging.getLogger(__name__)
T = TypeVar("T")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]

#: A larger body is refused with 413.
MAX_BODY_BYTES = 10 * 1024 * 1024
#: Request line and headers together.
MAX_HEADER_BYTES = 64 * 1024
#: A body that takes longer is cut.
BODY_TIMEOUT_S = 30.0
#: A client that does not read its answer is cut.
ANSWER_TIMEOUT_S = 30.0
#: Smaller answers fit into the socket's buffers: nobody has to wait for their reader.
SMALL_ANSWER_BYTES = 64 * 1024

_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")

JSON = b"application/json"
TEXT = b"text/plain;charset=UTF-8"


class Answer(NamedTuple):
    """What goes back."""

    status: int = 200
    body: bytes = b""
    content_type: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


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
    """One request, already routed."""

    __slots__ = ("_query", "_receive", "_state", "body", "core", "headers", "method", "params", "raw_query")

    def __init__(self, core: Core, scope: Scope, receive: Receive, params: dict[str, str], body: bytes) -> None:
        self.core = core
        self.method: str = scope["method"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.params = params
        self.body = body
        self.raw_query: bytes = scope["query_string"]
        self._receive = receive
        #: What the protocol has to say about the client beyond ASGI.
        self._state: dict[str, Any] = scope.get("state", {})
        self._query: list[tuple[str, str]] | None = None

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

    def json(self, wanted: type[T]) -> T:
        """The body as JSON of this shape; 400 says what is wrong and where."""
        if not self.body:
            raise bad_request("Required request body is missing")
        return read_json(self.body, wanted)

    async def watch(self, gone: Callable[[], None]) -> None:
        """Call `gone` when the client hangs up."""
        while (await self._receive())["type"] != "http.disconnect" and not self._state.get("said_all"):
            pass
        gone()


def read_json(body: bytes, wanted: type[T]) -> T:
    """Decode, leniently in scalars as Conductor is, strictly in everything else."""
    if body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    try:
        return msgspec.json.decode(body, type=wanted, strict=False)
    except RecursionError:
        raise bad_request("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"JSON parse error: {_why(body, error)}") from error


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
    #: query parameters and their JSON types, for the documentation
    query: dict[str, str] = {}  # noqa: RUF012 - never written to
    #: the type of the JSON body, for the documentation
    body: Any = None


class App:
    """Finds the route, reads the body, calls the handler, writes the answer."""

    def __init__(
        self, core: Core, routes: Iterable[Route], check_token: Callable[[Request], None] | None = None
    ) -> None:
        self._core = core
        self._check_token = check_token
        self._table: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in routes:
            self._add(route)
        for entries in self._table.values():
            # Literals before names, position by position: "poll" is tried before "{taskId}".
            entries.sort(key=lambda entry: [segment.startswith("{") for segment in entry[0]])

    def _add(self, route: Route) -> None:
        segments = tuple(route.path.strip("/").split("/"))
        entries = self._table.setdefault(len(segments), [])
        for known, methods in entries:
            if known == segments:
                methods[route.method] = route
                return
        entries.append((segments, {route.method: route}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except ApiError as error:
            answer = error_answer(error)
        except StoreClosed:
            answer = error_answer(ApiError(503, "the coordinator is shutting down", retryable=True))
        except StoreError as error:
            answer = error_answer(ApiError(500, str(error), retryable=True))
        except ConnectionResetError:
            return
        except RecursionError:
            answer = error_answer(bad_request("the request is nested too deeply"))
        # The last line of defence: a bug of ours must not show its stack to a client.
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            answer = error_answer(ApiError(500, "internal error; the server's log has the details"))
        await send_answer(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope["raw_path"]) > MAX_HEADER_BYTES:
            raise ApiError(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes", closes=True)
        route, params = self._find(scope["method"], scope["raw_path"])
        body = await _read_body(scope, receive)
        request = Request(self._core, scope, receive, params, body)
        if self._check_token is not None and not route.public:
            self._check_token(request)
        return await route.handler(request)

    def _find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        segments = _segments(raw_path)
        known = False
        for pattern, methods in self._table.get(len(segments), ()):
            params = _match(pattern, segments)
            if params is None:
                continue
            route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
            if route is not None:
                return route, params
            known = True
        if known:
            raise ApiError(405, f"Request method '{method}' is not supported")
        raise ApiError(404, f"No static resource {'/'.join(segments).rstrip('/')}.")


def _segments(raw_path: bytes) -> list[str]:
    try:
        return [unquote(part, errors="strict") for part in raw_path.decode("ascii").removeprefix("/").split("/")]
    except UnicodeDecodeError:
        raise bad_request("the path is not valid UTF-8") from None


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    params = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            params[expected[1:-1]] = given
        elif expected != given:
            return None
    return params


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    if scope["method"] in ("GET", "HEAD"):
        return b""
    _check_announced(dict(scope["headers"]))
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _collect(receive)
    except TimeoutError:
        raise ApiError(408, f"the request body did not arrive within {BODY_TIMEOUT_S:.0f} s", closes=True) from None


def _check_announced(headers: dict[bytes, bytes]) -> None:
    """Refuse a body by its announced length, before it is sent or while it is."""
    if int(headers.get(b"content-length", 0)) > MAX_BODY_BYTES:
        # A client that asks first does not send it. One that does not ask reads no answer before it has sent all:
        # its connection stays open for that, and the protocol throws away what comes.
        raise _too_large(closes=b"expect" in headers)


def _too_large(*, closes: bool) -> ApiError:
    return ApiError(413, f"the request body is larger than {MAX_BODY_BYTES} bytes", closes=closes)


async def _collect(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body") and len(body) <= MAX_BODY_BYTES:
        return body
    chunks = bytearray(body)
    while True:
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client hung up in the middle of its request")
        if len(chunks) > MAX_BODY_BYTES:
            raise _too_large(closes=True)
        if not message.get("more_body"):
            return bytes(chunks)
        message = await receive()
        chunks += message.get("body", b"")


def error_answer(error: ApiError) -> Answer:
    """Conductor's error body, and the verdict where there is one."""
    headers = ((VERDICT_HEADER, str(error.verdict)),) if error.verdict is not None else ()
    if error.closes:
        headers = (*headers, ("Connection", "close"))
    return Answer(error.status, msgspec.json.encode(error.body()), JSON, headers)


async def send_answer(send: Send, answer: Answer) -> None:
    """Write an answer, in pieces if it is large."""
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    if answer.status != 204:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if answer.content_type is not None:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if len(answer.body) <= SMALL_ANSWER_BYTES:
        await send({"type": "http.response.body", "body": answer.body})
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            for start in range(0, len(answer.body), SMALL_ANSWER_BYTES):
                chunk = answer.body[start : start + SMALL_ANSWER_BYTES]
                more = start + len(chunk) < len(answer.body)
                await send({"type": "http.response.body", "body": chunk, "more_body": more})
