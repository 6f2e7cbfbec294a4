"""Whose requests are answered: a web page in a user's browser must not reach a coordinator on the user's machine.

A browser says in three headers where a request comes from. Host is the name that the page believes to talk to: one
that is not ours means that somebody pointed a name of theirs at this machine (DNS rebinding). Origin and
Sec-Fetch-Site name the page: another site may not change anything. And what another site can send without asking
first, a form or plain text, is never read as JSON. Programs that are no browsers send none of this.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from conductor.common.machine import is_loopback
from conductor.coordinator.request_errors import ApiError, bad_request

#: In the list of hosts: any.
ANY = "*"
#: No name of a host is longer than this, with its port.
MAX_HOST_CHARS = 300

#: A name or an address, IPv6 in brackets, and optionally a port.
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_OTHER_SITES = (b"cross-site", b"same-site")


class Origins:
    """The hosts that this coordinator answers to, and the web pages that may change something on it.

    `host` is where it listens. Beyond loopback every Host is answered unless there is a list: who listens there has
    a token to ask for, or has said that everybody may do everything.
    """

    def __init__(self, host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        listed = [_listed_host(name) for name in allowed_hosts]
        self._any_host = ANY in listed or (not listed and not is_loopback(host))
        self._hosts = frozenset([_bare(host), *listed])
        self._origins = frozenset(_listed_origin(origin) for origin in allowed_origins)
        # Clients send the same few again and again.
        self._knows_host = functools.lru_cache(256)(self._is_ours)

    def check_host(self, http_version: str, headers: Mapping[bytes, bytes]) -> None:
        """400 without a Host where there must be one, 403 if it is not ours."""
        host = headers.get(b"host")
        if host is None:
            if http_version != "1.0":
                raise bad_request("an HTTP/1.1 request needs a Host header")
            return
        if self._any_host:
            return
        if len(host) > MAX_HOST_CHARS or not self._knows_host(host):
            shown = _shown(host)
            raise ApiError(
                403,
                f"this coordinator does not answer to the Host {shown}: it could be a web page's way to this machine. "
                f"If it is a name of this coordinator, allow it: conductor-worker serve --allow-host {shown}, "
                "CONDUCTOR_ALLOWED_HOSTS, or Coordinator(allowed_hosts=[...])",
            )

    def check_page(self, headers: Mapping[bytes, bytes]) -> None:
        """403 if a page of another site asks for this."""
        origin = headers.get(b"origin")
        if origin is not None:
            if origin.decode("latin-1").lower() in self._origins:
                return
            if not _is_same(origin, headers.get(b"host", b"")):
                raise _foreign(_shown(origin))
        if headers.get(b"sec-fetch-site") in _OTHER_SITES:
            raise _foreign("another site")

    def _is_ours(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1"))
        return name in self._hosts or is_loopback(name)


def check_content_type(headers: Mapping[bytes, bytes]) -> None:
    """415 for a body that does not say that it is JSON. A program may say nothing; a page in a browser may not."""
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
        shown = _shown(content_type)
    raise ApiError(
        415, f"the body must be JSON and say so: send the header Content-Type: application/json (it was: {shown})"
    )


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0").strip(b"0") != b"" or b"transfer-encoding" in headers


def _bare(host: str) -> str:
    """A host as it is compared: [::1] and ::1 are one, and so are localhost. and LOCALHOST."""
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _without_port(authority: str) -> str:
    """Return the host of a Host header as it is compared; an empty text if the header is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    return "" if found is None else _bare(found[1])


def _is_same(origin: bytes, host: bytes) -> bool:
    """Whether a page of this origin was served by this very host and port."""
    scheme, _, authority = origin.decode("latin-1").lower().partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    ours = host.decode("latin-1").lower()
    return port is not None and authority.removesuffix(port) == ours.removesuffix(port) != ""


def _foreign(where: str) -> ApiError:
    return ApiError(
        403,
        f"a web page of {where} may not change anything here. If the page is yours, allow it: "
        "conductor-worker serve --allow-origin, CONDUCTOR_ALLOWED_ORIGINS, or Coordinator(allowed_origins=[...])",
    )


def _listed_host(name: str) -> str:
    host = name.strip()
    if not host or "/" in host or (host.count(":") == 1 and not host.startswith("[")):
        raise ValueError(f"an allowed host is a name or an address without scheme and port, or '*', not {name!r}")
    return _bare(host)


def _listed_origin(origin: str) -> str:
    scheme, _, authority = origin.strip().lower().rstrip("/").partition("://")
    if scheme not in _DEFAULT_PORTS or not authority or "/" in authority:
        raise ValueError(f"an allowed origin is like https://shop.example or http://localhost:3000, not {origin!r}")
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS[scheme])}"


def _shown(value: bytes) -> str:
    return ascii(value[:100].decode("latin-1"))[1:-1]
