"""The parent's side of metrics and health: gathers what all processes count, and shows it to the world."""

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
from conductor.client.telemetry.health import Health, HealthLimits
from conductor.client.telemetry.metric_values import current_minute
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsPlace
from conductor.client.telemetry.metrics_server import MetricsServer
from conductor.client.telemetry.prometheus_totals import families, render
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.telemetry.exposition import Buckets, Metric, Sample, require_prometheus

if TYPE_CHECKING:
    from conductor.client.telemetry.otlp_push import OtlpPush

logger = logging.getLogger(__name__)

#: Writing may take this share of one core, however short the interval.
MAX_SHARE = 0.1


class MetricsHub:
    """One per handler.

        hub = MetricsHub(settings)
        hub.start()
        ...                      # each child: ProcessTelemetry(hub.child_settings(), worker="my_task")
        hub.process_started("my_task")
        hub.process_exited("my_task", exit_code)
        hub.stop()

    With `http_port` it serves `/metrics`, `/health` and `/ready`; without, it writes `directory/file_name`.
    """

    def __init__(
        self, settings: MetricsSettings, clock: Clock = SYSTEM_CLOCK, limits: HealthLimits | None = None
    ) -> None:
        require_prometheus()
        self.settings = settings
        self._clock = clock
        self.directory = MetricsDirectory(settings.directory, clock.monotonic, Buckets(settings.buckets))
        self.health = Health(self.directory, clock, limits)
        self._own = MetricsCollector.for_process(self.directory.place, clock.monotonic)
        self._server: MetricsServer | None = None
        self._writer: MetricsWriter | None = None
        self._push: OtlpPush | None = None

    @property
    def collector(self) -> MetricsCollector:
        """Counts what the program itself sees of its worker processes."""
        return self._own

    @property
    def port(self) -> int | None:
        """The port that is served, if any."""
        return self._server.port if self._server else None

    def child_settings(self) -> MetricsPlace:
        """What a child process needs to take part. Picklable."""
        return self.directory.place

    def start(self) -> None:
        """Begin to serve or to write. Raises MetricsPortError for a port that cannot be had, unless it is optional."""
        if self.settings.otlp:
            from conductor.client.telemetry.otlp_push import OtlpPush

            self._push = OtlpPush(self._families)
            self._push.start()
        if self.settings.http_port is None:
            path = self.directory.path / self.settings.file_name
            logger.info("Metrics are written to %s", path)
            self._writer = MetricsWriter(path, self.settings.update_interval, self.render)
            self._writer.start()
        else:
            self._serve(self.settings.host, self.settings.http_port)

    def stop(self) -> None:
        """Stop serving, write for the last time, remove the files. `render()` still answers."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._own.close()
        if self._push is not None:
            self._push.stop()
            self._push = None
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
        self.directory.close()

    def render(self) -> bytes:
        """The metrics of all processes, as Prometheus text."""
        return self.scrape()[0]

    def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """The same for a request with this Accept header, and its content type."""
        minute = current_minute(self._clock.monotonic())
        buckets, canonical = self.directory.place.buckets, self.settings.canonical
        return render(self.directory.totals(), minute, accept, buckets=buckets, canonical=canonical)

    def _families(self) -> Iterator[tuple[Metric, Iterator[Sample]]]:
        minute = current_minute(self._clock.monotonic())
        buckets, canonical = self.directory.place.buckets, self.settings.canonical
        return families(self.directory.totals(), minute, buckets=buckets, canonical=canonical)

    def process_started(self, worker: str) -> None:
        """A process for this worker was started, or started again."""
        again = self.health.process_started(worker)
        self._own.file.counter(worker_metrics.RESTARTS_TOTAL.name, worker).add(
            int(again)
        )  # it begins at 0, to be alerted on

    def process_exited(self, worker: str, exit_code: int | None) -> None:
        """A worker's process ended without having been told to. What it had counted is kept, its file removed."""
        self.health.process_exited(worker, exit_code)
        self.directory.fold()

    def process_retired(self) -> None:
        """A process that a successor has replaced has ended. What it had counted is kept, its file removed."""
        self.directory.fold()

    def _serve(self, host: str, port: int) -> None:
        server = MetricsServer(host, port, self.scrape, self.health.report)
        try:
            server.start()
        except OSError as error:
            said = f"{host}:{port} cannot be listened on ({error.strerror or error})"
            if not self.settings.optional:
                self.stop()
                # A probe that asks there would find nobody, and restart the workers for ever.
                raise MetricsPortError(
                    f"metrics and health cannot be served: {said}. Choose another port, "
                    "or run without them: MetricsSettings(optional=True), --metrics-optional"
                ) from error
            logger.error("Metrics and health are not served: %s; the workers run without", said)
            return
        self._server = server
        logger.info("Metrics are served on http://%s:%d/metrics, health on /health and /ready", host, server.port)


class MetricsWriter:
    """Writes what `scrape` returns to `path` every `interval_s` seconds, in a thread of its own.

    Readers see a whole file or the one before it, never half of one.
    """

    def __init__(self, path: Path, interval_s: float, scrape: Callable[[], bytes]) -> None:
        self.path = path
        self._interval_s = interval_s
        self._scrape = scrape
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False

    def start(self) -> None:
        """Write now, and from now on."""
        self._thread = threading.Thread(target=self._run, name="conductor-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write the last figures and end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.write()

    def write(self) -> None:
        """Write once. A disk that fails is told of once, until it works again."""
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            beside.write_bytes(self._scrape())
            beside.replace(self.path)
        except OSError as error:
            if not self._failing:
                logger.error("Metrics cannot be written to %s (%s); trying again", self.path, error)
            self._failing = True
        else:
            self._failing = False

    def _run(self) -> None:
        took_s = 0.0
        while not self._stop.wait(max(self._interval_s, took_s / MAX_SHARE)):
            started = time.thread_time()
            self.write()
            took_s = time.thread_time() - started
