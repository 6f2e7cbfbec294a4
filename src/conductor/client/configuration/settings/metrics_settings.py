"""Settings of metrics: an HTTP port to scrape, or a file."""

from __future__ import annotations

import itertools
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from conductor.telemetry.exposition import TIME_BOUNDS_S

logger = logging.getLogger(__name__)

MAX_BUCKETS = 32
_BUCKETS_WANTED = f"a list of at most {MAX_BUCKETS} positive numbers of seconds in ascending order"
BUCKETS_VARIABLE = "CONDUCTOR_METRICS_BUCKETS"
#: The variable that selects canonical metric names. Conductor's other SDKs use the same variable.
CANONICAL_VARIABLE = "WORKER_CANONICAL_METRICS"


class MetricsPortError(OSError):
    """The port for metrics and health cannot be opened."""


@dataclass(slots=True)
class MetricsSettings:
    """Settings of the metrics of a handler. Making this object does not touch the disk or the network.

    Args:
        directory: The directory of metrics files; a new temporary directory by default.
        file_name: The file in `directory` that is written without `http_port`. Handlers that share a directory need
            different names.
        update_interval: The seconds between two writes of that file.
        http_port: The port for `/metrics`, `/health` and `/ready`. None writes a file instead.
        clean_directory: Accepted for programs written for conductor-python, without effect. The files of ended
            handlers in `directory` are always removed, those of running handlers never.
        clean_dead_pids: Accepted for programs written for conductor-python, without effect.
        host: The address of the port; every interface by default, because scrapers run on other machines. Each
            client of the port can read task types, counts, times and the last errors of workers without a password.
        optional: Run without metrics if the port cannot be opened. Otherwise the start fails.
        buckets: The bounds of time histograms: up to 32 ascending numbers of seconds (`CONDUCTOR_METRICS_BUCKETS`,
            separated by commas).
        canonical: Use the metric names of Conductor's other SDKs, with histograms in place of summaries
            (`WORKER_CANONICAL_METRICS`, off).
        otlp: Also push the metrics to an OpenTelemetry collector (`OTEL_METRICS_EXPORTER=otlp`, off).
    """

    directory: str | None = None
    file_name: str = "metrics.log"
    update_interval: float = 0.1
    http_port: int | None = None
    clean_directory: bool = False
    clean_dead_pids: bool = False
    host: str = field(default="0.0.0.0", kw_only=True)  # noqa: S104
    optional: bool = field(default=False, kw_only=True)
    buckets: tuple[float, ...] = field(default_factory=lambda: _read_buckets(), kw_only=True)
    canonical: bool = field(default_factory=lambda: _read_canonical(), kw_only=True)
    otlp: bool = field(default_factory=lambda: os.environ.get("OTEL_METRICS_EXPORTER") == "otlp", kw_only=True)

    def __post_init__(self) -> None:
        if self.clean_directory or self.clean_dead_pids:
            logger.info("clean_directory and clean_dead_pids have no effect: old metrics files are always removed")
        if self.update_interval <= 0:
            raise ValueError(f"MetricsSettings(update_interval={self.update_interval}): must be more than 0 seconds")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"MetricsSettings(http_port={self.http_port}): a port is 0 to 65535 (0 for any free port)")
        self.buckets = _check_buckets(self.buckets, f"MetricsSettings(buckets={self.buckets})")


def _check_buckets(bounds: Sequence[float], where: str) -> tuple[float, ...]:
    is_ascending = all(a < b for a, b in itertools.pairwise(bounds))
    if not 1 <= len(bounds) <= MAX_BUCKETS or not is_ascending or not all(math.isfinite(b) and b > 0 for b in bounds):
        raise ValueError(f"{where}: must be {_BUCKETS_WANTED}, such as 0.1, 1, 10")
    return tuple(float(bound) for bound in bounds)


def _read_buckets() -> tuple[float, ...]:
    text = os.environ.get(BUCKETS_VARIABLE)
    if not text:
        return TIME_BOUNDS_S
    where = f"environment variable {BUCKETS_VARIABLE}={text!r}"
    try:
        return _check_buckets([float(part) for part in text.split(",")], where)
    except ValueError:
        raise ValueError(f"{where}: must be {_BUCKETS_WANTED}, such as 0.1,1,10") from None


def _read_canonical() -> bool:
    return os.environ.get(CANONICAL_VARIABLE, "").strip().lower() in ("true", "1", "yes")
