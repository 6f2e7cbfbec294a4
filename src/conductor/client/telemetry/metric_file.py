"""The numbers of one process, in a memory-mapped file: a store is a few nanoseconds, and `kill -9` loses none of them.

That is why there is a file format at all. Snapshots sent to the parent once a second would be less code, and would lose
the last second of a process that is killed: the very second that one wants to know about. Here counts are exact.

A file is a row of chunks; a chunk is a header (magic, bytes used) and records; a record is its own header (size,
kind, length of the key), the key `["name", "label value", ...]` as JSON, and a payload of eight-byte words (`numbers`):

- COUNTER and GAUGE: one double.
- SKETCH: one block per minute of the last six, each the minute's number and its buckets.
- HISTOGRAM: how many values lie between its bounds, one double each; whoever reads it knows the bounds.
- TEXT: a length and the bytes.

A record is written before the chunk's used-bytes word says so, hence a reader sees whole records or none. Only the
owner writes; it holds an exclusive `flock` for as long as it lives, which is how others know that it does.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from conductor.client.telemetry.metric_values import (
    HISTOGRAM_BYTES,
    SKETCH_BYTES,
    TEXT_BYTES,
    Number,
    Sketch,
    Spread,
    Summary,
    Text,
    text_in,
    windows_in,
)
from conductor.common.machine import try_lock, unlock
from conductor.telemetry.exposition import DEFAULT_BUCKETS, Buckets

logger = logging.getLogger(__name__)

#: A label value is cut here.
LABEL_CHARS = 200

CHUNK_BYTES = 128 * 1024
_MAGIC = 0x314D5743_00000000  # "CWM1"
_CHUNK_HEADER = struct.Struct("=QQ")
_RECORD_HEADER = struct.Struct("=IHH")

Key = tuple[str, ...]
T = TypeVar("T")


class Payload(IntEnum):
    """What a record holds."""

    #: Only grows, and outlives its process.
    COUNTER = 1
    #: About now: ends with its process.
    GAUGE = 2
    SKETCH = 3
    TEXT = 4
    #: Only grows, and outlives its process.
    HISTOGRAM = 5


_PAYLOAD_BYTES = {
    Payload.COUNTER: 8,
    Payload.GAUGE: 8,
    Payload.SKETCH: SKETCH_BYTES,
    Payload.TEXT: 8 + TEXT_BYTES,
    Payload.HISTOGRAM: HISTOGRAM_BYTES,
}


class MetricFile:
    """The numbers of this process, on disk under `path` for others to read; without a path, for nobody.

    A disk that fills up or fails stops no worker: one line says so, and counting goes on where nobody reads it.
    """

    def __init__(
        self,
        path: Path | None = None,
        now: Callable[[], float] = time.monotonic,
        buckets: Buckets = DEFAULT_BUCKETS,
    ) -> None:
        self._buckets = buckets
        self.path = path
        self._now = now
        self._lock = threading.Lock()
        self._grow_lock = threading.Lock()
        self._chunks_on_disk = 0
        self._chunk = memoryview(b"")
        self._used = CHUNK_BYTES
        self._made: dict[tuple[Payload, Key], Any] = {}
        self._summaries: dict[Key, Summary] = {}
        self._fd = -1
        self._growing = path is not None
        if path is not None:
            self._create(path)

    def _create(self, path: Path) -> None:
        # Under its final name only once it is locked: an unlocked file is taken for a dead process's.
        unfinished = path.with_suffix(".new")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try_lock(self._fd)
            self._add_chunk()
            unfinished.rename(path)
        except OSError as error:
            self._give_up(error)

    def counter(self, *key: str) -> Number:
        """The counter under this key; 0 if it is new."""
        return self._one(Payload.COUNTER, key, self._number)

    def gauge(self, *key: str) -> Number:
        """The gauge under this key; 0 if it is new."""
        return self._one(Payload.GAUGE, key, self._number)

    def text(self, *key: str) -> Text:
        """The text under this key."""
        return self._one(Payload.TEXT, key, Text)

    def summary(self, name: str, labels: Key, tally_labels: Key = ()) -> Summary:
        """The summary of this name: `name` + labels is its spread; its count and sum also carry the tally labels."""
        tally = (*labels, *tally_labels)
        count, total = self.counter(f"{name}_count", *tally), self.counter(f"{name}_sum", *tally)
        sketch = self._one(Payload.SKETCH, (name, *labels), Sketch)
        histogram = self._one(Payload.HISTOGRAM, (f"{name}_bucket", *tally), _cells)
        with self._grow_lock:
            bounds = self._buckets.of(name)
            made = Summary(count, total, sketch, histogram, bounds, self._now)
            return self._summaries.setdefault((name, *tally), made)

    def close(self) -> None:
        """Give the file up: what it says now is final. What is still counted goes nowhere, harmlessly."""
        fd, self._fd, self._growing = self._fd, -1, False
        if fd >= 0:
            # By hand: the maps hold copies of the descriptor, and with them the lock.
            unlock(fd)
            os.close(fd)

    def _give_up(self, error: OSError) -> None:
        logger.error("Metrics will be missing: %s cannot be written (%s); work goes on", self.path, error)
        self._growing = False

    def _number(self, payload: memoryview) -> Number:
        return Number(payload, self._lock)

    def _one(self, kind: Payload, key: Key, make: Callable[[memoryview], T]) -> T:
        with self._grow_lock:
            if (kind, key) not in self._made:
                self._made[kind, key] = make(self._append(kind, key))
            made: T = self._made[kind, key]
            return made

    def _append(self, kind: Payload, key: Key) -> memoryview:
        name = json.dumps([part[:LABEL_CHARS] for part in key]).encode()
        payload_at = _padded(_RECORD_HEADER.size + len(name))
        size = payload_at + _PAYLOAD_BYTES[kind]
        if self._used + size > CHUNK_BYTES:
            self._add_chunk()
        start = self._used
        record = self._chunk[start : start + size]
        _RECORD_HEADER.pack_into(record, 0, size, kind, len(name))
        record[_RECORD_HEADER.size : _RECORD_HEADER.size + len(name)] = name
        self._used = start + size
        _CHUNK_HEADER.pack_into(self._chunk, 0, _MAGIC, self._used)
        return record[payload_at:]

    def _add_chunk(self) -> None:
        self._chunk = memoryview(self._map_chunk())
        self._used = _CHUNK_HEADER.size
        _CHUNK_HEADER.pack_into(self._chunk, 0, _MAGIC, self._used)

    def _map_chunk(self) -> mmap.mmap:
        if self._growing:
            offset = CHUNK_BYTES * self._chunks_on_disk
            try:
                _set_aside(self._fd, offset, CHUNK_BYTES)
                chunk = mmap.mmap(self._fd, CHUNK_BYTES, offset=offset)
            except OSError as error:
                self._give_up(error)
            else:
                self._chunks_on_disk += 1
                return chunk
        return mmap.mmap(-1, CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class Record:
    """One record as read: the key and the payload's bytes."""

    kind: Payload
    key: Key
    payload: memoryview

    def number(self) -> float:
        """The value of a COUNTER or GAUGE."""
        return float(self.payload.cast("d")[0])

    def counts(self) -> list[float]:
        """The counts of a HISTOGRAM."""
        return list(self.payload.cast("d"))

    def windows(self) -> Iterator[tuple[int, Spread]]:
        """(minute, its spread) of each block in use of a SKETCH."""
        return windows_in(self.payload)

    def text(self) -> str:
        """The value of a TEXT."""
        return text_in(self.payload)


def _cells(payload: memoryview) -> memoryview[float]:
    return payload.cast("d")


def read_records(content: bytes) -> Iterator[Record]:
    """Every record of a file's content; chunks that are torn or not ours end the reading."""
    view = memoryview(content)
    for start in range(0, len(content) - CHUNK_BYTES + 1, CHUNK_BYTES):
        magic, used = _CHUNK_HEADER.unpack_from(view, start)
        if magic != _MAGIC or used > CHUNK_BYTES:
            return
        yield from _records_of_chunk(view[start : start + used])


def _records_of_chunk(chunk: memoryview) -> Iterator[Record]:
    at = _CHUNK_HEADER.size
    while at < len(chunk):
        size, kind, key_length = _RECORD_HEADER.unpack_from(chunk, at)
        name_at = at + _RECORD_HEADER.size
        key = _key_of(bytes(chunk[name_at : name_at + key_length]))
        yield Record(Payload(kind), key, chunk[at + _padded(_RECORD_HEADER.size + key_length) : at + size])
        at += size


@lru_cache(maxsize=4096)
def _key_of(name: bytes) -> Key:
    return tuple(json.loads(name))


def _set_aside(fd: int, offset: int, size: int) -> None:
    """Make room in the file. On a full disk this must fail here: later, a store would be a SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, size)
    else:  # macOS
        os.ftruncate(fd, offset + size)


def _padded(size: int) -> int:
    return (size + 7) // 8 * 8
