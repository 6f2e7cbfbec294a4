"""Metrics in a file, written again and again. Readers see a whole file or the one before it, never half of one."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

#: Writing may take this share of one core, however short the interval.
MAX_SHARE = 0.1


class MetricsWriter:
    """Writes what `scrape` returns to `path` every `interval_s` seconds, in a thread of its own."""

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
