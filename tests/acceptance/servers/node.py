"""A node of a Conductor server: a JVM on its own port."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

import httpx

from conductor.testing.ports import free_port
from tests.acceptance.servers.java import aot_cache, launcher
from tests.acceptance.servers.processes import Process
from tests.acceptance.servers.stores import Sqlite

#: A busy machine takes its time.
HEALTH_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 300.0
_COMMON = {
    "server.address": "127.0.0.1",
    "conductor.enable.ui.serving": "false",
    "conductor.integrations.ai.enabled": "false",
    "conductor.scheduler.enabled": "false",
    "management.health.elasticsearch.enabled": "false",
}


class Node:
    """Starts, stops, dies, starts again: always on the same port, on the same store."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self.port = free_port()
        self._directory = directory
        self._properties = {**_COMMON, **properties, "server.port": str(self.port)}
        self._server: Process | None = None

    @property
    def url(self) -> str:
        """Its API."""
        return f"http://127.0.0.1:{self.port}/api"

    def launch(self) -> None:
        """Start the JVM; `wait` until it serves."""
        cache = prepared_cache()
        self._launch(*([f"-XX:AOTCache={cache}"] if cache else []))

    def _launch(self, *flags: str) -> None:
        arguments = [f"--{name}={value}" for name, value in self._properties.items()]
        log = self._directory / f"node-{self.port}.log"
        self._server = Process([*launcher(*flags), *arguments], log, cwd=self._directory)

    def record(self, cache: Path) -> None:
        """Start and stop once; the JVM writes its cache when it ends."""
        self._launch(f"-XX:AOTCacheOutput={cache}")
        self.wait()
        self.stop()

    def wait(self) -> None:
        """Wait until it says that it is healthy."""
        assert self._server is not None
        self._server.wait_until(self._healthy, timeout_s=HEALTH_TIMEOUT_S, what="the Conductor server")

    def stop(self) -> None:
        """SIGTERM."""
        if self._server is not None:
            self._server.stop(timeout_s=STOP_TIMEOUT_S)

    def revive(self) -> None:
        """Start it, wait until it serves."""
        self.launch()
        self.wait()

    def kill(self) -> None:
        """kill -9."""
        if self._server is not None:
            self._server.kill()

    def _healthy(self) -> bool:
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=5)
        except httpx.TransportError:
            return False
        return answer.status_code == 200 and answer.json().get("healthy") is True


@functools.cache
def prepared_cache() -> Path | None:
    """Return the AOT cache that makes starts quick, recorded once per JDK with an idle server."""
    cache = aot_cache()
    if cache is not None and not cache.exists():
        with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
            recorded = Path(scratch) / cache.name
            Node(Path(scratch), Sqlite(Path(scratch)).properties()).record(recorded)
            if not recorded.exists():
                return None  # a JVM that could not write one starts without
            recorded.rename(cache)
    return cache
