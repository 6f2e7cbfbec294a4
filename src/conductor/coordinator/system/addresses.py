"""Where HTTP tasks may go. An address is checked after its name was resolved, and the call goes to that address.

Private networks (10.0.0.0/8, 100.64.0.0/10, fc00::/7 and the like) and loopback are allowed: services of one's own are
what most HTTP tasks call. A list of hosts narrows that.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Addresses that are not called unless they are on the list, beside link-local, multicast and unspecified ones.
_REFUSED = [
    ipaddress.ip_network(text)
    for text in (
        # Metadata and credentials of machines in clouds.
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
        "fd00:42::42/128",  # Scaleway
        "fd00:ec2::/32",  # Amazon
        "fd20:ce::/32",  # Google Cloud
        # "This" network: some systems connect to themselves.
        "0.0.0.0/8",
        # NAT64 of a local network: which bits hold the IPv4 address is known there only.
        "64:ff9b:1::/48",
    )
]
#: IPv6 networks whose addresses contain an IPv4 address, and how many bits follow it.
_EMBEDDED = [
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
]


class AddressRejected(Exception):
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
        refused: AddressRejected | None = None
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            one = ipaddress.ip_address(str(address[0]).partition("%")[0])
            try:
                self.check(host, one, port)
            except AddressRejected as error:
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
        if meant.is_link_local or meant.is_multicast or meant.is_unspecified or any(meant in one for one in _REFUSED):
            raise AddressRejected(
                f"{host} is {address}: link-local, metadata and multicast addresses are not called by HTTP tasks"
            )
        if (self._names or self._networks) and not self._named(host, port):
            raise AddressRejected(
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
    """Return the address that is reached: an IPv6 address may stand for an IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.teredo is not None:
        return address.teredo[1]
    for network, shift in _EMBEDDED:
        if address in network:
            return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    # IPv4-compatible addresses (::a.b.c.d). Those of 0.0.0.0/8 are ::1 and its unused neighbours.
    if 2**24 <= int(address) < 2**32:
        return ipaddress.IPv4Address(int(address))
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
