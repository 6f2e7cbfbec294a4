"""The call of an HTTP task: connect to a checked address, send the request, and read an answer of limited size.

A call blocks its thread. Another thread can end it with `HttpCall.abort`.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import re
import socket
import ssl
import zlib
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from conductor.coordinator.limits import MAX_HTTP_ANSWER_BYTES, MAX_REDIRECTS
from conductor.coordinator.system.addresses import Addresses, AddressRejected
from conductor.protocol.json_types import Json
from conductor.version import __version__

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_REDIRECTS = (301, 302, 303, 307, 308)
#: The only headers that are sent again after a redirect to another origin. Any other header may be a credential.
_PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent"})
#: Charset of an answer → Python codec. All of these take linear time; other codecs, such as punycode, do not.
_CODECS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin-1": "latin-1",
    "latin1": "latin-1",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)
#: Only this many characters of a Content-Type are searched for a charset.
_MAX_CONTENT_TYPE_CHARS = 1000


class HttpRequest(NamedTuple):
    """A request of an HTTP task."""

    method: str
    uri: str
    headers: Mapping[str, str]
    body: bytes | None
    connect_timeout_s: float
    read_timeout_s: float


class HttpAnswer(NamedTuple):
    """The answer to the last request, after redirects."""

    status: int
    reason: str
    headers: dict[str, list[str]]
    #: The parsed body if it is JSON, else its text.
    body: Json
    method: str
    uri: str
    #: The body as text.
    text: str


class HttpFailure(Exception):
    """A call without an answer; the message says why. `final` is true if a retry would fail too."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class HttpCall:
    """A call that another thread can abort."""

    def __init__(self, request: HttpRequest, addresses: Addresses) -> None:
        self._request = request
        self._addresses = addresses
        self._socket: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """Shut down the socket of the call, so that a pending read or write fails. Any thread may call this."""
        self._aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> HttpAnswer:
        """Send the request, follow redirects, and return the last answer. Raises HttpFailure."""
        request = self._request
        for _ in range(MAX_REDIRECTS + 1):
            answer, location = self._exchange(request)
            if location is None:
                return answer
            request = _follow_redirect(request, answer.status, location)
        raise HttpFailure(f"more than {MAX_REDIRECTS} redirects from {self._request.uri}")

    def _exchange(self, request: HttpRequest) -> tuple[HttpAnswer, str | None]:
        """Send one request. Return its answer, and the target if the answer is a redirect."""
        failure = f'I/O error on {request.method} request for "{request.uri}"'
        try:
            with contextlib.closing(self._connect(request)) as connection:
                target = _request_target(request.uri)
                connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in _all_headers(request).items():
                    connection.putheader(name, value)
                connection.endheaders(request.body)
                return self._read(connection.getresponse(), request)
        except AddressRejected as error:
            raise HttpFailure(str(error), final=True) from None
        except TimeoutError:
            raise HttpFailure(f"{failure}: {'stopped' if self._aborted else 'timed out'}") from None
        except UnicodeError as error:
            raise HttpFailure(f"{failure}: {error}") from None
        except (OSError, http.client.HTTPException, ValueError, EOFError, zlib.error) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise HttpFailure(f"{failure}: {'stopped' if self._aborted else reason}") from None

    def _connect(self, request: HttpRequest) -> http.client.HTTPConnection:
        scheme, host, port = parse_origin(request.uri)
        connected = self._open(host, port, request.connect_timeout_s)
        try:
            if scheme == "https":
                connected = _ssl_context().wrap_socket(connected, server_hostname=host)
                self._socket = connected
            connected.settimeout(request.read_timeout_s)
            connection = http.client.HTTPConnection(host, port)
            connection.sock = connected
        except BaseException:
            connected.close()
            raise
        if self._aborted:
            self.abort()
        return connection

    def _open(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Return a socket that is connected to one of the checked addresses, and to no other."""
        failure: OSError | None = None
        for family, address in self._addresses.resolve(host, port):
            opened = socket.socket(family, socket.SOCK_STREAM)
            opened.settimeout(timeout_s)
            self._socket = opened
            try:
                opened.connect((str(address), port))
            except OSError as error:
                opened.close()
                failure = error
            else:
                return opened
        raise failure or OSError(f"{host} has no address")

    def _read(self, response: http.client.HTTPResponse, request: HttpRequest) -> tuple[HttpAnswer, str | None]:
        location = response.getheader("Location") if response.status in _REDIRECTS else None
        headers: dict[str, list[str]] = {}
        bytes_left = MAX_HTTP_ANSWER_BYTES
        for name, value in response.getheaders():
            headers.setdefault(name, []).append(value)
            bytes_left -= len(name) + len(value)
        body = b"" if location or bytes_left < 0 else response.read(bytes_left + 1)
        encoding = (response.getheader("Content-Encoding") or "").lower()
        if len(body) <= bytes_left and encoding in ("gzip", "x-gzip", "deflate") and body:
            body = _decompress(body, encoding, bytes_left + 1)
        if len(body) > bytes_left:
            raise HttpFailure(
                f"the answer from {request.uri} has more than {MAX_HTTP_ANSWER_BYTES} bytes with its headers, "
                "the limit of an HTTP task",
                final=True,
            )
        text = body.decode(_find_codec(response.getheader("Content-Type") or ""), "replace")
        reason = http.client.responses.get(response.status, response.reason)
        return HttpAnswer(
            response.status, reason, headers, _parse_body(body, text), request.method, request.uri, text
        ), location


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    # Cached, because loading the trusted certificates takes longer than many calls.
    return ssl.create_default_context()


def parse_origin(uri: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URI. Raises HttpFailure unless it is a valid http or https URI."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HttpFailure(f"'{uri}' is not a valid address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise HttpFailure(f"'{uri}' is not an http or https address, and HTTP tasks call only these")
    if any(sign <= " " or sign == "\x7f" for sign in parts.netloc):
        raise HttpFailure(f"the host of '{uri}' contains a space or a control character")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def _request_target(uri: str) -> str:
    """Return path and query of a URI, with percent-encoding where it is missing."""
    parts = urlsplit(uri)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return f"{target}?{quote(parts.query, safe='/?%:@!$&()*+,;=~-._[]')}" if parts.query else target


def _all_headers(request: HttpRequest) -> dict[str, str]:
    """Return the headers to send. A task cannot set Content-Length, Transfer-Encoding and Connection."""
    headers = {
        "Host": urlsplit(request.uri).netloc.rpartition("@")[2],
        "User-Agent": f"conductor-worker/{__version__}",
        "Accept-Encoding": "gzip, deflate",
    }
    for name, value in request.headers.items():
        known = next((one for one in headers if one.lower() == name.lower()), name)
        headers[known] = value
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(request.body or b""))
    reserved = ("content-length", "transfer-encoding", "connection")
    length = headers.pop("Content-Length", None)
    headers = {name: value for name, value in headers.items() if name.lower() not in reserved}
    return {**headers, **({} if length is None else {"Content-Length": length}), "Connection": "close"}


def _follow_redirect(request: HttpRequest, status: int, location: str) -> HttpRequest:
    """Return the next request after a redirect, with the rules of browsers."""
    uri = urljoin(request.uri, location)
    headers = dict(request.headers)
    if parse_origin(uri) != parse_origin(request.uri):
        headers = {name: value for name, value in headers.items() if name.lower() in _PUBLIC_HEADERS}
    if status in (307, 308) or request.method in ("GET", "HEAD"):
        return request._replace(uri=uri, headers=headers)
    headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return request._replace(uri=uri, method="GET", body=None, headers=headers)


def _decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return at most `max_bytes` of the decompressed body, because the body may be a decompression bomb."""
    if encoding == "deflate":
        has_zlib_header = body[:1] and body[0] & 0x0F == 8
        return zlib.decompressobj(15 if has_zlib_header else -15).decompress(body, max_bytes)
    return zlib.decompressobj(31).decompress(body, max_bytes)


def _find_codec(content_type: str) -> str:
    """Return the codec of an answer: UTF-8 if its charset is missing or unknown."""
    found = _CHARSET.search(content_type[:_MAX_CONTENT_TYPE_CHARS])
    return _CODECS.get(found[1].lower(), "utf-8") if found else "utf-8"


def _parse_body(body: bytes, text: str) -> Json:
    """Return a body as Conductor does: None if it is empty, the value if it is JSON, else its text."""
    if not body:
        return None
    try:
        value = msgspec.json.decode(body)
        msgspec.json.encode(value)  # a value that cannot be encoded again, such as a number of 30 digits, stays text
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return text
    return value
