"""Where the processes of one handler meet: a directory with one file per process, and what the ended ones had counted.

Names begin with the handler's own prefix, so several handlers may share a directory. Each holds a lock on
`<prefix>.lock` while it lives; files of a prefix whose lock is free are swept by the next handler that comes by.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conductor.client.telemetry.metric_file import WINDOWS, MetricFile, Record, current_minute, read_records
from conductor.client.telemetry.totals import Totals


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """What a child process must know to take part: where, and under which prefix. Picklable."""

    directory: Path
    prefix: str

    def new_file(self, now: Callable[[], float] = time.monotonic) -> MetricFile:
        """A file for this process. Several in one process are fine."""
        return MetricFile(self.directory / f"{self.prefix}-{os.getpid()}-{uuid.uuid4().hex[:8]}.db", now)


@dataclass(frozen=True, slots=True)
class ProcessRecords:
    """What one live process says of itself."""

    path: Path
    records: list[Record]


class MetricsDirectoryError(ValueError):
    """The directory of the metrics cannot be used; the message says why and what to do."""


class MetricsDirectory:
    """The reading side. `place` goes to the children; `totals()` is the sum of them all, living and ended."""

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = Path(directory).absolute() if directory is not None else private_directory()
        self.place = MetricsPlace(self.path, f"conductor-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self._now = now
        self._past = Totals()
        self._lock = threading.Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._sweep()
            self._lock_fd = _make_locked(self.path / f"{self.place.prefix}.lock")
        except OSError as error:
            raise MetricsDirectoryError(
                f"The metrics directory {self.path} cannot be used ({error}): "
                "name a writable one with MetricsSettings(directory=...)"
            ) from error

    def totals(self) -> Totals:
        """Everything counted so far."""
        with self._lock:
            live = self._fold()
            totals = self._past.copy()
            for process in live:
                totals.add(process.records)
            return totals

    def processes(self) -> list[ProcessRecords]:
        """The records of every live process."""
        with self._lock:
            return self._fold()

    def fold(self) -> None:
        """Take in what ended processes had counted, and remove their files."""
        with self._lock:
            self._fold()

    def close(self) -> None:
        """Remove every file of this prefix. What was counted is kept in `totals()`."""
        with self._lock:
            for process in self._fold():
                self._past.add_ended(process.records)
            _remove(self.path, self.place.prefix)
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    def _fold(self) -> list[ProcessRecords]:
        live = []
        for path in sorted(self.path.glob(f"{self.place.prefix}-*.db")):
            try:
                ended, process = _read(path)
            except FileNotFoundError:
                continue  # somebody tidied up
            if ended:
                self._past.add_ended(process.records)
                path.unlink(missing_ok=True)
            else:
                live.append(process)
        self._past.forget_before(current_minute(self._now()) - WINDOWS)
        return live

    def _sweep(self) -> None:
        """Remove what handlers that are no more have left behind."""
        for lock in self.path.glob("conductor-*.lock"):
            try:
                with lock.open("rb") as file:
                    if _try_lock(file.fileno()):
                        _remove(self.path, lock.stem)
            except FileNotFoundError:
                continue  # another handler sweeps too


def private_directory() -> Path:
    """A directory for this user alone, made if need be. One for all of the user's handlers, so that each can sweep."""
    path = Path(tempfile.gettempdir()) / f"conductor-metrics-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return path
    # Somebody else was first to take the name: stay away from it.
    return Path(tempfile.mkdtemp(prefix="conductor-metrics-"))


def _read(path: Path) -> tuple[bool, ProcessRecords]:
    """Whether the process has ended, and what it says."""
    with path.open("rb") as file:
        # Asked before it is read: what a process counts between the two is in the file.
        ended = _try_lock(file.fileno())
        return ended, ProcessRecords(path, list(read_records(file.read())))


def _make_locked(path: Path) -> int:
    # Locked before it has its name, or another handler would sweep it.
    unfinished = path.with_suffix(".new")
    fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unfinished.rename(path)
    return fd


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(directory: Path, prefix: str) -> None:
    for path in (*directory.glob(f"{prefix}-*"), directory / f"{prefix}.lock"):
        path.unlink(missing_ok=True)
