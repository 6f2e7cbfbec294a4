"""Quantiles without keeping the values: logarithmic buckets, each 4 % wide, so an answer is within 2 % of the truth.

Counts of two processes are added bucket by bucket; that is all it takes to merge them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

#: Up to here a value counts as zero: a microsecond. From here on up: one scale serves seconds and bytes.
SMALLEST = 1e-6
#: What is larger counts as this: three centuries, or 10 GB.
LARGEST = 1e10
_WIDTH = 1.04
BUCKETS = math.ceil(math.log(LARGEST / SMALLEST) / math.log(_WIDTH)) + 2
#: `int(log(value) * SCALE + OFFSET)` is the bucket of a value between the two.
SCALE = 1.0 / math.log(_WIDTH)
OFFSET = 1.0 - math.log(SMALLEST) * SCALE

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
