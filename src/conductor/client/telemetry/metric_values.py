"""What a process counts in: numbers, summaries and short texts, each a view on a few bytes of its metric file.

Quantiles come without keeping the values: a sketch counts them in logarithmic buckets, each 4 % wide, so an answer is
within 2 % of the truth. Sketches of two processes are added bucket by bucket; that is all it takes to merge them.
"""

from __future__ import annotations

import math
import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

#: Quantiles are over this many windows of this length, the youngest of them unfinished.
WINDOWS = 6
WINDOW_S = 60.0
#: A text is cut here.
TEXT_BYTES = 248

#: Up to here a value counts as zero: a microsecond. From here on up: one scale serves seconds and bytes.
SMALLEST = 1e-6
#: What is larger counts as this: three centuries, or 10 GB.
LARGEST = 1e10
_WIDTH = 1.04
BUCKETS = math.ceil(math.log(LARGEST / SMALLEST) / math.log(_WIDTH)) + 2
#: `int(log(value) * SCALE + OFFSET)` is the bucket of a value between the two.
SCALE = 1.0 / math.log(_WIDTH)
OFFSET = 1.0 - math.log(SMALLEST) * SCALE

#: Bounds of a histogram at most; a record of the file has room for one count more.
MAX_BOUNDS = 32
HISTOGRAM_BYTES = 8 * (MAX_BOUNDS + 1)

#: Of one window: the number of its minute, then its buckets as 32-bit words.
_WINDOW_BYTES = (8 + 4 * BUCKETS + 7) // 8 * 8
#: Of a whole sketch.
SKETCH_BYTES = WINDOWS * _WINDOW_BYTES
#: Added to the number of a minute where it is stored: 0 is a block that was never used.
_FIRST_MINUTE = 1
_log = math.log

#: How many values were counted in which bucket; empty ones are not in it.
Spread = dict[int, int]


def bucket_of(value: float) -> int:
    """The bucket a value falls into; bucket 0 is zero, and what is too large goes into the last."""
    if not value > SMALLEST:  # a NaN too
        return 0
    return int(math.log(min(value, LARGEST)) * SCALE + OFFSET)


def value_of(bucket: int) -> float:
    """The value that stands for a bucket: at most 2 % from any value in it."""
    if bucket == 0:
        return 0.0
    lower = SMALLEST * _WIDTH ** (bucket - 1)
    return lower * 2 * _WIDTH / (1 + _WIDTH)


def merge(spreads: Iterable[Spread]) -> Spread:
    """Their sum."""
    merged: Spread = {}
    for spread in spreads:
        for bucket, count in spread.items():
            merged[bucket] = merged.get(bucket, 0) + count
    return merged


def quantiles(spread: Spread, wanted: Sequence[float]) -> list[float]:
    """The value below which each wanted share of the counted values lies; NaN for all if nothing was counted."""
    if not spread:
        return [math.nan] * len(wanted)
    buckets = sorted(spread)
    sums = list(accumulate(spread[bucket] for bucket in buckets))
    return [value_of(buckets[bisect_left(sums, max(1.0, q * sums[-1]))]) for q in wanted]


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
    """Count and sum of all values ever, how many lie between which bounds, and the spread of the recent ones."""

    __slots__ = ("_bounds", "_cells", "_count", "_count_cell", "_lock", "_now", "_sketch", "_sum", "_sum_cell")

    def __init__(
        self,
        count: Number,
        total: Number,
        sketch: Sketch,
        histogram: memoryview[float],
        bounds: Sequence[float],
        now: Callable[[], float],
    ) -> None:
        self._bounds, self._cells = bounds, histogram
        self._count_cell, self._sum_cell, self._lock = count._cell, total._cell, count._lock
        self._count = self._sum = 0.0
        self._sketch = sketch
        self._now = now

    def observe(self, value: float) -> None:
        """Count one value. Written for speed: a worker does this several times per task."""
        minute = self._now() // WINDOW_S
        bucket = int(_log(value) * SCALE + OFFSET) if SMALLEST < value < LARGEST else bucket_of(value)
        cell = bisect_left(self._bounds, value)
        sketch = self._sketch
        self._lock.acquire()
        try:
            self._count = self._count_cell[0] = self._count + 1.0
            self._sum = self._sum_cell[0] = self._sum + value
            if minute != sketch.minute:
                sketch.turn_to(minute)
            sketch.buckets[bucket] += 1
            self._cells[cell] += 1.0
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


def windows_in(sketch: memoryview) -> Iterator[tuple[int, Spread]]:
    """(minute, its spread) of each window in use, from the bytes of a sketch."""
    for start in range(0, SKETCH_BYTES, _WINDOW_BYTES):
        minute = sketch[start : start + 8].cast("Q")[0]
        if minute:
            yield minute, _spread(bytes(sketch[start + 8 : start + 8 + 4 * BUCKETS]))


def _spread(words: bytes) -> Spread:
    # Nearly all buckets are empty, on both sides of those in use: skip these at the speed of C.
    first = (len(words) - len(words.lstrip(b"\0"))) // 4
    last = (len(words.rstrip(b"\0")) + 3) // 4
    counts = memoryview(words)[4 * first : 4 * last].cast("I").tolist()
    return {bucket: count for bucket, count in enumerate(counts, first) if count}


def text_in(payload: memoryview) -> str:
    """The text, from the bytes that `Text.set` wrote."""
    length = min(payload[:8].cast("Q")[0], TEXT_BYTES)
    return bytes(payload[8 : 8 + length]).decode("utf-8", "replace")


def current_minute(now_s: float) -> int:
    """The number of the minute that a monotonic time is in, as sketches store it."""
    return int(now_s // WINDOW_S) + _FIRST_MINUTE
