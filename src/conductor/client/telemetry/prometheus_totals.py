"""The totals of all processes as series of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conductor.client.telemetry.metric_file import Key
from conductor.client.telemetry.metric_values import WINDOWS, compute_quantiles, minute_number
from conductor.client.telemetry.metrics_directory import Totals
from conductor.client.telemetry.worker_metrics import (
    CANONICAL,
    FAILED,
    FAILURE,
    HISTOGRAMS,
    METRICS,
    QUANTILES,
    CanonicalMetric,
)
from conductor.telemetry.exposition import Buckets, Kind, Metric, Sample, make_histogram_samples

_SUMMARY_OF = {histogram: summary for summary, histogram in HISTOGRAMS.items()}


def make_families(
    totals: Totals, now_s: float, buckets: Buckets, *, canonical: bool = False
) -> Iterator[tuple[Metric, Iterator[Sample]]]:
    """Yield every metric with its samples.

    Args:
        totals: The sums over all processes.
        now_s: The current monotonic time, at which the period of the quantiles ends.
        buckets: The bounds of the histograms.
        canonical: Use the metric names that all SDKs of Conductor share.
    """
    families = _Families(totals, minute_number(now_s), buckets)
    replaced = {one.source for one in CANONICAL} | set(HISTOGRAMS.values()) if canonical else set()
    for metric in METRICS:
        if metric not in replaced:
            yield metric, families.make_samples(metric)
    for one in CANONICAL if canonical else ():
        yield one.metric, families.make_canonical_samples(one)


class _Families:
    """Makes the samples of each metric."""

    def __init__(self, totals: Totals, minute: int, buckets: Buckets) -> None:
        self._totals = totals
        self._buckets = buckets
        self._oldest_minute = minute - WINDOWS + 1
        self._counters = _group_by_name(totals.counters)
        self._gauges = _group_by_name(totals.gauges)
        self._histograms = _group_by_name(totals.histograms)
        self._sketches = _group_by_name(totals.sketches)

    def make_samples(self, metric: Metric) -> Iterator[Sample]:
        if metric.kind is Kind.COUNTER:
            return self._counter(metric.name, metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            return self._histogram(metric, _SUMMARY_OF[metric])
        return self._gauge(metric) if metric.kind is Kind.GAUGE else self._summary(metric)

    def make_canonical_samples(self, canonical: CanonicalMetric) -> Iterator[Sample]:
        if canonical.metric.kind is Kind.HISTOGRAM:
            for sample in self._histogram(canonical.metric, canonical.source):
                labels = {**sample.labels, **dict(canonical.fixed_labels)}
                if labels.get("status") == FAILED:
                    labels["status"] = FAILURE
                yield sample._replace(labels=labels)
        else:
            for sample in self.make_samples(canonical.source):
                yield sample._replace(name=canonical.metric.name)

    def _histogram(self, metric: Metric, source: Metric) -> Iterator[Sample]:
        bounds = self._buckets.of(source.name)
        for key in self._histograms.get(f"{source.name}_bucket", ()):
            labels = _label(source.labels + source.tally_labels, key)
            counts = self._totals.histograms[key][: len(bounds) + 1]
            total = self._totals.counters.get((f"{source.name}_sum", *key[1:]), 0.0)
            yield from make_histogram_samples(metric.name, labels, bounds, counts, total)

    def _counter(self, name: str, labels: tuple[str, ...]) -> Iterator[Sample]:
        for key in self._counters.get(name, ()):
            yield Sample(name, _label(labels, key), self._totals.counters[key])

    def _gauge(self, metric: Metric) -> Iterator[Sample]:
        for key in self._gauges.get(metric.name, ()):
            yield Sample(metric.name, _label(metric.labels, key), self._totals.gauges[key])

    def _summary(self, metric: Metric) -> Iterator[Sample]:
        for key in self._sketches.get(metric.name, ()):
            counts = self._totals.merge_minutes(key, self._oldest_minute)
            labels = _label(metric.labels, key)
            for quantile, value in zip(QUANTILES, compute_quantiles(counts, QUANTILES), strict=True):
                yield Sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        for suffix in ("_count", "_sum"):
            yield from self._counter(metric.name + suffix, metric.labels + metric.tally_labels)


def _group_by_name(series: Iterable[Key]) -> dict[str, list[Key]]:
    names: dict[str, list[Key]] = {}
    for key in sorted(series):
        names.setdefault(key[0], []).append(key)
    return names


def _label(names: tuple[str, ...], key: Key) -> dict[str, str]:
    return dict(zip(names, key[1:], strict=True))
