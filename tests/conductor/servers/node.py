"""One node of the real Conductor: a JVM on a port of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx

from servers.java import find_java, server_jar
from servers.processes import Process, free_port

#: A busy machine takes its time.
HEALTH_TIMEOUT_S = 300.0
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
        arguments = [f"--{name}={value}" for name, value in self._properties.items()]
        command = [str(find_java()), "-Xmx1g", "-jar", str(server_jar()), *arguments]
        self._server = Process(command, self._directory / f"node-{self.port}.log", cwd=self._directory)

    def wait(self) -> None:
        """Wait until it says that it is healthy."""
        assert self._server is not None
        self._server.wait_until(self._healthy, timeout_s=HEALTH_TIMEOUT_S, what="the Conductor server")

    def stop(self) -> None:
        """SIGTERM."""
        if self._server is not None:
            self._server.stop()

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
