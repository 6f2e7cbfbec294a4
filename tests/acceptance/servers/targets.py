"""The targets of the suite: five servers behind one interface."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conductor.testing.ports import free_port
from tests.acceptance.servers.node import Node
from tests.acceptance.servers.processes import Process, listens
from tests.acceptance.servers.proxy import RoundRobin
from tests.acceptance.servers.stores import Postgres, Redis, Sqlite, Store

START_TIMEOUT_S = 60.0
_SERVE = """
import sys
from conductor.coordinator import Coordinator
keep = int(sys.argv[3]) or None
Coordinator(sys.argv[1], port=int(sys.argv[2]), keep_finished_count=keep).serve()
"""


class Target(ABC):
    """A server under test, and its properties."""

    #: A Conductor server: no leases, no verdicts, no schemas, no order by priority.
    is_conductor = True
    #: Whether it has an index: without one, no task logs and no search by correlation id.
    indexed = True

    @property
    @abstractmethod
    def url(self) -> str:
        """For `Configuration(server_api_url=...)`; the same after a restart."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Nothing of it is left."""

    @abstractmethod
    def kill(self) -> None:
        """kill -9 for the server; its data stays."""

    @abstractmethod
    def revive(self) -> None:
        """Start again on the same data and the same address."""


class EmbeddedCoordinator(Target):
    """The coordinator, in a process of its own so that it can be killed."""

    is_conductor = False

    def __init__(self, directory: Path, *, keep_finished_count: int = 0) -> None:
        self._directory = directory
        self._keep = keep_finished_count
        self._port = free_port()
        self._server: Process | None = None

    @property
    def url(self) -> str:
        """Its API."""
        return f"http://127.0.0.1:{self._port}/api"

    @property
    def database(self) -> Path:
        """Its file."""
        return self._directory / "coordinator.db"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._server is not None
        return self._server.pid

    def start(self) -> None:
        """Returns when it serves."""
        command = [sys.executable, "-c", _SERVE, str(self.database), str(self._port), str(self._keep)]
        self._server = Process(command, self._directory / "coordinator.log")
        self._server.wait_until(lambda: listens(self._port), timeout_s=START_TIMEOUT_S, what="the coordinator")

    revive = start

    def stop(self) -> None:
        """SIGTERM."""
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """kill -9."""
        if self._server is not None:
            self._server.kill()


class SingleNode(Target):
    """The real Conductor: one node on one store."""

    def __init__(self, store: Store, *, indexed: bool = True) -> None:
        self._store = store
        self._node: Node | None = None
        self.indexed = indexed

    @property
    def url(self) -> str:
        """Its API."""
        assert self._node is not None
        return self._node.url

    def start(self) -> None:
        """Returns when it serves."""
        self._store.start()
        self._node = Node(self._store.directory, self._store.properties())
        self.revive()

    def revive(self) -> None:
        """Start the JVM on what the store has."""
        assert self._node is not None
        self._node.launch()
        self._node.wait()

    def stop(self) -> None:
        """The node, then its store."""
        if self._node is not None:
            self._node.stop()
        self._store.stop()

    def kill(self) -> None:
        """kill -9 for the JVM."""
        assert self._node is not None
        self._node.kill()


class Cluster(Target):
    """The real Conductor: two nodes on one Postgres, behind a round-robin proxy."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.nodes: list[Node] = []
        self._proxy: RoundRobin | None = None

    @property
    def url(self) -> str:
        """The proxy's."""
        assert self._proxy is not None
        return f"http://127.0.0.1:{self._proxy.port}/api"

    def start(self) -> None:
        """Returns when both nodes serve. One after the other: the first makes the tables."""
        self._store.start()
        for _ in range(2):
            node = Node(self._store.directory, self._store.properties())
            self.nodes.append(node)
            node.launch()
            node.wait()
        self._proxy = RoundRobin([node.port for node in self.nodes])
        self._proxy.start()

    def revive(self) -> None:
        """Both nodes at once."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()

    def stop(self) -> None:
        """Proxy, nodes, store."""
        if self._proxy is not None:
            self._proxy.stop()
        with ThreadPoolExecutor() as together:
            list(together.map(Node.stop, self.nodes))
        self._store.stop()

    def kill(self) -> None:
        """kill -9 for both nodes."""
        for node in self.nodes:
            node.kill()


#: By name; each needs a directory of its own.
TARGETS: dict[str, Callable[[Path], Target]] = {
    "coordinator": EmbeddedCoordinator,
    "conductor-sqlite": lambda directory: SingleNode(Sqlite(directory)),
    "conductor-postgres": lambda directory: SingleNode(Postgres(directory)),
    "conductor-redis": lambda directory: SingleNode(Redis(directory), indexed=False),
    "conductor-cluster": lambda directory: Cluster(Postgres(directory)),
}
