"""Metrics in the text format of Prometheus, for workers and the coordinator.

This is the only module that imports prometheus-client.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

#: The content type of a scrape that does not accept OpenMetrics.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_CONTENT_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


class MetricsUnavailable(ImportError):
    """Metrics are enabled and prometheus-client is not installed."""


def require_prometheus() -> None:
    """Raise `MetricsUnavailable` if prometheus-client cannot be imported."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MetricsUnavailable(
            "Metrics need the package prometheus-client: pip install 'conductor-worker[metrics]'"
        ) from error


class Kind(IntEnum):
    """The kind of a metric, which decides how the values of several processes are combined."""

    #: Values are added up over all processes, running and ended.
    COUNTER = 1
    #: Values are added up over the running processes.
    GAUGE = 2
    #: Exposed as `name{…,quantile}`, `name_sum` and `name_count`.
    SUMMARY = 3
    #: Exposed as `name_bucket{…,le}`, `name_sum` and `name_count`, which can be summed over hosts.
    HISTOGRAM = 4


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    #: The help text.
    text: str
    #: Additional labels that only the `_sum` and `_count` series of a summary have.
    tally_labels: tuple[str, ...] = ()


#: Bucket bounds of histograms: the bounds of Conductor's SDKs, and two more for long tasks.
TIME_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
SIZE_BOUNDS = (100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0)


class Buckets(NamedTuple):
    """The bucket bounds of all histograms of a process."""

    time_s: tuple[float, ...] = TIME_BOUNDS_S
    size: tuple[float, ...] = SIZE_BOUNDS

    def of(self, name: str) -> tuple[float, ...]:
        """Return the bounds for the metric with this name."""
        return self.size if name.endswith("_bytes") else self.time_s


DEFAULT_BUCKETS = Buckets()


class Sample(NamedTuple):
    """The value of a series at the time of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class Histogram:
    """Counts values by bucket and adds them up."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        #: The number of values in each bucket, not cumulative. The last bucket is for values above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def make_histogram_samples(
    name: str, labels: Mapping[str, str], bounds: Sequence[float], counts: Sequence[float], total: float
) -> Iterator[Sample]:
    """Yield the samples of a histogram.

    Args:
        name: The name of the metric.
        labels: The labels of the series.
        bounds: The upper bounds of the buckets.
        counts: The number of values in each bucket, not cumulative. The last bucket is for values above all bounds.
        total: The sum of the values.
    """
    for bound, count in zip((*bounds, float("inf")), accumulate(counts), strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": "+Inf" if bound == float("inf") else str(float(bound))}, count)
    yield Sample(f"{name}_count", labels, sum(counts))
    yield Sample(f"{name}_sum", labels, total)


def scrape(families: Iterable[tuple[Metric, Iterable[Sample]]], accept: str = "") -> tuple[bytes, str]:
    """Return the text and the content type of a scrape whose request has this Accept header."""
    require_prometheus()
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.openmetrics import exposition as openmetrics

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    if OPENMETRICS in accept:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text, OPENMETRICS_CONTENT_TYPE
    return generate_latest(registry), CONTENT_TYPE


class _Collector:
    """Passes all metrics that have samples to prometheus-client."""

    def __init__(self, families: Iterable[tuple[Metric, Iterable[Sample]]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        from prometheus_client import Metric as Family

        for metric, samples in self._families:
            # prometheus-client adds the suffix of a counter itself.
            family = Family(metric.name.removesuffix("_total"), metric.text, metric.kind.name.lower())
            for sample in samples:
                family.add_sample(sample.name, dict(sample.labels), sample.value)
            if family.samples:
                yield family
