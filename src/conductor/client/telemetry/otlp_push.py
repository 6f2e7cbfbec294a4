"""Metrics pushed to an OpenTelemetry collector, for those who do not scrape; OTEL_EXPORTER_OTLP_ENDPOINT says where."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from conductor.telemetry.exposition import Kind, Metric, MetricsUnavailable, Sample

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

logger = logging.getLogger(__name__)

#: Milliseconds between two pushes; OpenTelemetry's own variable, and its default.
INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_MS = 60_000

Families = Iterable[tuple[Metric, Iterable[Sample]]]


class OtlpPush:
    """Pushes what `families` returns, in a thread of its own, and once more at the end.

    Counters, gauges and histograms. Summaries stay here: the histograms beside them say the same.
    """

    def __init__(self, families: Callable[[], Families]) -> None:
        self._families = families
        self._exporter = _exporter()
        self._interval_s = float(os.environ.get(INTERVAL_VARIABLE) or INTERVAL_MS) / 1000
        self._began_ns = time.time_ns()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conductor-otlp", daemon=True)

    def start(self) -> None:
        """Push from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Push the last figures and end."""
        self._stop.set()
        self._thread.join()
        self.push()
        self._exporter.shutdown()

    def push(self) -> None:
        """Push once. The exporter itself says what goes wrong, and tries again."""
        try:
            self._exporter.export(_metrics_data(self._families(), self._began_ns, time.time_ns()))
        # Whatever a collector answers: metrics end no worker.
        except Exception:
            logger.exception("Metrics could not be pushed; trying again")

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.push()


def _exporter() -> OTLPMetricExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise MetricsUnavailable(
            "Pushing metrics needs OpenTelemetry: pip install 'conductor-worker[metrics,otel]'"
        ) from error
    return OTLPMetricExporter()


def _metrics_data(families: Families, began_ns: int, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    found = []
    for metric, samples in families:
        points = _points(metric, list(samples), began_ns, now_ns)
        if points:
            unit = "s" if metric.name.endswith("_seconds") else "By" if metric.name.endswith("_bytes") else "1"
            found.append(export.Metric(metric.name, metric.text, unit, _data(metric, points)))
    scope = export.ScopeMetrics(InstrumentationScope("conductor-worker"), found, "")
    return export.MetricsData([export.ResourceMetrics(Resource.create(), [scope], "")])


def _data(metric: Metric, points: list[Any]) -> Any:
    from opentelemetry.sdk.metrics import export

    since_start = export.AggregationTemporality.CUMULATIVE
    if metric.kind is Kind.COUNTER:
        return export.Sum(points, since_start, is_monotonic=True)
    return export.Gauge(points) if metric.kind is Kind.GAUGE else export.Histogram(points, since_start)


def _points(metric: Metric, samples: list[Sample], began_ns: int, now_ns: int) -> list[Any]:
    from opentelemetry.sdk.metrics import export

    if metric.kind is Kind.SUMMARY:
        return []
    if metric.kind is Kind.HISTOGRAM:
        return _histogram_points(metric, samples, began_ns, now_ns)
    return [export.NumberDataPoint(dict(one.labels), began_ns, now_ns, one.value) for one in samples]


def _histogram_points(metric: Metric, samples: list[Sample], began_ns: int, now_ns: int) -> list[Any]:
    from opentelemetry.sdk.metrics import export

    counts: dict[tuple[str, ...], dict[float, float]] = {}
    sums: dict[tuple[str, ...], float] = {}
    for sample in samples:
        key = tuple(sample.labels[name] for name in metric.labels)
        if sample.name.endswith("_bucket"):
            counts.setdefault(key, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    points = []
    for key, up_to in counts.items():
        rising = list(up_to.values())
        between = [int(now - before) for now, before in zip(rising, [0.0, *rising], strict=False)]
        labels = dict(zip(metric.labels, key, strict=True))
        nan = float("nan")  # the smallest and the largest value are not kept
        points.append(
            export.HistogramDataPoint(
                labels, began_ns, now_ns, int(rising[-1]), sums.get(key, 0.0), between, list(up_to)[:-1], nan, nan
            )
        )
    return points
