"""Where HTTP tasks may go. An address is checked after its name was resolved, and it is that address that is used."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Where clouds keep the keys of a machine, beside link-local addresses.
_METADATA = [ipaddress.ip_network(text) for text in ("100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32")]
#: Addresses of the fourth version inside of the sixth: (network, the bits that follow it).
_EMBEDDED = [(ipaddress.IPv6Network("64:ff9b::/96"), 0), (ipaddress.IPv6Network("2002::/16"), 80)]


class RefusedAddress(Exception):
    """An HTTP task wants to go where it may not; its message says why."""


class Addresses:
    """The places that HTTP tasks may call.

    Without a list, all but link-local addresses and what clouds use for metadata. With one, only what is on it: names
    (`api.example.com`), all names below one (`*.example.com`), addresses and networks (`10.1.0.0/16`), each with a port
    if only that is meant (`localhost:8081`). An address that is on the list by itself may be link-local.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names: list[tuple[str, int | None]] = []
        self._networks: list[tuple[Network, int | None]] = []
        for entry in allowed:
            host, port = _split(entry)
            try:
                self._networks.append((ipaddress.ip_network(host, strict=False), port))
            except ValueError:
                self._names.append((host.lower().rstrip("."), port))

    def resolve(self, host: str, port: int) -> list[tuple[socket.AddressFamily, Address]]:
        """The addresses of a host that may be called. Raises RefusedAddress if none may, OSError if it has none."""
        found: list[tuple[socket.AddressFamily, Address]] = []
        refused: RefusedAddress | None = None
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            one = ipaddress.ip_address(str(address[0]).partition("%")[0])
            try:
                self.check(host, one, port)
            except RefusedAddress as error:
                refused = error
            else:
                found.append((family, one))
        if not found:
            raise refused or OSError(f"{host} has no address")
        return found

    def check(self, host: str, address: Address, port: int) -> None:
        """Raise RefusedAddress unless this address of this host may be called."""
        meant = _meant(address)
        if any(meant in network and only in (None, port) for network, only in self._networks):
            return
        if meant.is_link_local or meant.is_multicast or meant.is_unspecified or any(meant in one for one in _METADATA):
            raise RefusedAddress(
                f"{host} is {address}: link-local, metadata and multicast addresses are not called by HTTP tasks"
            )
        if (self._names or self._networks) and not self._named(host, port):
            raise RefusedAddress(
                f"{host}:{port} is not among the hosts that HTTP tasks may call; "
                "add it with `serve --http-task-host` or CONDUCTOR_HTTP_TASK_HOSTS"
            )

    def _named(self, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return any(
            only in (None, port) and (name == known or (known.startswith("*.") and name.endswith(known[1:])))
            for known, only in self._names
        )


def _meant(address: Address) -> Address:
    """The address that is reached: one of the fourth version may be hidden in one of the sixth."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    for network, shift in _EMBEDDED:
        if address in network:
            return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return address


def _split(entry: str) -> tuple[str, int | None]:
    """A host and its port, if it has one."""
    entry = entry.strip()
    bracketed, found, rest = entry.partition("]")
    if entry.startswith("[") and found:
        return bracketed[1:], _port(entry, rest[1:]) if rest else None
    host, found, port = entry.rpartition(":")
    if not found or ":" in host:  # none, or an address of the sixth version without a port
        if not entry:
            raise ValueError("an empty name is no host that HTTP tasks could call")
        return entry, None
    return host, _port(entry, port)


def _port(entry: str, text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"'{entry}' is no host with a port; write host, host:port, an address or a network")
    return int(text)
