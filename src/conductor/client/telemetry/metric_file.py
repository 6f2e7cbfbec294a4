"""The metrics of one process in a memory-mapped file: an update takes nanoseconds, and `kill -9` loses no count.

Sending snapshots to the parent once a second would need less code, but would lose the counts of the last second before
a process is killed, which matter most. prometheus-client has a similar multiprocess mode; docs/lab-notes.md says
why it is not used.

A file is a sequence of chunks. A chunk is a header (magic, bytes used) and records. A record is a header (size, kind,
length of the key), the key `["name", "label value", ...]` as JSON, and a payload of eight-byte words:

- COUNTER and GAUGE: one double.
- SKETCH: one block for each of the last six minutes, with the number of the minute and its buckets.
- HISTOGRAM: one double per bucket. The reader knows the bounds.
- TEXT: a length and the bytes.

The owner writes a record before it increases the used bytes in the header of the chunk, so a reader sees whole records
only. Only the process that owns the file writes to it. The owner holds an exclusive `flock` until it ends, so readers
can find out whether it is alive.
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

from conductor.client.telemetry.metric_values import (
    HISTOGRAM_BYTES,
    SKETCH_BYTES,
    TEXT_BYTES,
    BucketCounts,
    Number,
    Sketch,
    Summary,
    Text,
    read_text,
    read_windows,
)
from conductor.common.machine import try_lock, unlock
from conductor.telemetry.exposition import DEFAULT_BUCKETS, Buckets

logger = logging.getLogger(__name__)

#: The maximum length of a label value. Longer values are cut.
LABEL_CHARS = 200

CHUNK_BYTES = 128 * 1024
_MAGIC = 0x314D5743_00000000  # "CWM1"
_CHUNK_HEADER = struct.Struct("=QQ")
_RECORD_HEADER = struct.Struct("=IHH")

#: The name of a metric and its label values.
Key = tuple[str, ...]


class Payload(IntEnum):
    """The kind of a record. Counters, sketches and histograms outlive their process; gauges and texts do not."""

    COUNTER = 1
    GAUGE = 2
    SKETCH = 3
    TEXT = 4
    HISTOGRAM = 5


_PAYLOAD_BYTES = {
    Payload.COUNTER: 8,
    Payload.GAUGE: 8,
    Payload.SKETCH: SKETCH_BYTES,
    Payload.TEXT: 8 + TEXT_BYTES,
    Payload.HISTOGRAM: HISTOGRAM_BYTES,
}


class MetricFile:
    """Writes the metrics of this process to the file `path`, or to private memory without a path.

    A full or broken disk does not stop a worker: the file logs the error once and continues in private memory.
    """

    def __init__(
        self,
        path: Path | None = None,
        now: Callable[[], float] = time.monotonic,
        buckets: Buckets = DEFAULT_BUCKETS,
    ) -> None:
        self.path = path
        self._now = now
        self._buckets = buckets
        #: Guards the values of counters and summaries.
        self._value_lock = threading.Lock()
        #: Guards the records and chunks.
        self._grow_lock = threading.Lock()
        self._payloads: dict[tuple[Payload, Key], memoryview] = {}
        self._chunks_on_disk = 0
        self._chunk = memoryview(b"")
        self._used = CHUNK_BYTES
        self._fd = -1
        self._is_on_disk = path is not None
        if path is not None:
            self._create(path)

    def _create(self, path: Path) -> None:
        # Lock the file before it gets its final name. Readers treat an unlocked file as that of a dead process.
        unfinished = path.with_suffix(".new")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try_lock(self._fd)
            self._add_chunk()
            unfinished.rename(path)
        except OSError as error:
            self._stop_writing(error)

    def counter(self, *key: str) -> Number:
        """Return the counter with this name and these label values."""
        return Number(self._find_payload(Payload.COUNTER, key), self._value_lock)

    def gauge(self, *key: str) -> Number:
        """Return the gauge with this name and these label values."""
        return Number(self._find_payload(Payload.GAUGE, key), self._value_lock)

    def text(self, *key: str) -> Text:
        """Return the stored text, such as the last error, with this name and these label values."""
        return Text(self._find_payload(Payload.TEXT, key))

    def summary(self, name: str, labels: Key, tally_labels: Key = ()) -> Summary:
        """Return the summary with this name.

        Its sketch has `labels`; count, sum and histogram also have `tally_labels`.
        """
        tally = (*labels, *tally_labels)
        return Summary(
            self.counter(f"{name}_count", *tally),
            self.counter(f"{name}_sum", *tally),
            Sketch(self._find_payload(Payload.SKETCH, (name, *labels))),
            self._find_payload(Payload.HISTOGRAM, (f"{name}_bucket", *tally)).cast("d"),
            self._buckets.of(name),
            self._now,
            self._value_lock,
        )

    def close(self) -> None:
        """Release the lock of the file. Later values are only kept in memory, so the content of the file is final."""
        fd, self._fd, self._is_on_disk = self._fd, -1, False
        if fd >= 0:
            # The memory maps hold copies of the descriptor, so closing this descriptor would not release the lock.
            unlock(fd)
            os.close(fd)

    def _stop_writing(self, error: OSError) -> None:
        logger.error("Metrics cannot be written to %s: %s; the worker continues without them", self.path, error)
        self._is_on_disk = False

    def _find_payload(self, kind: Payload, key: Key) -> memoryview:
        with self._grow_lock:
            payload = self._payloads.get((kind, key))
            if payload is None:
                payload = self._payloads[kind, key] = self._append(kind, key)
            return payload

    def _append(self, kind: Payload, key: Key) -> memoryview:
        name = json.dumps([part[:LABEL_CHARS] for part in key]).encode()
        payload_at = _pad(_RECORD_HEADER.size + len(name))
        size = payload_at + _PAYLOAD_BYTES[kind]
        if self._used + size > CHUNK_BYTES:
            self._add_chunk()
        record = self._chunk[self._used : self._used + size]
        _RECORD_HEADER.pack_into(record, 0, size, kind, len(name))
        record[_RECORD_HEADER.size : _RECORD_HEADER.size + len(name)] = name
        self._used += size
        _CHUNK_HEADER.pack_into(self._chunk, 0, _MAGIC, self._used)
        return record[payload_at:]

    def _add_chunk(self) -> None:
        self._chunk = memoryview(self._map_chunk())
        self._used = _CHUNK_HEADER.size
        _CHUNK_HEADER.pack_into(self._chunk, 0, _MAGIC, self._used)

    def _map_chunk(self) -> mmap.mmap:
        if self._is_on_disk:
            offset = CHUNK_BYTES * self._chunks_on_disk
            try:
                _reserve(self._fd, offset, CHUNK_BYTES)
                chunk = mmap.mmap(self._fd, CHUNK_BYTES, offset=offset)
            except OSError as error:
                self._stop_writing(error)
            else:
                self._chunks_on_disk += 1
                return chunk
        return mmap.mmap(-1, CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read from a file."""

    kind: Payload
    key: Key
    payload: memoryview

    def number(self) -> float:
        """Return the value of a COUNTER or GAUGE."""
        return float(self.payload.cast("d")[0])

    def counts(self) -> list[float]:
        """Return the counts of a HISTOGRAM."""
        return list(self.payload.cast("d"))

    def windows(self) -> Iterator[tuple[int, BucketCounts]]:
        """Yield the minute and the counts of each window of a SKETCH that is in use."""
        return read_windows(self.payload)

    def text(self) -> str:
        """Return the value of a metric of the kind TEXT."""
        return read_text(self.payload)


def read_records(content: bytes) -> Iterator[Record]:
    """Yield the records of a file. Reading ends at a chunk that is incomplete or has another format."""
    view = memoryview(content)
    for start in range(0, len(content) - CHUNK_BYTES + 1, CHUNK_BYTES):
        magic, used = _CHUNK_HEADER.unpack_from(view, start)
        if magic != _MAGIC or used > CHUNK_BYTES:
            return
        at, end = start + _CHUNK_HEADER.size, start + used
        while at < end:
            size, kind, key_length = _RECORD_HEADER.unpack_from(view, at)
            key_at = at + _RECORD_HEADER.size
            key = _decode_key(bytes(view[key_at : key_at + key_length]))
            yield Record(Payload(kind), key, view[at + _pad(_RECORD_HEADER.size + key_length) : at + size])
            at += size


@lru_cache(maxsize=4096)
def _decode_key(name: bytes) -> Key:
    return tuple(json.loads(name))


def _reserve(fd: int, offset: int, size: int) -> None:
    """Allocate disk space. On a full disk this call must fail, because a later store would raise SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, size)
    else:  # macOS
        os.ftruncate(fd, offset + size)


def _pad(size: int) -> int:
    return (size + 7) // 8 * 8
