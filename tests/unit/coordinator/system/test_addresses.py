"""The addresses that HTTP tasks may call."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from conductor.coordinator.system.addresses import Addresses, AddressRejected


def check(allowed: list[str], host: str, address: str, port: int = 80) -> None:
    Addresses(allowed).check(host, ipaddress.ip_address(address), port)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::a83f:8110",
        "64:ff9b:1:a9fe:a9:fe00::",
        "fd20:ce::254",
        "fd00:42::42",
        "::ffff:0:a9fe:a9fe",
        "::169.254.169.254",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "2002:a83f:8110::1",
        "0.0.0.1",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::",
    ],
)
def test_link_local_metadata_and_multicast_addresses_are_refused_however_they_are_written_a12(address: str) -> None:
    with pytest.raises(AddressRejected, match="link-local, metadata and multicast"):
        check([], "metadata.example", address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "100.64.0.1",
        "168.63.129.17",
        "93.184.216.34",
        "2606:2800:220:1::1",
        "64:ff9b::5db8:d822",
        "fd12:3456::1",
    ],
)
def test_all_other_addresses_are_allowed_without_a_list(address: str) -> None:
    check([], "any.example", address)


@pytest.mark.parametrize(
    ("allowed", "host", "address", "port"),
    [
        ("api.example", "API.example.", "93.184.216.34", 443),
        ("*.example", "api.shop.example", "93.184.216.34", 443),
        ("api.example:8443", "api.example", "93.184.216.34", 8443),
        ("10.1.0.0/16", "inside.example", "10.1.2.3", 80),
        ("10.1.2.3", "10.1.2.3", "10.1.2.3", 80),
        ("127.0.0.1:8081", "localhost", "127.0.0.1", 8081),
        ("[::1]:8081", "localhost", "::1", 8081),
        ("::1", "localhost", "::1", 1),
        ("169.254.10.0/24", "printer.example", "169.254.10.7", 80),
        ("168.63.129.16", "168.63.129.16", "168.63.129.16", 80),
        ("64:ff9b:1::/48", "inside.example", "64:ff9b:1::a01:203", 80),
    ],
)
def test_an_address_on_the_list_may_be_called(allowed: str, host: str, address: str, port: int) -> None:
    check([allowed], host, address, port)


@pytest.mark.parametrize(
    ("allowed", "host", "address", "port"),
    [
        ("api.example", "api.example.evil", "93.184.216.34", 443),
        ("*.example", "example", "93.184.216.34", 443),
        ("*.example", "evilexample", "93.184.216.34", 443),
        ("api.example:8443", "api.example", "93.184.216.34", 443),
        ("10.1.0.0/16", "inside.example", "10.2.2.3", 80),
        ("127.0.0.1:8081", "localhost", "127.0.0.1", 8082),
    ],
)
def test_an_address_that_is_not_on_the_list_may_not_be_called(allowed: str, host: str, address: str, port: int) -> None:
    with pytest.raises(AddressRejected, match="--http-task-host"):
        check([allowed], host, address, port)


def test_a_name_on_the_list_that_leads_to_a_link_local_address_is_refused() -> None:
    with pytest.raises(AddressRejected, match="link-local"):
        check(["api.example"], "api.example", "169.254.169.254")


def test_of_several_addresses_only_those_that_may_be_called_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(*_: Any, **__: Any) -> list[Any]:
        found = ["169.254.169.254", "127.0.0.1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    found = Addresses().resolve("two.example", 80)
    assert found == [(socket.AF_INET, ipaddress.ip_address("127.0.0.1"))]


@pytest.mark.parametrize("entry", ["", "host:", "host:0", "host:99999", "host:http", "[::1]:x"])
def test_an_entry_that_cannot_be_read_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match=r"not a host|empty entry"):
        Addresses([entry])
