"""The totals of all processes as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from conductor.client.telemetry.metric_file import Key
from conductor.client.telemetry.metric_values import WINDOWS, quantiles
from conductor.client.telemetry.metrics_directory import Totals
from conductor.client.telemetry.worker_metrics import (
    CANONICAL,
    FAILED,
    FAILURE,
    HISTOGRAMS,
    METRICS,
    QUANTILES,
    Canonical,
)
from conductor.telemetry.exposition import (
    DEFAULT_BUCKETS,
    Buckets,
    Kind,
    Metric,
    Sample,
    make_histogram_samples,
    scrape,
)

NO_LABELS: Mapping[str, str] = {}
_SUMMARY_OF = {histogram: summary for summary, histogram in HISTOGRAMS.items()}


def render(
    totals: Totals, minute: int, accept: str = "", *, buckets: Buckets = DEFAULT_BUCKETS, canonical: bool = False
) -> tuple[bytes, str]:
    """The text of a scrape and its content type; `minute` is the current one (quantiles look back from it)."""
    return scrape(families(totals, minute, buckets=buckets, canonical=canonical), accept)


def families(
    totals: Totals, minute: int, *, buckets: Buckets = DEFAULT_BUCKETS, canonical: bool = False
) -> Iterator[tuple[Metric, Iterator[Sample]]]:
    """Every metric and its series; `canonical` is under the names that all of Conductor's SDKs use."""
    found = _Families(totals, minute, buckets)
    replaced = {one.source for one in CANONICAL} | set(HISTOGRAMS.values()) if canonical else set()
    for metric in METRICS:
        if metric not in replaced:
            yield metric, found.samples_of(metric)
    for one in CANONICAL if canonical else ():
        yield one.metric, found.canonical(one)


class _Families:
    """The samples of each metric."""

    def __init__(self, totals: Totals, minute: int, buckets: Buckets) -> None:
        self._totals = totals
        self._buckets = buckets
        self._histograms = _by_name(totals.histograms)
        self._oldest_minute = minute - WINDOWS + 1
        self._counters = _by_name(totals.counters)
        self._gauges = _by_name(totals.gauges)
        self._sketches = _by_name(totals.sketches)

    def samples_of(self, metric: Metric) -> Iterator[Sample]:
        """Every series of a metric."""
        if metric.kind is Kind.COUNTER:
            return self._counter(metric.name, metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            return self._histogram(metric, _SUMMARY_OF[metric])
        return self._gauge(metric) if metric.kind is Kind.GAUGE else self._summary(metric)

    def canonical(self, one: Canonical) -> Iterator[Sample]:
        """Every series of a metric under its canonical name."""
        if one.metric.kind is Kind.HISTOGRAM:
            yield from self._histogram(one.metric, one.source, dict(one.fixed))
            return
        for sample in self.samples_of(one.source):
            yield sample._replace(name=one.metric.name)

    def _histogram(self, metric: Metric, source: Metric, fixed: Mapping[str, str] = NO_LABELS) -> Iterator[Sample]:
        bounds = self._buckets.of(source.name)
        for key in self._histograms.get(f"{source.name}_bucket", ()):
            labels = {**_labels(source.labels + source.tally_labels, key), **fixed}
            if metric is not HISTOGRAMS[source] and labels.get("status") == FAILED:
                labels["status"] = FAILURE
            counts = self._totals.histograms[key][: len(bounds) + 1]
            total = self._totals.counters.get((f"{source.name}_sum", *key[1:]), 0.0)
            yield from make_histogram_samples(metric.name, labels, bounds, counts, total)

    def _counter(self, name: str, labels: tuple[str, ...]) -> Iterator[Sample]:
        for key in self._counters.get(name, ()):
            yield Sample(name, _labels(labels, key), self._totals.counters[key])

    def _gauge(self, metric: Metric) -> Iterator[Sample]:
        for key in self._gauges.get(metric.name, ()):
            yield Sample(metric.name, _labels(metric.labels, key), self._totals.gauges[key])

    def _summary(self, metric: Metric) -> Iterator[Sample]:
        for key in self._sketches.get(metric.name, ()):
            spread = self._totals.recent(key, self._oldest_minute)
            labels = _labels(metric.labels, key)
            for quantile, value in zip(QUANTILES, quantiles(spread, QUANTILES), strict=True):
                yield Sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        for suffix in ("_count", "_sum"):
            yield from self._counter(metric.name + suffix, metric.labels + metric.tally_labels)


def _by_name(series: Iterable[Key]) -> dict[str, list[Key]]:
    names: dict[str, list[Key]] = {}
    for key in sorted(series):
        names.setdefault(key[0], []).append(key)
    return names


def _labels(names: tuple[str, ...], key: Key) -> dict[str, str]:
    return dict(zip(names, key[1:], strict=True))
