"""Finds a port that stays free while its server is stopped."""

from __future__ import annotations

import random
import socket

#: Ports below the ephemeral range (Linux from 32768, others from 49152). An ephemeral port could be assigned to an
#: outgoing connection while a stopped server needs it again.
_PORTS = range(16_000, 32_000)
_MAX_TRIES = 100


def free_port() -> int:
    """Return a free loopback port that the operating system does not assign to outgoing connections."""
    for port in random.sample(_PORTS, _MAX_TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of {_MAX_TRIES} ports tried from {_PORTS.start} to {_PORTS.stop} is free on 127.0.0.1")
