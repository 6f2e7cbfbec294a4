"""The directory in which the processes of one handler write their metric files, and the totals of these files.

File names begin with the prefix of the handler, so several handlers can share a directory. Each handler holds a lock on
`<prefix>.lock` until its process ends. The next handler removes the files of a prefix whose lock is free.
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
from conductor.client.telemetry.metric_values import WINDOWS, BucketCounts, merge_counts, minute_number
from conductor.common.machine import try_lock
from conductor.telemetry.exposition import DEFAULT_BUCKETS, Buckets


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """The directory, prefix and histogram buckets that a child process needs for its metric file. Picklable."""

    directory: Path
    prefix: str
    buckets: Buckets = DEFAULT_BUCKETS

    def new_file(self, now: Callable[[], float] = time.monotonic) -> MetricFile:
        """Create a metric file for this process. A process may have several."""
        name = f"{self.prefix}-{os.getpid()}-{uuid.uuid4().hex[:8]}.db"
        return MetricFile(self.directory / name, now, self.buckets)


class Totals:
    """The sums over many processes. Ended processes contribute counters, histograms and sketches, but not gauges."""

    def __init__(self) -> None:
        self.counters: dict[Key, float] = {}
        self.gauges: dict[Key, float] = {}
        #: The counts of each bucket.
        self.histograms: dict[Key, list[float]] = {}
        #: The bucket counts of each minute.
        self.sketches: dict[Key, dict[int, BucketCounts]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Add the values of a running process."""
        for record in records:
            key = record.key
            if record.kind is Payload.COUNTER:
                self.counters[key] = self.counters.get(key, 0.0) + record.number()
            elif record.kind is Payload.GAUGE:
                self.gauges[key] = self.gauges.get(key, 0.0) + record.number()
            # Replace lists and dicts instead of changing them, because a copy of these totals may share them.
            elif record.kind is Payload.HISTOGRAM:
                known, new = self.histograms.get(key), record.counts()
                self.histograms[key] = new if known is None else [a + b for a, b in zip(known, new, strict=True)]
            elif record.kind is Payload.SKETCH:
                minutes = self.sketches.setdefault(key, {})
                for minute, counts in record.windows():
                    minutes[minute] = merge_counts((minutes.get(minute, {}), counts))

    def add_ended(self, records: Iterable[Record]) -> None:
        """Add the values of an ended process."""
        self.add(record for record in records if record.kind is not Payload.GAUGE)

    def copy(self) -> Totals:
        """Return a copy, to which values can be added without changing these totals."""
        copy = Totals()
        copy.counters, copy.gauges = dict(self.counters), dict(self.gauges)
        copy.histograms = dict(self.histograms)
        copy.sketches = {key: dict(minutes) for key, minutes in self.sketches.items()}
        return copy

    def discard_before(self, minute: int) -> None:
        """Discard the bucket counts of all minutes before `minute`."""
        for minutes in self.sketches.values():
            for old in [number for number in minutes if number < minute]:
                del minutes[old]

    def merge_minutes(self, key: Key, since_minute: int) -> BucketCounts:
        """Return the sum of a sketch's bucket counts from the minute `since_minute` on."""
        return merge_counts(counts for minute, counts in self.sketches[key].items() if minute >= since_minute)


class MetricsDirectoryError(ValueError):
    """The metrics directory cannot be used. The message says why and what to do."""


class MetricsDirectory:
    """Reads the metric files of all processes of a handler. Child processes get `place`, to create their own files."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        now: Callable[[], float] = time.monotonic,
        buckets: Buckets = DEFAULT_BUCKETS,
    ) -> None:
        self.path = Path(directory).absolute() if directory is not None else private_directory()
        self.place = MetricsPlace(self.path, f"conductor-{os.getpid()}-{uuid.uuid4().hex[:8]}", buckets)
        self._now = now
        #: The sums over ended processes.
        self._ended = Totals()
        self._lock = threading.Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned_files()
            self._lock_fd = _create_lock_file(self.path / f"{self.place.prefix}.lock")
        except OSError as error:
            raise MetricsDirectoryError(
                f"The metrics directory {self.path} cannot be used ({error}): "
                "name a writable one with MetricsSettings(directory=...)"
            ) from error

    def totals(self) -> Totals:
        """Return the sums over all processes."""
        with self._lock:
            running = self._read_files()
            totals = self._ended.copy()
            for records in running:
                totals.add(records)
            return totals

    def read_processes(self) -> list[list[Record]]:
        """Return the records of every running process."""
        with self._lock:
            return self._read_files()

    def collect_ended(self) -> None:
        """Add the values of ended processes to the totals, and remove their files."""
        with self._lock:
            self._read_files()

    def close(self) -> None:
        """Remove the files of this handler. `totals()` still returns their values."""
        with self._lock:
            for records in self._read_files():
                self._ended.add_ended(records)
            _remove_files(self.path, self.place.prefix)
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    def _read_files(self) -> list[list[Record]]:
        """Return the records of running processes; add those of ended processes to the totals."""
        running = []
        for path in sorted(self.path.glob(f"{self.place.prefix}-*.db")):
            try:
                with path.open("rb") as file:
                    # Test the lock before reading the file. Otherwise a process could add counts and end between the
                    # two, and these counts would be lost.
                    has_ended = try_lock(file.fileno())
                    records = list(read_records(file.read()))
            except FileNotFoundError:
                continue  # another program has removed the file
            if has_ended:
                self._ended.add_ended(records)
                path.unlink(missing_ok=True)
            else:
                running.append(records)
        self._ended.discard_before(minute_number(self._now()) - WINDOWS)
        return running

    def _remove_abandoned_files(self) -> None:
        for lock in self.path.glob("conductor-*.lock"):
            try:
                with lock.open("rb") as file:
                    if try_lock(file.fileno()):
                        _remove_files(self.path, lock.stem)
            except FileNotFoundError:
                continue  # another handler has removed the file


def private_directory() -> Path:
    """Return a directory that only this user can access. All handlers of the user share it."""
    path = Path(tempfile.gettempdir()) / f"conductor-metrics-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return path
    # The existing directory belongs to another user, or other users can access it.
    return Path(tempfile.mkdtemp(prefix="conductor-metrics-"))


def _create_lock_file(path: Path) -> int:
    # The file gets its final name after it is locked. Otherwise another handler could remove it.
    unfinished = path.with_suffix(".new")
    fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try_lock(fd)
    unfinished.rename(path)
    return fd


def _remove_files(directory: Path, prefix: str) -> None:
    for path in (*directory.glob(f"{prefix}-*"), directory / f"{prefix}.lock"):
        path.unlink(missing_ok=True)
