"""A port that stays free while its server is down."""

from __future__ import annotations

import random
import socket

#: Below what operating systems lend to outgoing connections (Linux from 32768, others from 49152): a port from there
#: may belong to somebody's connection when a stopped server wants it back.
_NEVER_LENT = range(16_000, 32_000)
_TRIES = 100


def free_port() -> int:
    """A loopback port nobody listens on. A server may give it up and take it again: no connection gets it meanwhile."""
    for port in random.sample(_NEVER_LENT, _TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if _bound(probe, port):
                return port
    raise OSError(f"none of {_TRIES} ports tried from {_NEVER_LENT.start} to {_NEVER_LENT.stop} is free on 127.0.0.1")


def _bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
