"""Where the processes of one handler meet: a directory with one file per process, and the sum of what they counted.

Names begin with the handler's own prefix, so several handlers may share a directory. Each holds a lock on
`<prefix>.lock` while it lives; files of a prefix whose lock is free are swept by the next handler that comes by.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from conductor.client.telemetry.metric_file import Key, MetricFile, Payload, Record, read_records
from conductor.client.telemetry.metric_values import WINDOWS, Spread, current_minute, merge
from conductor.common.machine import try_lock
from conductor.telemetry.exposition import DEFAULT_BUCKETS, Buckets


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """What a child process must know to take part: where, under which prefix, with which buckets. Picklable."""

    directory: Path
    prefix: str
    buckets: Buckets = DEFAULT_BUCKETS

    def new_file(self, now: Callable[[], float] = time.monotonic) -> MetricFile:
        """A file for this process. Several in one process are fine."""
        name = f"{self.prefix}-{os.getpid()}-{uuid.uuid4().hex[:8]}.db"
        return MetricFile(self.directory / name, now, self.buckets)


@dataclass(frozen=True, slots=True)
class ProcessRecords:
    """What one live process says of itself."""

    path: Path
    records: list[Record]


class Totals:
    """The numbers of many processes, added up by key. Those of ended ones stay in it, but for gauges and texts."""

    def __init__(self) -> None:
        self.counters: dict[Key, float] = {}
        self.gauges: dict[Key, float] = {}
        #: Counts between bounds.
        self.histograms: dict[Key, list[float]] = {}
        #: Spreads by minute.
        self.sketches: dict[Key, dict[int, Spread]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Add the numbers of a live process."""
        for record in records:
            if record.kind is Payload.COUNTER:
                self.counters[record.key] = self.counters.get(record.key, 0.0) + record.number()
            elif record.kind is Payload.GAUGE:
                self.gauges[record.key] = self.gauges.get(record.key, 0.0) + record.number()
            elif record.kind is Payload.SKETCH:
                self._add_sketch(record)
            elif record.kind is Payload.HISTOGRAM:
                self._add_histogram(record)

    def add_ended(self, records: Iterable[Record]) -> None:
        """Add what remains of an ended process."""
        self.add(record for record in records if record.kind is not Payload.GAUGE)

    def copy(self) -> Totals:
        """One to add to while this one stays as it is."""
        twin = Totals()
        twin.counters, twin.gauges = dict(self.counters), dict(self.gauges)
        twin.histograms = dict(self.histograms)
        twin.sketches = {key: dict(minutes) for key, minutes in self.sketches.items()}
        return twin

    def forget_before(self, minute: int) -> None:
        """Drop the spreads of older minutes."""
        for minutes in self.sketches.values():
            for old in [m for m in minutes if m < minute]:
                del minutes[old]

    def recent(self, key: Key, since_minute: int) -> Spread:
        """The spread of a sketch's values since that minute."""
        return merge(spread for minute, spread in self.sketches.get(key, {}).items() if minute >= since_minute)

    def _add_histogram(self, record: Record) -> None:
        known, new = self.histograms.get(record.key), record.counts()
        # Never in place: a copy of these totals may share it.
        self.histograms[record.key] = new if known is None else [a + b for a, b in zip(known, new, strict=True)]

    def _add_sketch(self, record: Record) -> None:
        minutes = self.sketches.setdefault(record.key, {})
        for minute, spread in record.windows():
            # Never in place: a copy of these totals may share it.
            minutes[minute] = merge((minutes[minute], spread)) if minute in minutes else spread


class MetricsDirectoryError(ValueError):
    """The directory of the metrics cannot be used; the message says why and what to do."""


class MetricsDirectory:
    """The reading side. `place` goes to the children; `totals()` is the sum of them all, living and ended."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        now: Callable[[], float] = time.monotonic,
        buckets: Buckets = DEFAULT_BUCKETS,
    ) -> None:
        self.path = Path(directory).absolute() if directory is not None else private_directory()
        self.place = MetricsPlace(self.path, f"conductor-{os.getpid()}-{uuid.uuid4().hex[:8]}", buckets)
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
                    if try_lock(file.fileno()):
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
        ended = try_lock(file.fileno())
        return ended, ProcessRecords(path, list(read_records(file.read())))


def _make_locked(path: Path) -> int:
    # Locked before it has its name, or another handler would sweep it.
    unfinished = path.with_suffix(".new")
    fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try_lock(fd)
    unfinished.rename(path)
    return fd


def _remove(directory: Path, prefix: str) -> None:
    for path in (*directory.glob(f"{prefix}-*"), directory / f"{prefix}.lock"):
        path.unlink(missing_ok=True)
