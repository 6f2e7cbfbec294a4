"""Protection against web pages: a page in a user's browser must not control a coordinator on the user's machine.

A browser describes the origin of a request in three headers. Host is the name that the page uses for this server: a
foreign name means that an attacker's domain resolves to this machine (DNS rebinding). Origin and Sec-Fetch-Site name
the site of the page: pages of other sites may not change anything. The content types that a page can send to another
site without a preflight request, forms and plain text, are never read as JSON. Programs other than browsers send
neither Origin nor Sec-Fetch-Site.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from conductor.common.machine import is_loopback
from conductor.coordinator.request_errors import ApiError, bad_request

#: Allows any host.
ANY = "*"
#: Longest Host header that is compared.
MAX_HOST_CHARS = 300

#: A name or an address, IPv6 in brackets, and optionally a port.
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_OTHER_SITES = (b"cross-site", b"same-site")


class Origins:
    """The hosts that this coordinator answers to, and the web pages that may change something on it.

    `host` is the address that the coordinator listens on. If it is not a loopback address, every Host header is
    accepted unless `allowed_hosts` is given: such a coordinator requires a token, or was started with `allow_remote`.
    """

    def __init__(self, host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        listed = [_parse_allowed_host(name) for name in allowed_hosts]
        self._any_host = ANY in listed or (not listed and not is_loopback(host))
        self._hosts = frozenset([_normalize(host), *listed])
        self._origins = frozenset(_parse_allowed_origin(origin) for origin in allowed_origins)
        # Cached, because clients send the same few hosts again and again.
        self._is_own_host = functools.lru_cache(256)(self._compare_host)

    def check_host(self, http_version: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise a 400 if a required Host is missing, and a 403 if it is foreign."""
        host = headers.get(b"host")
        if host is None:
            if http_version != "1.0":
                raise bad_request("an HTTP/1.1 request needs a Host header")
            return
        if self._any_host:
            return
        if len(host) > MAX_HOST_CHARS or not self._is_own_host(host):
            shown = _printable(host)
            raise ApiError(
                403,
                f"this coordinator does not answer to the Host {shown}: a web page could use it to reach this machine. "
                f"If it is a name of this coordinator, allow it: conductor-worker serve --allow-host {shown}, "
                "CONDUCTOR_ALLOWED_HOSTS, or Coordinator(allowed_hosts=[...])",
            )

    def check_page(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise a 403 if a page of another site sent the request."""
        origin = headers.get(b"origin")
        if origin is not None:
            if origin.decode("latin-1").lower() in self._origins:
                return
            if not _is_same_site(origin, headers.get(b"host", b"")):
                raise _foreign_page(_printable(origin))
        if headers.get(b"sec-fetch-site") in _OTHER_SITES:
            raise _foreign_page("another site")

    def _compare_host(self, host: bytes) -> bool:
        name = _strip_port(host.decode("latin-1"))
        return name in self._hosts or is_loopback(name)


def check_content_type(headers: Mapping[bytes, bytes]) -> None:
    """Raise a 415 unless the body is declared as JSON. Only programs other than browsers may omit the content type."""
    if not _has_body(headers):
        return
    content_type = headers.get(b"content-type")
    if content_type is None:
        if b"origin" not in headers:
            return
        shown = "none"
    else:
        kind = content_type.partition(b";")[0].strip().lower()
        if kind == b"application/json" or kind.endswith(b"+json"):
            return
        shown = _printable(content_type)
    raise ApiError(
        415, f"the body must be JSON and say so: send the header Content-Type: application/json (it was: {shown})"
    )


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0").strip(b"0") != b"" or b"transfer-encoding" in headers


def _normalize(host: str) -> str:
    """Return a host in the form that is compared: `[::1]` becomes `::1`, and `LOCALHOST.` becomes `localhost`."""
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _strip_port(authority: str) -> str:
    """Return the normalized host of a Host header; an empty string if the header is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    return "" if found is None else _normalize(found[1])


def _is_same_site(origin: bytes, host: bytes) -> bool:
    """Return whether the page of an origin was served by this host and port."""
    scheme, _, authority = origin.decode("latin-1").lower().partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    ours = host.decode("latin-1").lower()
    return port is not None and authority.removesuffix(port) == ours.removesuffix(port) != ""


def _foreign_page(where: str) -> ApiError:
    return ApiError(
        403,
        f"a web page of {where} may not change anything on this coordinator. If the page is yours, allow it: "
        "conductor-worker serve --allow-origin, CONDUCTOR_ALLOWED_ORIGINS, or Coordinator(allowed_origins=[...])",
    )


def _parse_allowed_host(name: str) -> str:
    host = name.strip()
    if not host or "/" in host or (host.count(":") == 1 and not host.startswith("[")):
        raise ValueError(f"an allowed host is a name or an address without scheme and port, or '*', not {name!r}")
    return _normalize(host)


def _parse_allowed_origin(origin: str) -> str:
    scheme, _, authority = origin.strip().lower().rstrip("/").partition("://")
    if scheme not in _DEFAULT_PORTS or not authority or "/" in authority:
        raise ValueError(f"an allowed origin is like https://shop.example or http://localhost:3000, not {origin!r}")
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS[scheme])}"


def _printable(value: bytes) -> str:
    return ascii(value[:100].decode("latin-1"))[1:-1]
