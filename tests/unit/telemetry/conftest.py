"""Shared by the telemetry tests: a hub in a directory of the test's own, its scrape, and real processes that count."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.telemetry.metrics_directory import MetricsPlace
from conductor.client.telemetry.metrics_hub import MetricsHub

#: Begins every child: `telemetry` is its own, `say(text)` a line to the test, `told()` waits for one.
_CHILD = """
import base64, pickle, sys
from conductor.client.event.task_runner_events import *
from conductor.client.telemetry.process_telemetry import ProcessTelemetry
place, worker = pickle.loads(base64.b64decode(sys.argv[1]))
telemetry = ProcessTelemetry(place, worker)
collector, health = telemetry.collector, telemetry.health
def say(text): print(text, flush=True)
def told(): return sys.stdin.readline()
"""

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: bytes) -> Samples:
    """Every sample of a scrape, read with prometheus-client's own parser; a duplicate fails the test."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, f"twice in one scrape: {key}"
            samples[key] = sample.value
    return samples


def value(text: bytes, name: str, **labels: str) -> float:
    """Return one sample of a scrape."""
    return samples_of(text)[name, frozenset(labels.items())]


class Child:
    """A real process with telemetry of its own."""

    def __init__(self, place: MetricsPlace, script: str, worker: str | None) -> None:
        argument = base64.b64encode(pickle.dumps((place, worker))).decode()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD + script, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def heard(self) -> str:
        """The next line the child says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the child ended without a word"
        return line.strip()

    def tell(self, text: str = "go") -> None:
        """Let the child go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> int:
        """kill -9."""
        self.process.kill()
        return self.process.wait()

    def end(self) -> int:
        """Let it come to its end."""
        self.tell()
        return self.process.wait(60)

    def close(self) -> None:
        """Nothing is left behind, whatever the test did."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(place: MetricsPlace, script: str, worker: str | None = None) -> Child:
        children.append(Child(place, script, worker))
        return children[-1]

    yield start
    for one in children:
        one.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[MetricsHub]:
    hub = MetricsHub(MetricsSettings(directory=str(tmp_path / "metrics"), http_port=0, host="127.0.0.1"))
    yield hub
    hub.stop()
