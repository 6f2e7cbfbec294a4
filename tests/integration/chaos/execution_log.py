"""The events of a run in one append-only file: one line, one write. Standard library only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class ExecutionLog:
    """Written by many processes at once; a line is there once `write` has returned, whatever happens next."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._owner = 0
        self._file = -1

    def write(self, kind: str, **about: Any) -> None:
        """Append a line: kind of event, process, monotonic time (one clock for all processes) and details."""
        if self._owner != os.getpid():
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
            self._owner = os.getpid()
        line = {"kind": kind, "pid": self._owner, "at_ns": time.monotonic_ns(), **about}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return ExecutionLog, (self._path,)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Every line so far; a last line without its end was never finished."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)
