"""Counters, gauges and quantiles of metrics."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.client.telemetry.metric_values import (
    BUCKETS,
    LARGEST,
    SMALLEST,
    bucket_value,
    compute_quantiles,
    find_bucket,
    merge_counts,
)
from conductor.client.telemetry.worker_metrics import QUANTILES


@given(st.floats(min_value=SMALLEST * 1.001, max_value=LARGEST))
def test_a_bucket_stands_for_its_values_within_two_percent(value: float) -> None:
    assert bucket_value(find_bucket(value)) == pytest.approx(value, rel=0.02)


@given(st.floats())
def test_every_float_has_a_bucket(value: float) -> None:
    assert 0 <= find_bucket(value) < BUCKETS


def test_nothing_counted_is_not_a_number() -> None:
    assert all(math.isnan(q) for q in compute_quantiles({}, QUANTILES))


@pytest.mark.parametrize("draw", ["expovariate", "lognormal", "uniform", "two_humps"])
def test_quantiles_are_within_five_percent_of_the_exact_ones(draw: str) -> None:
    rng = random.Random(draw)
    draws = {
        "expovariate": lambda: rng.expovariate(20),
        "lognormal": lambda: rng.lognormvariate(-3, 1.5),
        "uniform": lambda: rng.uniform(0.001, 2.0),
        "two_humps": lambda: rng.gauss(0.01, 0.001) if rng.random() < 0.6 else rng.gauss(3.0, 0.2),
    }
    values = [abs(draws[draw]()) for _ in range(20_000)]
    # As two processes would have counted them.
    counts = merge_counts(Counter(map(find_bucket, half)) for half in (values[::2], values[1::2]))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    exact = [cuts[round(q * 100) - 1] for q in QUANTILES]
    assert compute_quantiles(counts, QUANTILES) == pytest.approx(exact, rel=0.05)
