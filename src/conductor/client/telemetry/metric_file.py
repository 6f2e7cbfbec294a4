"""The numbers of one process, in a memory-mapped file: a store is a few nanoseconds, and `kill -9` loses none of them.

A file is a row of chunks; a chunk is a header (magic, bytes used) and records; a record is its own header (size,
kind, length of the key), the key `["name", "label value", ...]` as JSON, and a payload of eight-byte words:

- COUNTER and GAUGE: one double.
- SKETCH: one block per minute of the last six, each the minute's number and its buckets (see `sketch`).
- TEXT: a length and the bytes.

A record is written before the chunk's used-bytes word says so, hence a reader sees whole records or none. Only the
owner writes; it holds an exclusive `flock` for as long as it lives, which is how others know that it does.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
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

from conductor.client.telemetry.sketch import BUCKETS, LARGEST, OFFSET, SCALE, SMALLEST, Spread, bucket_of

logger = logging.getLogger(__name__)

#: Quantiles are over this many windows of this length, the youngest of them unfinished.
WINDOWS = 6
WINDOW_S = 60.0
#: A text is cut here.
TEXT_BYTES = 248
#: A label value is cut here.
LABEL_CHARS = 200

CHUNK_BYTES = 128 * 1024
_MAGIC = 0x314D5743_00000000  # "CWM1"
_CHUNK_HEADER = struct.Struct("=QQ")
_RECORD_HEADER = struct.Struct("=IHH")
#: The minute's number, then its buckets as 32-bit words.
_WINDOW_BYTES = (8 + 4 * BUCKETS + 7) // 8 * 8

#: Added to the number of a minute where it is stored: 0 is a block that was never used.
_FIRST_MINUTE = 1
_log = math.log

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


_PAYLOAD_BYTES = {
    Payload.COUNTER: 8,
    Payload.GAUGE: 8,
    Payload.SKETCH: WINDOWS * _WINDOW_BYTES,
    Payload.TEXT: 8 + TEXT_BYTES,
}


class Number:
    """One double in the file. There is one object per record, hence it may remember what the record says."""

    __slots__ = ("_cell", "_lock", "value")

    def __init__(self, payload: memoryview, lock: threading.Lock) -> None:
        self._cell = payload.cast("d")
        self._lock = lock
        #: What it says now.
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Count."""
        with self._lock:
            self.value = self._cell[0] = self.value + amount

    def set(self, value: float) -> None:
        """Replace: for gauges."""
        self.value = self._cell[0] = value


class Sketch:
    """How values were spread in each of the last minutes. Whoever adds to it holds the file's lock."""

    __slots__ = ("_minutes", "_windows", "buckets", "minute")

    def __init__(self, payload: memoryview) -> None:
        blocks = [payload[i * _WINDOW_BYTES : (i + 1) * _WINDOW_BYTES] for i in range(WINDOWS)]
        self._minutes = [block[:8].cast("Q") for block in blocks]
        self._windows = [block[8 : 8 + 4 * BUCKETS].cast("I") for block in blocks]
        self.minute = -1.0
        self.buckets = self._windows[0]

    def turn_to(self, minute: float) -> None:
        """Count in another minute from now on."""
        self.minute = minute
        stored = int(minute) + _FIRST_MINUTE
        number, self.buckets = self._minutes[stored % WINDOWS], self._windows[stored % WINDOWS]
        if number[0]:
            # Unnumbered while it is wiped, so that a reader never takes old counts for new ones.
            number[0] = 0
            self.buckets.cast("B")[:] = bytes(4 * BUCKETS)
        number[0] = stored


class Summary:
    """Count and sum of all values ever, and the spread of the recent ones."""

    __slots__ = ("_count", "_count_cell", "_lock", "_now", "_sketch", "_sum", "_sum_cell")

    def __init__(self, count: Number, total: Number, sketch: Sketch, now: Callable[[], float]) -> None:
        self._count_cell, self._sum_cell, self._lock = count._cell, total._cell, count._lock
        self._count = self._sum = 0.0
        self._sketch = sketch
        self._now = now

    def observe(self, value: float) -> None:
        """Count one value. Written for speed: a worker does this several times per task."""
        minute = self._now() // WINDOW_S
        bucket = int(_log(value) * SCALE + OFFSET) if SMALLEST < value < LARGEST else bucket_of(value)
        sketch = self._sketch
        self._lock.acquire()
        try:
            self._count = self._count_cell[0] = self._count + 1.0
            self._sum = self._sum_cell[0] = self._sum + value
            if minute != sketch.minute:
                sketch.turn_to(minute)
            sketch.buckets[bucket] += 1
        finally:
            self._lock.release()


class Text:
    """A short text in the file: the last error, for instance."""

    __slots__ = ("_payload",)

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload

    def set(self, text: str) -> None:
        """Replace it; a long one is cut."""
        data = text.encode("utf-8", "replace")[:TEXT_BYTES]
        self._payload[8 : 8 + len(data)] = data
        self._payload[:8] = struct.pack("=Q", len(data))


class MetricFile:
    """The numbers of this process, on disk under `path` for others to read; without a path, for nobody.

    A disk that fills up or fails stops no worker: one line says so, and counting goes on where nobody reads it.
    """

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
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
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        with self._grow_lock:
            return self._summaries.setdefault((name, *tally), Summary(count, total, sketch, self._now))

    def close(self) -> None:
        """Give the file up: what it says now is final. What is still counted goes nowhere, harmlessly."""
        fd, self._fd, self._growing = self._fd, -1, False
        if fd >= 0:
            # By hand: the maps hold copies of the descriptor, and with them the lock.
            fcntl.flock(fd, fcntl.LOCK_UN)
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

    def windows(self) -> Iterator[tuple[int, Spread]]:
        """(minute, its spread) of each block in use of a SKETCH."""
        for start in range(0, WINDOWS * _WINDOW_BYTES, _WINDOW_BYTES):
            minute = self.payload[start : start + 8].cast("Q")[0]
            if minute:
                yield minute, _spread(bytes(self.payload[start + 8 : start + 8 + 4 * BUCKETS]))

    def text(self) -> str:
        """The value of a TEXT."""
        length = min(self.payload[:8].cast("Q")[0], TEXT_BYTES)
        return bytes(self.payload[8 : 8 + length]).decode("utf-8", "replace")


def current_minute(now_s: float) -> int:
    """The number of the minute that a monotonic time is in, as files store it."""
    return int(now_s // WINDOW_S) + _FIRST_MINUTE


def _spread(words: bytes) -> Spread:
    # Nearly all buckets are empty, on both sides of those in use: skip these at the speed of C.
    first = (len(words) - len(words.lstrip(b"\0"))) // 4
    last = (len(words.rstrip(b"\0")) + 3) // 4
    counts = memoryview(words)[4 * first : 4 * last].cast("I").tolist()
    return {bucket: count for bucket, count in enumerate(counts, first) if count}


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
