"""HTTP requests over a pool of connections. Only this module uses the HTTP library, pyreqwest.

A request without an answer raises a `TransportError`. An error status does not raise; see `errors` for all errors.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import mask_password
from conductor.client.http.call import Call
from conductor.client.http.errors import (
    AnswerTooLarge,
    ApiException,
    AuthorizationException,
    ConductorError,
    ConnectError,
    ConnectionLost,
    MalformedAnswer,
    NotFoundException,
    RequestTimeout,
    TransportError,
)
from conductor.client.http.response import UNREADABLE_VALUE, Response
from conductor.common.machine import is_loopback
from conductor.version import __version__

if TYPE_CHECKING:
    from pyreqwest.client import Client, ClientBuilder
    from pyreqwest.http import HeaderMap
    from pyreqwest.proxy import ProxyBuilder
    from pyreqwest.response import Response as Answer

__all__ = [
    "AnswerTooLarge",
    "ApiException",
    "AsyncRESTClientObject",
    "AuthorizationException",
    "Call",
    "ConductorError",
    "ConnectError",
    "ConnectionLost",
    "MalformedAnswer",
    "NotFoundException",
    "RequestTimeout",
    "Response",
    "TransportError",
]

USER_AGENT = f"conductor-worker/{__version__}"
#: Tomcat closes idle connections after 60 s. The pool closes them earlier, so that no request uses a connection that
#: the server is closing.
POOL_IDLE_S = 50.0
#: Interval of HTTP/2 pings. Without them, a dead connection stays in use until the TCP timeout, about 15 minutes.
HTTP2_PING_S = 20.0
#: The body of an answer with an error status is truncated to this size.
MAX_ERROR_BYTES = 256 * 1024
_FIRST_ERROR = 400


class AsyncRESTClientObject:
    """A pool of connections to one server. Any event loop may use it, and a forked child gets a new pool.

    Args:
        configuration: TLS, proxy, timeouts and pool size.
        http_client: Your own `httpx.AsyncClient`, which is used in place of a pool and never closed.
        pool_size: The largest number of connections, in place of the Configuration's.
    """

    def __init__(
        self, configuration: Configuration, *, http_client: Any | None = None, pool_size: int | None = None
    ) -> None:
        self._timeout_s = configuration.timeout_s
        self._transport: _Transport = (
            _HttpxTransport(http_client, configuration.max_answer_bytes)
            if http_client is not None
            else _Pool(configuration, pool_size)
        )
        self._max_idle = configuration.keepalive_connections
        # An upper bound of the number of idle connections. If it is 0, a request gets a new connection. A request is
        # not sent again after the loss of a new connection.
        self._idle = 0
        self._answers = 0

    async def send(self, call: Call) -> Response:
        """Send one request and return the whole answer, whatever its status.

        A server may close an idle connection at the moment when it is used again. Then the request is sent a second
        time on a new connection, unless it has `resend=False` or its `wanted` returns False.

        Raises:
            TransportError: No answer came (`ConnectError`, `RequestTimeout`, `ConnectionLost`).
            AnswerTooLarge: The answer is larger than the Configuration allows.
        """
        if call.timeout_s is None:
            call = call._replace(timeout_s=self._timeout_s)
        answers = self._answers
        may_be_reused = self._idle > 0
        if may_be_reused:
            self._idle -= 1
        try:
            response = await self._transport.send(call, fresh=False)
        except ConnectionLost:
            # Send again only after the loss of a reused connection. If another request was answered during this one,
            # this request may have reused the connection of that other one.
            if not call.resend or not (may_be_reused or answers != self._answers) or not call.is_wanted():
                raise
            response = await self._transport.send(call, fresh=True)
        self._answers += 1
        if self._idle < self._max_idle and response.headers.get("connection") != "close":
            self._idle += 1
        return response

    async def close(self) -> None:
        """Close the pool. A request after this raises `TransportError`."""
        await self._transport.close()


class _Transport(Protocol):
    async def send(self, call: Call, *, fresh: bool) -> Response: ...

    async def close(self) -> None: ...


class _Pool:
    """A connection pool of pyreqwest, created by the first request. Without requests, pyreqwest is never imported."""

    def __init__(self, configuration: Configuration, pool_size: int | None) -> None:
        self._configuration = configuration
        self._pool_size = pool_size or configuration.pool_size
        self._max_bytes = configuration.max_answer_bytes
        self._pid = 0
        self._client: Client | None = None
        self._poolless: Client | None = None
        self._closed = False
        self._in_flight = 0

    async def send(self, call: Call, *, fresh: bool) -> Response:
        client = self._client
        if fresh or client is None or self._pid != os.getpid():
            client = self._open(fresh=fresh)
        task = asyncio.current_task()
        cancels = task.cancelling() if task is not None else 0
        self._in_flight += 1
        try:
            builder = client.request(call.method, call.url)
            if call.timeout_s is not None:
                builder = builder.timeout(_duration(call.timeout_s))
            if call.headers:
                builder = builder.headers(call.headers)
            if call.body is not None:
                builder = builder.body_bytes(call.body)
            async with builder.build_streamed() as answer:
                content = await self._read(answer, call)
        except Exception as error:
            raise _translate(error, call) from error
        finally:
            self._in_flight -= 1
            if task is not None and task.cancelling() > cancels:
                # The library drops a cancellation that arrives together with the answer or the error.
                raise asyncio.CancelledError
        return Response(answer.status, _Headers(answer.headers), content)

    async def _read(self, answer: Answer, call: Call) -> bytes:
        """Return the decompressed body. Stop at the limit, because a few compressed kilobytes may contain gigabytes."""
        reader, limit = answer.body_reader, _max_bytes(answer.status, self._max_bytes)
        chunks, size = [], 0
        while (chunk := await reader.read_chunk()) is not None:
            size += len(chunk)
            chunks.append(chunk.to_bytes())
            if size > limit:
                if answer.status < _FIRST_ERROR:
                    raise _too_large(call, limit)
                return b"".join(chunks)[:limit]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _open(self, *, fresh: bool) -> Client:
        if self._closed:
            raise TransportError(_CLOSED)
        if self._pid != os.getpid():
            # A forked child does not inherit the library's threads, and must not use its sockets.
            self._pid, self._client, self._poolless, self._in_flight = os.getpid(), None, None, 0
            _close_at_exit(self)
        if fresh:
            if self._poolless is None:
                self._poolless = _build(self._configuration, self._pool_size, keepalive=0)
            return self._poolless
        if self._client is None:
            self._client = _build(self._configuration, self._pool_size, self._configuration.keepalive_connections)
        return self._client

    async def close(self) -> None:
        self._closed = True
        clients = (self._client, self._poolless) if self._pid == os.getpid() else ()
        self._client = self._poolless = None
        self._pid = 0
        for client in clients:
            if client is not None:
                await client.close()

    def close_now(self) -> None:
        """Abort the requests in flight, without an event loop."""
        self._closed = True
        if self._pid == os.getpid():
            for client in (self._client, self._poolless):
                if client is not None:
                    with suppress(StopIteration):
                        client.close().send(None)

    @property
    def is_busy(self) -> bool:
        return self._pid == os.getpid() and self._in_flight > 0


class _Headers(Mapping[str, str]):
    """The headers of an answer. A value that is not ASCII, which the library cannot read, is `UNREADABLE_VALUE`."""

    __slots__ = ("_raw",)

    def __init__(self, raw: HeaderMap) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        try:
            return self._raw[name]
        except ValueError:
            return UNREADABLE_VALUE

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header or the default. Faster than `Mapping.get`, which catches a KeyError for a missing header."""
        try:
            return self._raw.get(name, default)
        except ValueError:
            return UNREADABLE_VALUE

    def get_list(self, name: str) -> list[str]:
        """Return all values of a header. `httpx.Headers` has the same method."""
        try:
            return self._raw.getall(name)
        except (KeyError, ValueError):
            return []

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


_CLOSED = "the HTTP client is closed"

#: How long the exit of the program waits for requests in flight, in seconds.
EXIT_WAIT_S = 0.5
#: How long the exit of the program waits for the library's thread after the last request, in seconds.
EXIT_PAUSE_S = 0.02

_pools: WeakSet[_Pool] = WeakSet()


def _close_at_exit(pool: _Pool) -> None:
    if not _pools:
        atexit.unregister(_close_pools)
        atexit.register(_close_pools)
    _pools.add(pool)


def _close_pools() -> None:
    """Close all pools before the interpreter exits. The library aborts a process that exits during a request."""
    pools = list(_pools)
    for pool in pools:
        pool.close_now()
    deadline_s = time.monotonic() + EXIT_WAIT_S
    while any(pool.is_busy for pool in pools) and time.monotonic() < deadline_s:
        time.sleep(0.005)
    time.sleep(EXIT_PAUSE_S)


def load_library() -> type[ClientBuilder]:
    """Import all parts of the HTTP library that a request may need. Return the class that builds clients."""
    import pyreqwest.exceptions  # noqa: F401 (otherwise the first failed request imports it)
    from pyreqwest.client import ClientBuilder

    return ClientBuilder


def _build(configuration: Configuration, pool_size: int, keepalive: int) -> Client:
    builder = (
        load_library()()
        .user_agent(USER_AGENT)
        .follow_redirects(False)  # a redirected POST becomes a GET without a body, so a report would be lost
        .max_connections(pool_size)
        .pool_max_idle_per_host(keepalive)
        .pool_idle_timeout(_duration(POOL_IDLE_S))
        .connect_timeout(_duration(configuration.connect_timeout_s))
        .http2(configuration.http2)
        .http2_keep_alive_interval(_duration(HTTP2_PING_S))
        .http2_keep_alive_timeout(_duration(configuration.connect_timeout_s))
    )
    try:
        builder = _with_proxy(_with_tls(builder, configuration), configuration)
        return builder.build()
    except RuntimeError as error:
        return _build_after_fork(builder, error)
    except ValueError as error:
        raise ConnectError(_describe_settings(configuration, error)) from error


def _build_after_fork(builder: ClientBuilder, error: RuntimeError) -> Client:
    """Build a client in a forked child.

    The runtime that the library started in the parent cannot start again in the child, so use its other runtime.
    """
    from pyreqwest import runtime

    try:
        runtime.runtime_worker_threads(1)
        return builder.runtime_multithreaded(True).build()
    except RuntimeError:
        raise TransportError(
            "cannot create an HTTP client: this process is a fork of a forked process, and both ancestors used an HTTP "
            "client; start processes with the 'forkserver' or 'spawn' method"
        ) from error


def _describe_settings(configuration: Configuration, error: ValueError) -> str:
    """Describe all settings of TLS and proxy, because the library does not say which of them is invalid."""
    settings = {name: getattr(configuration, name) for name in ("ssl_ca_cert", "cert_file", "key_file", "proxy")}
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items() if value)
    return f"the HTTP client cannot use one of {given}: {error}"


def _with_tls(builder: ClientBuilder, configuration: Configuration) -> ClientBuilder:
    if configuration.ssl_ca_cert:
        for certificate in _certificates(Path(configuration.ssl_ca_cert)):
            builder = builder.add_root_certificate_pem(certificate)
    if configuration.cert_file:
        files = (configuration.cert_file, configuration.key_file)
        pem = b"\n".join(Path(file).read_bytes() for file in files if file)
        builder = builder.identity_pem(pem)
    if not configuration.verify_ssl:
        builder = builder.danger_accept_invalid_certs(True)
    return builder


def _certificates(bundle: Path) -> list[bytes]:
    end = b"-----END CERTIFICATE-----"
    return [part + end for part in bundle.read_bytes().split(end)[:-1]]


def _with_proxy(builder: ClientBuilder, configuration: Configuration) -> ClientBuilder:
    if configuration.proxy:
        return builder.proxy(_proxy(configuration.proxy, configuration.proxy_headers))
    # By default the library uses HTTP_PROXY and similar variables. A server on this machine needs no proxy.
    return builder.no_proxy() if is_loopback(urlsplit(configuration.host).hostname or "") else builder


def _proxy(url: str, headers: Mapping[str, str]) -> ProxyBuilder:
    from pyreqwest.proxy import ProxyBuilder

    proxy = ProxyBuilder.all(url)
    return proxy.headers(headers) if headers else proxy


@lru_cache(maxsize=256)
def _duration(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


#: The hint when the server answers the TLS handshake with something other than TLS.
_NOT_TLS = " (the port does not speak TLS: is it http:// rather than https://?)"
_TIMED_OUT = ("operation timed out", "deadline has elapsed")


def _translate(error: Exception, call: Call) -> Exception:
    """Return the `TransportError` for an error of a request. Return other errors, such as an invalid URL, unchanged."""
    from pyreqwest import exceptions

    if not isinstance(error, exceptions.RequestError):
        return error
    if isinstance(error, exceptions.ClientClosedError):
        return TransportError(_CLOSED)
    causes = [cause["message"] for cause in error.details["causes"] or ()]
    what, last = _name(call), causes[-1] if causes else error.message
    connecting = "client error (Connect)" in causes
    # The class of an error is unreliable, because the library guesses it from the message, and the URL of a poll
    # contains "timeout". Use the last cause instead. "keep-alive timed out" means a dead HTTP/2 connection and not a
    # timeout of this request.
    if last in _TIMED_OUT and "keep-alive timed out" not in causes:
        return ConnectError(f"{what}: no connection in time") if connecting else _timeout(call)
    if connecting:
        hint = _NOT_TLS if "InvalidContentType" in last else ""
        return ConnectError(f"{what}: no connection: {last}{hint}")
    return ConnectionLost(f"{what}: {last}")


def _name(call: Call) -> str:
    return f"{call.method} {mask_password(call.url)}"


def _timeout(call: Call) -> RequestTimeout:
    return RequestTimeout(f"{_name(call)}: no answer within {call.timeout_s:g} s")


def _max_bytes(status: int, max_answer_bytes: int) -> int:
    """Return the largest number of bytes that is read of an answer. The body of an error status is truncated to it."""
    return max_answer_bytes if status < _FIRST_ERROR else min(max_answer_bytes, MAX_ERROR_BYTES)


def _too_large(call: Call, limit_bytes: int) -> AnswerTooLarge:
    return AnswerTooLarge(
        f"{_name(call)}: the answer is larger than max_answer_bytes={limit_bytes} (CONDUCTOR_HTTP_MAX_ANSWER_BYTES)"
    )


class _HttpxTransport:
    """Sends requests with an `httpx.AsyncClient` of the user. This package does not depend on httpx."""

    def __init__(self, client: Any, max_bytes: int) -> None:
        self._client = client
        self._max_bytes = max_bytes
        self._httpx: Any = sys.modules.get("httpx")

    async def send(self, call: Call, *, fresh: bool) -> Response:  # noqa: ARG002 (the client has a pool of its own)
        try:
            async with self._client.stream(
                call.method, call.url, headers=call.headers, content=call.body, timeout=call.timeout_s
            ) as answer:
                content = await self._read(answer, call)
        except Exception as error:
            raise self._translate(error, call) from error
        return Response(answer.status_code, answer.headers, content)

    async def _read(self, answer: Any, call: Call) -> bytes:
        content, limit = bytearray(), _max_bytes(answer.status_code, self._max_bytes)
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > limit:
                if answer.status_code < _FIRST_ERROR:
                    raise _too_large(call, limit)
                return bytes(content[:limit])
        return bytes(content)

    def _translate(self, error: Exception, call: Call) -> Exception:
        httpx, what = self._httpx, _name(call)
        if isinstance(error, ConductorError):
            return error
        if httpx is not None and isinstance(error, httpx.DecodingError | httpx.TooManyRedirects):
            return MalformedAnswer(f"{what}: {error}")
        if httpx is None or not isinstance(error, httpx.TransportError):
            closed = getattr(self._client, "is_closed", False)
            return TransportError(f"{what}: the http_client is closed") if closed else error
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return ConnectError(f"{what}: no connection: {error}")
        if isinstance(error, httpx.TimeoutException):
            return _timeout(call)
        return ConnectionLost(f"{what}: {error or type(error).__name__}")

    async def close(self) -> None:
        """Do nothing: the client belongs to the user."""
