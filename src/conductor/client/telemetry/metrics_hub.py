"""Metrics and health of all processes of a handler, in the parent process: served over HTTP or written to a file."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conductor.client.configuration.settings.metrics_settings import MetricsPortError, MetricsSettings
from conductor.client.telemetry import worker_metrics
from conductor.client.telemetry.health import HealthLimits, HealthMonitor
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsPlace
from conductor.client.telemetry.metrics_server import MetricsServer
from conductor.client.telemetry.prometheus_totals import make_families
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.telemetry.exposition import Buckets, Metric, Sample, require_prometheus, scrape

if TYPE_CHECKING:
    from conductor.client.telemetry.otlp_push import OtlpPush

logger = logging.getLogger(__name__)

#: The largest share of one core that writing the metrics file may take, however short the interval is.
MAX_SHARE = 0.1


class MetricsHub:
    """The metrics and the health of one handler.

    With `http_port`, the hub serves `/metrics`, `/health` and `/ready`. Otherwise it writes `directory/file_name`.

    Example:
        hub = MetricsHub(settings)
        hub.start()
        ...                      # each child: ProcessTelemetry(hub.child_settings(), worker="my_task")
        hub.record_process_start("my_task")
        hub.record_process_exit("my_task", exit_code)
        hub.stop()
    """

    def __init__(
        self, settings: MetricsSettings, clock: Clock = SYSTEM_CLOCK, limits: HealthLimits | None = None
    ) -> None:
        require_prometheus()
        self.settings = settings
        self._clock = clock
        self.directory = MetricsDirectory(settings.directory, clock.monotonic, Buckets(settings.buckets))
        self.health = HealthMonitor(self.directory, clock, limits)
        #: Counts the events that the parent process sees.
        self.collector = MetricsCollector.for_process(self.directory.place, clock.monotonic)
        self._server: MetricsServer | None = None
        self._writer: MetricsWriter | None = None
        self._push: OtlpPush | None = None

    @property
    def port(self) -> int | None:
        """The port that is served; None without a server."""
        return self._server.port if self._server else None

    def child_settings(self) -> MetricsPlace:
        """Return the settings for the telemetry of a child process. Picklable."""
        return self.directory.place

    def start(self) -> None:
        """Start to serve the metrics over HTTP or to write them to a file, and to push them if the settings say so.

        Raises:
            MetricsPortError: The port is not available and `settings.optional` is not set.
        """
        if self.settings.otlp:
            from conductor.client.telemetry.otlp_push import OtlpPush

            self._push = OtlpPush(self._make_families)
            self._push.start()
        if self.settings.http_port is None:
            path = self.directory.path / self.settings.file_name
            logger.info("Metrics are written to %s", path)
            self._writer = MetricsWriter(path, self.settings.update_interval, self.render)
            self._writer.start()
        else:
            self._serve(self.settings.host, self.settings.http_port)

    def stop(self) -> None:
        """Stop serving, write for the last time and remove the metric files. `render()` still works."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self.collector.close()
        if self._push is not None:
            self._push.stop()
            self._push = None
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
        self.directory.close()

    def render(self) -> bytes:
        """Return the metrics of all processes in the text format of Prometheus."""
        return self.scrape()[0]

    def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics and their content type for a request with this Accept header."""
        return scrape(self._make_families(), accept)

    def _make_families(self) -> Iterator[tuple[Metric, Iterator[Sample]]]:
        return make_families(
            self.directory.totals(),
            self._clock.monotonic(),
            self.directory.place.buckets,
            canonical=self.settings.canonical,
        )

    def record_process_start(self, worker: str) -> None:
        """Record that a process for this worker was started or restarted."""
        restarted = self.health.record_process_start(worker)
        # The first start creates the counter with 0, because Prometheus misses the first increase of a new counter.
        self.collector.file.counter(worker_metrics.RESTARTS_TOTAL.name, worker).add(int(restarted))

    def record_process_exit(self, worker: str, exit_code: int | None) -> None:
        """Record that a process ended unexpectedly. Its counts stay in the totals."""
        self.health.record_process_exit(worker, exit_code)
        self.directory.collect_ended()

    def record_process_retirement(self) -> None:
        """Record that a process ended after a successor replaced it. Its counts stay in the totals."""
        self.directory.collect_ended()

    def _serve(self, host: str, port: int) -> None:
        server = MetricsServer(host, port, self.scrape, self.health.report)
        try:
            server.start()
        except OSError as error:
            problem = f"cannot listen on {host}:{port} ({error.strerror or error})"
            if not self.settings.optional:
                self.stop()
                # Do not start without this port: the platform's liveness probe would find it closed, and would restart
                # the workers forever.
                raise MetricsPortError(
                    f"metrics and health cannot be served: {problem}. Choose another port, "
                    "or run without them: MetricsSettings(optional=True), --metrics-optional"
                ) from error
            logger.error("Metrics and health are not served: %s; the workers run without them", problem)
            return
        self._server = server
        logger.info("Metrics are served on http://%s:%d/metrics, health on /health and /ready", host, server.port)


class MetricsWriter:
    """A thread that writes the result of `scrape` to a file every `interval_s` seconds.

    The file is replaced as a whole, so readers never see half of it.
    """

    def __init__(self, path: Path, interval_s: float, scrape: Callable[[], bytes]) -> None:
        self.path = path
        self._interval_s = interval_s
        self._scrape = scrape
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False

    def start(self) -> None:
        """Start the thread that writes the metrics."""
        self._thread = threading.Thread(target=self._run, name="conductor-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and write for the last time."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.write()

    def write(self) -> None:
        """Write the file once. The first of several failures in a row is logged."""
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(self._scrape())
            unfinished.replace(self.path)
        except OSError as error:
            if not self._failing:
                logger.error("Metrics cannot be written to %s: %s; the next write tries again", self.path, error)
            self._failing = True
        else:
            self._failing = False

    def _run(self) -> None:
        took_s = 0.0
        while not self._stop.wait(max(self._interval_s, took_s / MAX_SHARE)):
            started = time.thread_time()
            self.write()
            took_s = time.thread_time() - started
