"""Totals as Prometheus reads them. The only file that knows prometheus-client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from conductor.client.telemetry import sketch
from conductor.client.telemetry.metric_file import WINDOWS, Key
from conductor.client.telemetry.metrics import METRICS, QUANTILES, Kind, Metric
from conductor.client.telemetry.totals import Totals

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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


def render(totals: Totals, minute: int) -> bytes:
    """The text of a scrape; `minute` is the current one (quantiles look back from it)."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(totals, minute))
    return generate_latest(registry)


class _Collector:
    """Hands the totals to prometheus-client, one family per metric that has a series."""

    def __init__(self, totals: Totals, minute: int) -> None:
        self._totals = totals
        self._oldest_minute = minute - WINDOWS + 1
        self._counters = _by_name(totals.counters)
        self._gauges = _by_name(totals.gauges)
        self._sketches = _by_name(totals.sketches)

    def collect(self) -> Iterator[Family]:
        """Every metric that has a series, in the order of the table."""
        from prometheus_client import Metric as Family

        fill: dict[Kind, Callable[[Family, Metric], None]] = {
            Kind.COUNTER: self._fill_counter,
            Kind.GAUGE: self._fill_gauge,
            Kind.SUMMARY: self._fill_summary,
        }
        for metric in METRICS:
            # The library names a counter's family without the suffix, and adds it again.
            family = Family(metric.name.removesuffix("_total"), metric.text, metric.kind.name.lower())
            fill[metric.kind](family, metric)
            if family.samples:
                yield family

    def _fill_counter(self, family: Family, metric: Metric) -> None:
        for key in self._counters.get(metric.name, ()):
            family.add_sample(metric.name, _labels(metric.labels, key), self._totals.counters[key])

    def _fill_gauge(self, family: Family, metric: Metric) -> None:
        for key in self._gauges.get(metric.name, ()):
            family.add_sample(metric.name, _labels(metric.labels, key), self._totals.gauges[key])

    def _fill_summary(self, family: Family, metric: Metric) -> None:
        for key in self._sketches.get(metric.name, ()):
            spread = self._totals.recent(key, self._oldest_minute)
            labels = _labels(metric.labels, key)
            for quantile, value in zip(QUANTILES, sketch.quantiles(spread, QUANTILES), strict=True):
                family.add_sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        for suffix in ("_count", "_sum"):
            name = metric.name + suffix
            for key in self._counters.get(name, ()):
                labels = _labels(metric.labels + metric.tally_labels, key)
                family.add_sample(name, labels, self._totals.counters[key])


def _by_name(series: Iterable[Key]) -> dict[str, list[Key]]:
    names: dict[str, list[Key]] = {}
    for key in sorted(series):
        names.setdefault(key[0], []).append(key)
    return names


def _labels(names: tuple[str, ...], key: Key) -> dict[str, str]:
    return dict(zip(names, key[1:], strict=True))
