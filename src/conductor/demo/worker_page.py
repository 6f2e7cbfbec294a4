"""Reads the readiness and the metrics of the demo's workers over HTTP, as Kubernetes and Prometheus would."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import urlopen

from conductor.telemetry.exposition import Metric

#: The workers must be ready within this time. Five processes usually start in 1 to 2 s; a busy machine needs longer.
READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Counted:
    """The metrics of the workers, by name and labels."""

    samples: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def of(self, metric: Metric, task_type: str, verdict: str = "") -> int:
        return int(self.samples.get((metric.name, task_type, verdict), 0))

    def sum(self, metric: Metric) -> int:
        return int(sum(value for (name, _, _), value in self.samples.items() if name == metric.name))


class NotReady(Exception):
    """The workers were not ready in time."""


class WorkerPage:
    """Reads /ready and /metrics, which the workers serve on one port."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def wait_until_ready(self) -> None:
        """Wait until every worker has polled. Raise NotReady after `READY_WITHIN_S`."""
        deadline = time.monotonic() + READY_WITHIN_S
        while self._get("/ready") is None:
            if time.monotonic() > deadline:
                raise NotReady(f"the workers were not ready after {READY_WITHIN_S:.0f} s: --verbose shows their log")
            time.sleep(0.05)

    def read_metrics(self) -> Counted:
        """Return the metrics; the result is empty if the port does not answer."""
        from prometheus_client.parser import text_string_to_metric_families

        samples = {}
        for family in text_string_to_metric_families(self._get("/metrics") or ""):
            for sample in family.samples:
                labels = sample.labels
                samples[sample.name, labels.get("taskType", ""), labels.get("verdict", "")] = sample.value
        return Counted(samples)

    def _get(self, path: str) -> str | None:
        try:
            with urlopen(self.url + path, timeout=10) as answer:  # noqa: S310 (our own workers)
                return str(answer.read().decode())
        except (URLError, TimeoutError):  # the workers are not listening yet, or answer 503
            return None


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
