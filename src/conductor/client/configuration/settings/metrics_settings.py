"""Where metrics go: an HTTP port to scrape, or a file."""

from __future__ import annotations

import itertools
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from conductor.telemetry.exposition import TIME_BOUNDS_S

logger = logging.getLogger(__name__)

#: Bounds at most.
MAX_BUCKETS = 32
BUCKETS_VARIABLE = "CONDUCTOR_METRICS_BUCKETS"
#: As Conductor's other SDKs call it.
CANONICAL_VARIABLE = "WORKER_CANONICAL_METRICS"


class MetricsPortError(OSError):
    """The port of metrics and health cannot be had; the message says why and what to do."""


@dataclass(slots=True)
class MetricsSettings:
    """Where a handler puts its workers' metrics. Constructing this touches neither disk nor network.

    Args:
        directory: Where metrics files live. `None` lets the collector choose (a temporary directory of its own).
        file_name: The file written in file mode, inside `directory`. Handlers that share a directory need one each.
        update_interval: Seconds between two writes of that file.
        http_port: Serve `/metrics`, `/health` and `/ready` on this port; `None` is file mode.
        clean_directory, clean_dead_pids: Accepted for programs written for conductor-python, and not needed: what
            handlers that are no more have left in `directory` is always removed, what living ones write never is.
        host: The address that port is opened on. Scrapers come from elsewhere, hence every interface by default.
            Whoever reaches it can read task types, counts, times and the workers' last errors, without a password.
        optional: Run without metrics when the port cannot be had. Otherwise the start fails.
        buckets: Bounds of the histograms of times: seconds, rising, 32 at most (`CONDUCTOR_METRICS_BUCKETS`, separated
            by commas).
        canonical: Use the names that all of Conductor's SDKs share: histograms in place of summaries
            (`WORKER_CANONICAL_METRICS`, off).
        otlp: Push the metrics to an OpenTelemetry collector as well (`OTEL_METRICS_EXPORTER=otlp`, off).
    """

    directory: str | None = None
    file_name: str = "metrics.log"
    update_interval: float = 0.1
    http_port: int | None = None
    clean_directory: bool = False
    clean_dead_pids: bool = False
    host: str = field(default="0.0.0.0", kw_only=True)  # noqa: S104
    optional: bool = field(default=False, kw_only=True)
    buckets: tuple[float, ...] = field(default_factory=lambda: _buckets_of_environment(), kw_only=True)
    canonical: bool = field(default_factory=lambda: _canonical_of_environment(), kw_only=True)
    otlp: bool = field(default_factory=lambda: os.environ.get("OTEL_METRICS_EXPORTER") == "otlp", kw_only=True)

    def __post_init__(self) -> None:
        if self.clean_directory or self.clean_dead_pids:
            logger.info("clean_directory and clean_dead_pids are needless: what ended handlers left is always removed")
        if self.update_interval <= 0:
            raise ValueError(f"MetricsSettings(update_interval={self.update_interval}): must be more than 0 seconds")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"MetricsSettings(http_port={self.http_port}): a port is 0 to 65535 (0 = any free one)")
        self.buckets = _checked(self.buckets, f"MetricsSettings(buckets={self.buckets})")


def _checked(bounds: Sequence[float], where: str) -> tuple[float, ...]:
    rising = all(a < b for a, b in itertools.pairwise(bounds))
    if not 1 <= len(bounds) <= MAX_BUCKETS or not rising or not all(math.isfinite(b) and b > 0 for b in bounds):
        raise ValueError(f"{where}: 1 to {MAX_BUCKETS} rising numbers of seconds, such as 0.1, 1, 10")
    return tuple(float(bound) for bound in bounds)


def _buckets_of_environment() -> tuple[float, ...]:
    text = os.environ.get(BUCKETS_VARIABLE)
    if not text:
        return TIME_BOUNDS_S
    where = f"environment variable {BUCKETS_VARIABLE}={text!r}"
    try:
        return _checked([float(part) for part in text.split(",")], where)
    except ValueError:
        raise ValueError(f"{where}: 1 to {MAX_BUCKETS} rising numbers of seconds, such as 0.1,1,10") from None


def _canonical_of_environment() -> bool:
    return os.environ.get(CANONICAL_VARIABLE, "").strip().lower() in ("true", "1", "yes")
