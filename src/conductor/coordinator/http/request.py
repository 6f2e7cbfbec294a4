"""A request as route handlers read it: typed access to path, query, headers and JSON body."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from conductor.common.machine import is_loopback
from conductor.coordinator import audit
from conductor.coordinator.core import Core
from conductor.coordinator.keys.roles import OPEN, Identity
from conductor.coordinator.limits import LARGE_BODY_BYTES, MAX_JSON_VALUES
from conductor.coordinator.reader import Reader
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import OnDisconnect, TaskAuthority
from conductor.coordinator.workflow_service import WorkflowService
from conductor.telemetry import tracing

T = TypeVar("T")

MAX_QUERY_PARAMETERS = 1000
MAX_ADDRESS_CHARS = 100
#: Bytes that do not affect the number of values in a JSON text.
_NOT_STRUCTURE = bytes(set(range(256)) - set(b',[{"'))
_JSON_STRING = re.compile(rb'"[^"]*"?')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class RequestHead(NamedTuple):
    """Request line and headers."""

    method: str
    path: bytes
    query: bytes
    #: Header names are lower case.
    headers: dict[bytes, bytes]
    http_version: str = "1.1"
    host_count: int = 1
    #: True if the client wants to use the connection again.
    keep_alive: bool = True
    #: The address of the client, or of the proxy that it uses.
    peer: str = ""


def split_url(url: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request target. Scheme and host, which proxies send, and a fragment are dropped."""
    if not url.startswith(b"/"):
        scheme, separator, rest = url.partition(b"://")
        url = b"/" + rest.partition(b"/")[2] if separator and scheme.isalpha() else url
    path, _, query = url.partition(b"#")[0].partition(b"?")
    return path, query


class ApiRequest:
    """A request that has a route, with its whole body."""

    __slots__ = ("_query", "body", "core", "head", "identity", "on_disconnect", "params")

    def __init__(
        self,
        head: RequestHead,
        params: dict[str, str],
        body: bytes,
        core: Core,
        on_disconnect: OnDisconnect,
        identity: Identity = OPEN,
    ) -> None:
        self.head = head
        #: Name in the route's path → value in the request's path.
        self.params = params
        self.body = body
        #: The coordinator. Handlers prefer `reader`, `tasks` and `workflows`, so that their code shows which
        #: part they use.
        self.core = core
        #: Registers a function that is called when the client disconnects.
        self.on_disconnect = on_disconnect
        #: The key of the client.
        self.identity = identity
        self._query: list[tuple[str, str]] | None = None

    @property
    def reader(self) -> Reader:
        """The part of the coordinator that reads from the store."""
        return self.core.reader

    @property
    def tasks(self) -> TaskAuthority:
        """The part of the coordinator for polls, reports and heartbeats."""
        return self.core.tasks

    @property
    def workflows(self) -> WorkflowService:
        """The part of the coordinator that starts workflows and acts on them."""
        return self.core.workflows

    def is_admitted(self) -> bool:
        """Return whether the key of the client is still valid. It can be revoked or expire during the request."""
        return self.core.keys.is_current(self.identity)

    def write(self, change: Callable[[Tx], T], *, work: int = 1) -> Awaitable[T]:
        """Run a change in a transaction. Return its result after the commit.

        Raises:
            ApiError: The key of the client was revoked after the request was admitted.
        """
        if not self.is_admitted():
            raise ApiError(401, "the key of this request was revoked", code="EXPIRED_TOKEN", closes=True)
        return self.core.write(change, work)

    @property
    def actor(self) -> str:
        """The client as the audit trail stores it: its key and its address."""
        return audit.encode_actor(self.identity.key, self.address)

    @property
    def address(self) -> str:
        """The address of the client, and of the proxy on this machine that it uses."""
        address = self.head.peer
        if is_loopback(address):
            # X-Forwarded-For is trusted only from a proxy on this machine, which appends the address of its client.
            forwarded = self.header(b"x-forwarded-for").rpartition(",")[2].strip()
            if forwarded:
                address = f"{forwarded[:MAX_ADDRESS_CHARS]} via {address}"
        return address

    def audit(
        self, tx: Tx, action: str, subject: str, *, workflow: int | None = None, reason: str | None = None
    ) -> None:
        """Record an action of this request, in the transaction of the action."""
        worker_id = self.query("workerid")
        audit.record(tx, self.actor, action, subject, workflow=workflow, reason=reason, worker_id=worker_id)

    def header(self, name: bytes) -> str:
        """Return a header, or an empty string."""
        return self.head.headers.get(name, b"").decode("latin-1")

    def query_list(self, name: str) -> list[str]:
        """Return every value of a query parameter."""
        if self._query is None:
            try:
                text = self.head.query.decode("utf-8")
                self._query = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_PARAMETERS)
            except (UnicodeDecodeError, ValueError) as error:
                raise bad_request(f"the query string cannot be read: {error}") from error
        return [value for key, value in self._query if key == name]

    def query(self, name: str) -> str | None:
        """Return a query parameter, or None if it is absent or empty."""
        values = self.query_list(name) if self.head.query else []
        return (values[0] or None) if values else None

    def required_query(self, name: str) -> str:
        """Return a query parameter, or raise a 400 if it is absent."""
        value = self.query(name)
        if value is None:
            raise bad_request(f"query parameter {name!r} is required")
        return value

    def query_int(self, name: str, default: int) -> int:
        """Return a query parameter as a whole number, or `default` if it is absent or empty."""
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

    def query_flag(self, name: str, *, default: bool) -> bool:
        """Return a query parameter as a boolean, or `default` if it is absent or empty."""
        text = self.query(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise bad_request(f"query parameter {name!r} must be true or false, not {text[:100]!r}")
        return text.lower() == "true"

    def json(self, wanted: type[T]) -> T:
        """Return the body as JSON of the type `wanted`, or raise a 400 that says where the body differs from it."""
        if not self.body:
            raise bad_request("Required request body is missing")
        return read_json(self.body, wanted)

    def traceparent(self) -> str | None:
        """Return the traceparent of this request's span; without tracing, the one that the client sent."""
        span = None if tracing.tracer is None else tracing.current_traceparent()
        return span or self.header(b"traceparent") or None

    async def offload_if_large(self, work: Callable[[], T]) -> T:
        """Run `work` and return its value. If the body is large, use a thread, so that the event loop stays free."""
        return await asyncio.to_thread(work) if len(self.body) > LARGE_BODY_BYTES else work()


def whole_number(what: str, text: str) -> int:
    """Return a segment of a path as a number, or raise a 400. `what` names the number in the error message."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f"{what} must be a whole number, not {text[:100]!r}")
    return int(text)


def read_json(body: bytes, wanted: type[T]) -> T:
    """Decode JSON into the type `wanted`. Numbers and booleans may be quoted, as in Conductor."""
    if body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    _check_value_count(body)
    try:
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Any", wanted))
        return decoder.decode(body)
    except RecursionError:
        raise bad_request("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = str(error)
        if "truncated" in message and _SURROGATE.search(body):  # the decoder reports half a pair as truncated data
            message = "a string has one half of a surrogate pair (\\ud800 to \\udfff) without the other"
        raise bad_request(f"JSON parse error: {message}") from error


@functools.cache
def _decoder(wanted: Any) -> Any:
    """Return the decoder of a type, cached, because creating a decoder takes longer than decoding a small body."""
    return msgspec.json.Decoder(wanted, strict=False)


def _check_value_count(body: bytes) -> None:
    """Reject JSON with more than `MAX_JSON_VALUES` values before they take memory as Python objects."""
    if len(body) <= MAX_JSON_VALUES or _count_values(body) <= MAX_JSON_VALUES:
        return
    # Ignore separators inside strings. Removing strings is slow, so it happens only if the quick count exceeds the
    # limit.
    structure = body.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NOT_STRUCTURE)
    strings = structure.count(b'"') // 2
    if strings > MAX_JSON_VALUES or _count_values(_JSON_STRING.sub(b"", structure)) > MAX_JSON_VALUES:
        raise ApiError(413, f"the JSON has more than {MAX_JSON_VALUES} values")


def _count_values(body: bytes) -> int:
    """Return about how many values a JSON text has: each except the first follows a comma or an opening bracket."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")
