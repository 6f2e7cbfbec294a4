"""The values that a process measures: numbers, summaries and short texts. Each object is a view of its metric file.

Quantiles are computed from a sketch, which does not store the values. A sketch counts values in logarithmic buckets
that are 4 % wide, so a quantile is within 2 % of the true value. Sketches of two processes are merged by adding the
counts of their buckets.
"""

from __future__ import annotations

import math
import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

#: Quantiles cover this many windows of `WINDOW_S` seconds. The newest window is not over yet.
WINDOWS = 6
WINDOW_S = 60.0
#: The maximum length of a stored text. Longer texts are cut.
TEXT_BYTES = 248

#: Values up to this limit count as zero. The limit is a microsecond for times. Seconds and bytes use the same buckets.
SMALLEST = 1e-6
#: The largest value that a sketch distinguishes: three centuries in seconds, or 10 GB in bytes.
LARGEST = 1e10
_BUCKET_WIDTH = 1.04
BUCKETS = math.ceil(math.log(LARGEST / SMALLEST) / math.log(_BUCKET_WIDTH)) + 2
#: `int(log(value) * _SCALE + _OFFSET)` is the bucket of a value.
_SCALE = 1.0 / math.log(_BUCKET_WIDTH)
_OFFSET = 1.0 - math.log(SMALLEST) * _SCALE

#: The largest number of bounds of a histogram. Its record has one more count, for values above all bounds.
MAX_BOUNDS = 32
HISTOGRAM_BYTES = 8 * (MAX_BOUNDS + 1)

_WINDOW_HEADER_BYTES = 8
_BUCKET_BYTES = 4 * BUCKETS
#: A window consists of the number of its minute and its bucket counts as 32-bit words, padded to 8 bytes.
_WINDOW_BYTES = (_WINDOW_HEADER_BYTES + _BUCKET_BYTES + 7) // 8 * 8
SKETCH_BYTES = WINDOWS * _WINDOW_BYTES
#: Added to the number of a stored minute, because 0 marks a window that was never used.
_FIRST_MINUTE = 1

#: The number of values by bucket. Empty buckets are left out.
BucketCounts = dict[int, int]


def find_bucket(value: float) -> int:
    """Return the bucket of a value. Bucket 0 is for zero and NaN, the last bucket for values above `LARGEST`."""
    if not value > SMALLEST:
        return 0
    return int(math.log(min(value, LARGEST)) * _SCALE + _OFFSET)


def bucket_value(bucket: int) -> float:
    """Return the value that represents a bucket. It differs by at most 2 % from every value in the bucket."""
    if bucket == 0:
        return 0.0
    lower = SMALLEST * _BUCKET_WIDTH ** (bucket - 1)
    return lower * 2 * _BUCKET_WIDTH / (1 + _BUCKET_WIDTH)


def merge_counts(sketches: Iterable[BucketCounts]) -> BucketCounts:
    """Return the sum of several sketches."""
    merged: BucketCounts = {}
    for counts in sketches:
        for bucket, count in counts.items():
            merged[bucket] = merged.get(bucket, 0) + count
    return merged


def compute_quantiles(counts: BucketCounts, quantiles: Sequence[float]) -> list[float]:
    """Return the value of each quantile, or NaN for all of them if no value was counted."""
    if not counts:
        return [math.nan] * len(quantiles)
    buckets = sorted(counts)
    sums = list(accumulate(counts[bucket] for bucket in buckets))
    return [bucket_value(buckets[bisect_left(sums, max(1.0, q * sums[-1]))]) for q in quantiles]


def minute_number(now_s: float) -> int:
    """Return the number under which sketches store the minute of a monotonic time."""
    return int(now_s // WINDOW_S) + _FIRST_MINUTE


class Number:
    """A counter or a gauge."""

    __slots__ = ("_lock", "cell")

    def __init__(self, payload: memoryview, lock: threading.Lock) -> None:
        self.cell = payload.cast("d")
        self._lock = lock

    @property
    def value(self) -> float:
        """The current value."""
        return self.cell[0]

    def add(self, amount: float = 1.0) -> None:
        """Increase the value."""
        with self._lock:
            self.cell[0] += amount

    def set(self, value: float) -> None:
        """Replace the value of a gauge."""
        self.cell[0] = value


class Sketch:
    """The bucket counts of the last `WINDOWS` minutes. The caller holds the lock of the file."""

    __slots__ = ("_minutes", "_windows", "counts", "minute")

    def __init__(self, payload: memoryview) -> None:
        windows = [payload[start : start + _WINDOW_BYTES] for start in range(0, SKETCH_BYTES, _WINDOW_BYTES)]
        self._minutes = [window[:_WINDOW_HEADER_BYTES].cast("Q") for window in windows]
        self._windows = [window[_WINDOW_HEADER_BYTES:][:_BUCKET_BYTES].cast("I") for window in windows]
        #: The minute that `counts` belongs to.
        self.minute = -1
        self.counts = self._windows[0]

    def start_minute(self, minute: int) -> None:
        """Replace the oldest window by an empty window for this minute, and count in it from now on."""
        self.minute = minute
        number, self.counts = self._minutes[minute % WINDOWS], self._windows[minute % WINDOWS]
        # Another `Sketch` on the same memory may have started this minute already; its counts must be kept.
        if number[0] != minute:
            # The number is 0 while the window is cleared, so that a reader never takes old counts for new ones.
            number[0] = 0
            self.counts.cast("B")[:] = bytes(_BUCKET_BYTES)
            number[0] = minute


class Summary:
    """Counts all values by histogram bucket, adds them to a sum, and counts recent values in a sketch."""

    __slots__ = ("_bounds", "_count", "_histogram", "_lock", "_now", "_sketch", "_sum")

    def __init__(
        self,
        count: Number,
        total: Number,
        sketch: Sketch,
        histogram: memoryview[float],
        bounds: Sequence[float],
        now: Callable[[], float],
        lock: threading.Lock,
    ) -> None:
        self._count, self._sum = count.cell, total.cell
        self._sketch = sketch
        self._histogram, self._bounds = histogram, bounds
        self._now = now
        self._lock = lock

    def observe(self, value: float) -> None:
        """Count a value."""
        minute = int(self._now() // WINDOW_S) + _FIRST_MINUTE
        bucket = find_bucket(value)
        cell = bisect_left(self._bounds, value)
        sketch = self._sketch
        with self._lock:
            self._count[0] += 1.0
            self._sum[0] += value
            self._histogram[cell] += 1.0
            if minute != sketch.minute:
                sketch.start_minute(minute)
            sketch.counts[bucket] += 1


class Text:
    """A short text, such as the last error."""

    __slots__ = ("_payload",)

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload

    def set(self, text: str) -> None:
        """Replace the text. Text beyond `TEXT_BYTES` is cut."""
        data = text.encode("utf-8", "replace")[:TEXT_BYTES]
        self._payload[8 : 8 + len(data)] = data
        self._payload[:8] = struct.pack("=Q", len(data))


def read_windows(payload: memoryview) -> Iterator[tuple[int, BucketCounts]]:
    """Yield the minute and the counts of each window of a sketch that is in use."""
    for start in range(0, SKETCH_BYTES, _WINDOW_BYTES):
        window = payload[start : start + _WINDOW_BYTES]
        minute = window[:_WINDOW_HEADER_BYTES].cast("Q")[0]
        if minute:
            words = bytes(window[_WINDOW_HEADER_BYTES:][:_BUCKET_BYTES])
            # Nearly all buckets are empty. Remove empty ones from both ends first, because the loop in Python is slow.
            first = (len(words) - len(words.lstrip(b"\0"))) // 4
            last = (len(words.rstrip(b"\0")) + 3) // 4
            counts = memoryview(words)[4 * first : 4 * last].cast("I").tolist()
            yield minute, {bucket: count for bucket, count in enumerate(counts, first) if count}


def read_text(payload: memoryview) -> str:
    """Return the text that `Text.set` wrote."""
    length = min(payload[:8].cast("Q")[0], TEXT_BYTES)
    return bytes(payload[8 : 8 + length]).decode("utf-8", "replace")
