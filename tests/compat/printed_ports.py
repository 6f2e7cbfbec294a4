"""Ports that the documents print: taken by one test at a time, on the whole machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_on(port: int) -> Iterator[None]:
    """Wait until no other test of this machine uses the port, and keep it from them."""
    lock = Path(tempfile.gettempdir()) / f"conductor-worker-tests-{os.getuid()}-port-{port}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
