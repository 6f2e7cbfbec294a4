"""The parent's side of metrics and health: gathers what all processes count, and shows it to the world."""

from __future__ import annotations

import logging

from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.telemetry import metrics
from conductor.client.telemetry.exposition import render, require_prometheus
from conductor.client.telemetry.health import Health, HealthLimits
from conductor.client.telemetry.metric_file import current_minute
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsPlace
from conductor.client.telemetry.metrics_server import MetricsServer
from conductor.client.telemetry.metrics_writer import MetricsWriter
from conductor.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)


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
        self.directory = MetricsDirectory(settings.directory, clock.monotonic)
        self.health = Health(self.directory, clock, limits)
        self._own = MetricsCollector.for_process(self.directory.place, clock.monotonic)
        self._server: MetricsServer | None = None
        self._writer: MetricsWriter | None = None

    @property
    def port(self) -> int | None:
        """The port that is served, if any."""
        return self._server.port if self._server else None

    def child_settings(self) -> MetricsPlace:
        """What a child process needs to take part. Picklable."""
        return self.directory.place

    def start(self) -> None:
        """Begin to serve or to write. A port that is taken is told of, and stops no worker."""
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
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
        self.directory.close()

    def render(self) -> bytes:
        """The metrics of all processes, as Prometheus text."""
        return render(self.directory.totals(), current_minute(self._clock.monotonic()))

    def process_started(self, worker: str) -> None:
        """A process for this worker was started, or started again."""
        again = self.health.process_started(worker)
        self._own.file.counter(metrics.RESTARTS_TOTAL.name, worker).add(int(again))  # it begins at 0, to be alerted on

    def process_exited(self, worker: str, exit_code: int | None) -> None:
        """A worker's process ended without having been told to. What it had counted is kept, its file removed."""
        self.health.process_exited(worker, exit_code)
        self.directory.fold()

    def _serve(self, host: str, port: int) -> None:
        server = MetricsServer(host, port, self.render, self.health.report)
        try:
            server.start()
        except OSError as error:
            logger.error(
                "Metrics and health are not served: %s:%d cannot be listened on (%s). The workers run without; "
                "choose another port with MetricsSettings(http_port=...)",
                host,
                port,
                error.strerror or error,
            )
            return
        self._server = server
        logger.info("Metrics are served on http://%s:%d/metrics, health on /health and /ready", host, server.port)
