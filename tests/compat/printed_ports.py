"""Locks the ports that the documents print: one test at a time uses them, on the whole machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: One path for every run of every user, whatever their TMPDIR is.
_LOCK = "/tmp/conductor-worker-tests-port-{port}.lock"


@contextmanager
def alone_on(port: int) -> Iterator[None]:
    """Wait until no other test of this machine uses the port, and keep it from them."""
    path = _LOCK.format(port=port)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644))
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
