"""Which addresses HTTP tasks may call.

The check happens after the host name was resolved, and the call connects to the checked address. Loopback and private
networks (10.0.0.0/8, 100.64.0.0/10, fc00::/7 and others) are allowed, because most HTTP tasks call internal services. A
list of hosts restricts the calls further.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Networks that are rejected unless the list of hosts contains them. Link-local, multicast and unspecified addresses
#: are rejected in the same way.
_REJECTED = [
    ipaddress.ip_network(text)
    for text in (
        # Metadata services of clouds, which return the credentials of the machine.
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
        "fd00:42::42/128",  # Scaleway
        "fd00:ec2::/32",  # Amazon
        "fd20:ce::/32",  # Google Cloud
        # The "this" network: some systems connect to loopback for its addresses.
        "0.0.0.0/8",
        # NAT64 of a local network: only that network knows which bits hold the IPv4 address.
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
    """An HTTP task must not call this address; the message says why."""


class Addresses:
    """The hosts that HTTP tasks may call.

    Without a list, tasks may call every address except link-local addresses and the metadata services of clouds. With a
    list, they may call only its entries: a name (`api.example.com`), all names below one (`*.example.com`), an address
    or a network (`10.1.0.0/16`), each with an optional port (`localhost:8081`). A listed address may be link-local.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names: list[tuple[str, int | None]] = []
        self._networks: list[tuple[Network, int | None]] = []
        for entry in allowed:
            host, port = _split_port(entry)
            try:
                self._networks.append((ipaddress.ip_network(host, strict=False), port))
            except ValueError:
                self._names.append((host.lower().rstrip("."), port))

    def resolve(self, host: str, port: int) -> list[tuple[socket.AddressFamily, Address]]:
        """Return the addresses of a host that may be called.

        Raises:
            AddressRejected: None of the addresses may be called.
            OSError: The host has no address.
        """
        allowed: list[tuple[socket.AddressFamily, Address]] = []
        rejection: AddressRejected | None = None
        for family, _, _, _, resolved in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = ipaddress.ip_address(str(resolved[0]).partition("%")[0])
            try:
                self.check(host, address, port)
            except AddressRejected as error:
                rejection = error
            else:
                allowed.append((family, address))
        if not allowed:
            raise rejection or OSError(f"{host} has no address")
        return allowed

    def check(self, host: str, address: Address, port: int) -> None:
        """Raise AddressRejected unless this address of this host may be called."""
        target = _unwrap_ipv4(address)
        if any(target in network and only in (None, port) for network, only in self._networks):
            return
        is_special = target.is_link_local or target.is_multicast or target.is_unspecified
        if is_special or any(target in network for network in _REJECTED):
            raise AddressRejected(
                f"{host} is {address}: HTTP tasks do not call link-local, metadata and multicast addresses"
            )
        if (self._names or self._networks) and not self._lists_name(host, port):
            raise AddressRejected(
                f"{host}:{port} is not one of the hosts that HTTP tasks may call; "
                "add it with `serve --http-task-host` or CONDUCTOR_HTTP_TASK_HOSTS"
            )

    def _lists_name(self, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return any(
            only in (None, port) and (name == known or (known.startswith("*.") and name.endswith(known[1:])))
            for known, only in self._names
        )


def _unwrap_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.teredo is not None:
        return address.teredo[1]
    for network, shift in _EMBEDDED:
        if address in network:
            return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    # IPv4-compatible addresses (::a.b.c.d), except those for 0.0.0.0/8, which are ::1 and its unused neighbours.
    if 2**24 <= int(address) < 2**32:
        return ipaddress.IPv4Address(int(address))
    return address


def _split_port(entry: str) -> tuple[str, int | None]:
    entry = entry.strip()
    bracketed, found, rest = entry.partition("]")
    if entry.startswith("[") and found:
        return bracketed[1:], _port(entry, rest[1:]) if rest else None
    host, found, port = entry.rpartition(":")
    if not found or ":" in host:  # no port, or an IPv6 address without one
        if not entry:
            raise ValueError("the list of hosts for HTTP tasks has an empty entry")
        return entry, None
    return host, _port(entry, port)


def _port(entry: str, text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"'{entry}' is not a host with a port; write host, host:port, an address or a network")
    return int(text)
