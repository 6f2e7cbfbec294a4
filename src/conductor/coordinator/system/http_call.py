"""One call of an HTTP task: connect to an address that was checked, send, and read an answer of limited size.

It blocks, and is meant for a thread of its own. `abort` ends it from outside.
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
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from conductor.coordinator.limits import MAX_HTTP_ANSWER_BYTES, MAX_REDIRECTS
from conductor.coordinator.system.addresses import Addresses, AddressRejected
from conductor.version import __version__

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_REDIRECTS = (301, 302, 303, 307, 308)
#: Another origin that a redirect leads to gets these headers only: any other may be a credential.
_PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent"})
#: Charset of an answer → decoder. Each takes linear time, unlike some of Python's others, such as punycode.
_DECODERS = {
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
#: Longest part of a Content-Type in which a charset is looked for.
_MAX_CONTENT_TYPE_CHARS = 1000


class HttpRequest(NamedTuple):
    """What is asked for."""

    method: str
    uri: str
    headers: Mapping[str, str]
    body: bytes | None
    connect_timeout_s: float
    read_timeout_s: float


class HttpAnswer(NamedTuple):
    """What came back."""

    status: int
    reason: str
    headers: dict[str, list[str]]
    body: Any
    #: what was asked for last, after redirects
    method: str
    uri: str
    #: the body as it came
    text: str


class HttpFailure(Exception):
    """There is no answer; its message says why. `final`: there will not be one the next time either."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class HttpCall:
    """A call that can be ended from another thread."""

    def __init__(self, request: HttpRequest, addresses: Addresses) -> None:
        self._request = request
        self._addresses = addresses
        self._socket: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """End it: whatever it waits for comes to nothing."""
        self._aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> HttpAnswer:
        """The answer, redirects followed. Raises HttpFailure."""
        request = self._request
        for _ in range(MAX_REDIRECTS + 1):
            answer, location = self._exchange(request)
            if location is None:
                return answer
            request = _redirected(request, answer.status, location)
        raise HttpFailure(f"more than {MAX_REDIRECTS} redirects from {self._request.uri}")

    def _exchange(self, request: HttpRequest) -> tuple[HttpAnswer, str | None]:
        """One request and its answer; where it leads if that is somewhere else."""
        what = f'I/O error on {request.method} request for "{request.uri}"'
        try:
            with contextlib.closing(self._connect(request)) as connection:
                target = _target(request.uri)
                connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in _all_headers(request).items():
                    connection.putheader(name, value)
                connection.endheaders(request.body)
                return self._read(connection.getresponse(), request)
        except AddressRejected as error:
            raise HttpFailure(str(error), final=True) from None
        except TimeoutError:
            raise HttpFailure(f"{what}: {'stopped' if self._aborted else 'timed out'}") from None
        except UnicodeError as error:
            raise HttpFailure(f"{what}: {error}") from None
        except (OSError, http.client.HTTPException, ValueError, EOFError, zlib.error) as error:
            said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise HttpFailure(f"{what}: {'stopped' if self._aborted else said}") from None

    def _connect(self, request: HttpRequest) -> http.client.HTTPConnection:
        scheme, host, port = parse_origin(request.uri)
        connected = self._open(host, port, request.connect_timeout_s)
        try:
            if scheme == "https":
                connected = _trust().wrap_socket(connected, server_hostname=host)
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
        """A connection to one of the addresses that were checked, and to no other."""
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
        room = MAX_HTTP_ANSWER_BYTES
        for name, value in response.getheaders():
            headers.setdefault(name, []).append(value)
            room -= len(name) + len(value)
        body = b"" if location or room < 0 else response.read(room + 1)
        encoding = (response.getheader("Content-Encoding") or "").lower()
        if len(body) <= room and encoding in ("gzip", "x-gzip", "deflate") and body:
            body = _unpacked(body, encoding, room + 1)
        if len(body) > room:
            raise HttpFailure(
                f"the answer of {request.uri} has more than {MAX_HTTP_ANSWER_BYTES} bytes with its headers, which is "
                "more than an HTTP task takes",
                final=True,
            )
        text = body.decode(_decoder(response.getheader("Content-Type") or ""), "replace")
        reason = http.client.responses.get(response.status, response.reason)
        return HttpAnswer(
            response.status, reason, headers, _parsed(body, text), request.method, request.uri, text
        ), location


@functools.cache
def _trust() -> ssl.SSLContext:
    """The certificates that this machine trusts: reading them takes longer than many a call."""
    return ssl.create_default_context()


def parse_origin(uri: str) -> tuple[str, str, int]:
    """(scheme, host, port) of an address. Raises HttpFailure for what is no http or https address."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HttpFailure(f"'{uri}' is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise HttpFailure(f"'{uri}' is not an http or https address; HTTP tasks call no others")
    if any(sign <= " " or sign == "\x7f" for sign in parts.netloc):
        raise HttpFailure(f"'{uri}' names a host that cannot be")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def _target(uri: str) -> str:
    """Path and query, with what cannot travel written as it must be."""
    parts = urlsplit(uri)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return f"{target}?{quote(parts.query, safe='/?%:@!$&()*+,;=~-._[]')}" if parts.query else target


def _all_headers(request: HttpRequest) -> dict[str, str]:
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
    taken = ("content-length", "transfer-encoding", "connection")
    length = headers.pop("Content-Length", None)
    headers = {name: value for name, value in headers.items() if name.lower() not in taken}
    return {**headers, **({} if length is None else {"Content-Length": length}), "Connection": "close"}


def _redirected(request: HttpRequest, status: int, location: str) -> HttpRequest:
    """The request that follows a redirect, as browsers do it."""
    uri = urljoin(request.uri, location)
    headers = dict(request.headers)
    if parse_origin(uri) != parse_origin(request.uri):
        headers = {name: value for name, value in headers.items() if name.lower() in _PUBLIC_HEADERS}
    if status in (307, 308) or request.method in ("GET", "HEAD"):
        return request._replace(uri=uri, headers=headers)
    headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return request._replace(uri=uri, method="GET", body=None, headers=headers)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return at most `most` bytes of what is packed: it may be a bomb."""
    if encoding == "deflate":
        wrapped = body[:1] and body[0] & 0x0F == 8
        return zlib.decompressobj(15 if wrapped else -15).decompress(body, most)
    return zlib.decompressobj(31).decompress(body, most)


def _decoder(content_type: str) -> str:
    """Return the decoder of an answer; UTF-8 if its charset is missing or not one of `_DECODERS`."""
    found = _CHARSET.search(content_type[:_MAX_CONTENT_TYPE_CHARS])
    return _DECODERS.get(found[1].lower(), "utf-8") if found else "utf-8"


def _parsed(body: bytes, text: str) -> Any:
    """A body as Conductor shows it: JSON as what it says, anything else as text, nothing as null."""
    if not body:
        return None
    try:
        value = msgspec.json.decode(body)
        msgspec.json.encode(value)  # what can be read but not written, such as a number of 30 digits, stays text
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return text
    return value
