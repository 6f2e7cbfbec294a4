"""Metrics pushed to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT."""

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

#: The variable of OpenTelemetry for the milliseconds between two pushes, and its default.
INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_MS = 60_000

Families = Iterable[tuple[Metric, Iterable[Sample]]]


class OtlpPush:
    """A thread that pushes the metrics of `families` periodically and once more at the end.

    Summaries are not pushed, because every summary has a histogram with the same values.
    """

    def __init__(self, families: Callable[[], Families]) -> None:
        self._families = families
        self._exporter = _make_exporter()
        self._interval_s = float(os.environ.get(INTERVAL_VARIABLE) or INTERVAL_MS) / 1000
        self._started_ns = time.time_ns()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conductor-otlp", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and push for the last time."""
        self._stop.set()
        self._thread.join()
        self.push()
        self._exporter.shutdown()

    def push(self) -> None:
        """Push once. The exporter logs failed requests and retries them."""
        try:
            self._exporter.export(_convert_metrics(self._families(), self._started_ns, time.time_ns()))
        # A failed push must not end a worker.
        except Exception:
            logger.exception("Metrics could not be pushed; the next push tries again")

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.push()


def _make_exporter() -> OTLPMetricExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise MetricsUnavailable(
            "Pushing metrics needs OpenTelemetry: pip install 'conductor-worker[metrics,otel]'"
        ) from error
    return OTLPMetricExporter()


def _convert_metrics(families: Families, started_ns: int, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    converted = []
    for metric, samples in families:
        points = _make_points(metric, list(samples), started_ns, now_ns)
        if points:
            unit = "s" if metric.name.endswith("_seconds") else "By" if metric.name.endswith("_bytes") else "1"
            converted.append(export.Metric(metric.name, metric.text, unit, _aggregate(metric, points)))
    scope = export.ScopeMetrics(InstrumentationScope("conductor-worker"), converted, "")
    return export.MetricsData([export.ResourceMetrics(Resource.create(), [scope], "")])


def _aggregate(metric: Metric, points: list[Any]) -> Any:
    from opentelemetry.sdk.metrics import export

    cumulative = export.AggregationTemporality.CUMULATIVE
    if metric.kind is Kind.COUNTER:
        return export.Sum(points, cumulative, is_monotonic=True)
    return export.Gauge(points) if metric.kind is Kind.GAUGE else export.Histogram(points, cumulative)


def _make_points(metric: Metric, samples: list[Sample], started_ns: int, now_ns: int) -> list[Any]:
    from opentelemetry.sdk.metrics import export

    if metric.kind is Kind.SUMMARY:
        return []
    if metric.kind is Kind.HISTOGRAM:
        return _make_histogram_points(metric, samples, started_ns, now_ns)
    return [export.NumberDataPoint(dict(sample.labels), started_ns, now_ns, sample.value) for sample in samples]


def _make_histogram_points(metric: Metric, samples: list[Sample], started_ns: int, now_ns: int) -> list[Any]:
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
    for key, by_bound in counts.items():
        cumulated = list(by_bound.values())
        each = [int(now - before) for now, before in zip(cumulated, [0.0, *cumulated], strict=False)]
        labels = dict(zip(metric.labels, key, strict=True))
        nan = float("nan")  # the smallest and the largest value of a histogram are not known
        points.append(
            export.HistogramDataPoint(
                labels, started_ns, now_ns, int(cumulated[-1]), sums.get(key, 0.0), each, list(by_bound)[:-1], nan, nan
            )
        )
    return points
