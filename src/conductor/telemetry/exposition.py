"""Metrics as Prometheus reads them, for both halves: what a metric is, and the text of a scrape.

The only file that knows prometheus-client.
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

#: What a scrape is answered with unless it asks for OpenMetrics.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_CONTENT_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


class MetricsUnavailable(ImportError):
    """Metrics were asked for and their library is not installed."""


def require_prometheus() -> None:
    """Raise MetricsUnavailable, with what to do, unless prometheus-client can be imported."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MetricsUnavailable(
            "Metrics need the package prometheus-client: pip install 'conductor-worker[metrics]'"
        ) from error


class Kind(IntEnum):
    """How a number grows, and how the numbers of several processes become one."""

    COUNTER = 1
    #: Added over the live processes.
    GAUGE = 2
    #: `name{…,quantile}`, `name_sum` and `name_count`.
    SUMMARY = 3
    #: `name_bucket{…,le}`, `name_sum` and `name_count`: can be added up over hosts.
    HISTOGRAM = 4


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name as Prometheus sees it, its labels in order, and a sentence for people.

    `tally_labels` are labels that only the `_sum` and `_count` of a summary carry, after the others.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    tally_labels: tuple[str, ...] = ()


#: Bounds of histograms: those of Conductor's SDKs, and two more, for tasks that take long.
TIME_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
SIZE_BOUNDS = (100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0)


class Buckets(NamedTuple):
    """The bounds of all histograms of a process."""

    time_s: tuple[float, ...] = TIME_BOUNDS_S
    size: tuple[float, ...] = SIZE_BOUNDS

    def of(self, name: str) -> tuple[float, ...]:
        """Those of the metric with this name."""
        return self.size if name.endswith("_bytes") else self.time_s


DEFAULT_BUCKETS = Buckets()


class Sample(NamedTuple):
    """One line of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class Histogram:
    """How many values were at most as large as each bound, and their sum. Counting is one add."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        #: Of each bound: the values up to it and above the one before; the last is for those above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def histogram_samples(
    name: str, labels: Mapping[str, str], bounds: Sequence[float], counts: Sequence[float], total: float
) -> Iterator[Sample]:
    """The lines of a histogram; `counts` are those between the bounds, with one more for what is above."""
    for bound, count in zip((*bounds, float("inf")), accumulate(counts), strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": "+Inf" if bound == float("inf") else str(float(bound))}, count)
    yield Sample(f"{name}_count", labels, sum(counts))
    yield Sample(f"{name}_sum", labels, total)


def scrape(families: Iterable[tuple[Metric, Iterable[Sample]]], accept: str = "") -> tuple[bytes, str]:
    """The text of a scrape and its content type. `accept` is the header that asked for it."""
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
    """Hands the families that have a sample to prometheus-client."""

    def __init__(self, families: Iterable[tuple[Metric, Iterable[Sample]]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        from prometheus_client import Metric as Family

        for metric, samples in self._families:
            # The library names a counter's family without the suffix, and adds it again.
            family = Family(metric.name.removesuffix("_total"), metric.text, metric.kind.name.lower())
            for sample in samples:
                family.add_sample(sample.name, dict(sample.labels), sample.value)
            if family.samples:
                yield family
