"""Stores of a Conductor node: SQLite in a file, or a Postgres or Redis that the suite starts."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from conductor.testing.ports import free_port
from tests.acceptance.servers.missing import Missing
from tests.acceptance.servers.processes import Process, listens

START_TIMEOUT_S = 120.0


class Store(ABC):
    """A store, and the properties that point a node at it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self) -> None:
        """Bring it up."""

    def stop(self) -> None:
        """Bring it down."""

    @abstractmethod
    def properties(self) -> dict[str, str]:
        """The settings of a node."""


class Sqlite(Store):
    """SQLite in a file beside the node."""

    def properties(self) -> dict[str, str]:
        """The settings of a node."""
        return {
            "spring.datasource.url": f"jdbc:sqlite:{self.directory}/conductor.db?busy_timeout=15000&journal_mode=WAL",
            "conductor.db.type": "sqlite",
            "conductor.queue.type": "sqlite",
            "conductor.indexing.type": "sqlite",
            "conductor.workflow-execution-lock.type": "local_only",
            "conductor.scheduler.enabled": "true",
            "conductor.workflow-message-queue.enabled": "true",
        }


class Postgres(Store):
    """A cluster of Debian's Postgres in a directory of its own, on a port of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()
        # Not below `directory`, which the user of Postgres may not be able to read.
        self._data = Path(tempfile.gettempdir()) / f"conductor-postgres-{secrets.token_hex(4)}"
        self._server: Process | None = None
        # Postgres refuses to run as root; Debian's package brings a user for it.
        self._user = "postgres" if os.geteuid() == 0 else None

    def start(self) -> None:
        """Make the cluster and the database, and serve it on loopback."""
        programs = _postgres_programs()
        self._make_directory()
        self._run(programs / "initdb", "-D", self._data, "-U", "conductor", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._data),
            "max_connections": "200",
            "fsync": "off",  # a machine that dies takes the suite with it
        }
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._data), "-p", str(self._port), *settings]
        log = self.directory / "postgres.log"
        self._server = Process(command, log, cwd=Path("/"), user=self._user)
        self._server.wait_until(lambda: self._answers(programs), timeout_s=START_TIMEOUT_S, what="Postgres")
        self._run(programs / "createdb", "-h", "127.0.0.1", "-p", self._port, "-U", "conductor", "conductor")

    def stop(self) -> None:
        """End it; connections are cut."""
        if self._server is not None:
            self._server.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    def _make_directory(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(self._data, self._user)

    def _answers(self, programs: Path) -> bool:
        asked = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port), "-U", "conductor"]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: Path, *arguments: object) -> None:
        command = [str(program), *map(str, arguments)]
        done = subprocess.run(
            command, user=self._user, cwd="/", capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program.name} failed:\n{done.stdout}{done.stderr}")

    def properties(self) -> dict[str, str]:
        """The settings of a node."""
        return {
            "spring.datasource.url": f"jdbc:postgresql://127.0.0.1:{self._port}/conductor",
            "spring.datasource.username": "conductor",
            "spring.datasource.password": "conductor",
            "conductor.db.type": "postgres",
            "conductor.queue.type": "postgres",
            "conductor.indexing.type": "postgres",
            "conductor.indexing.enabled": "true",
            "conductor.elasticsearch.version": "0",
            "conductor.external-payload-storage.type": "postgres",
            "conductor.workflow-execution-lock.type": "postgres",
            "conductor.app.workflowExecutionLockEnabled": "true",
        }


def _postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).parent
    raise Missing("Postgres is not installed (Debian: apt-get install postgresql)")


class Redis(Store):
    """Debian's Redis on a port of its own, nothing on disk."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()
        self._server: Process | None = None

    def start(self) -> None:
        """Serve on loopback."""
        program = shutil.which("redis-server")
        if program is None:
            raise Missing("Redis is not installed (Debian: apt-get install redis-server)")
        command = [program, "--bind", "127.0.0.1", "--port", str(self._port), "--save", "", "--appendonly", "no"]
        self._server = Process(command, self.directory / "redis.log")
        self._server.wait_until(lambda: listens(self._port), timeout_s=START_TIMEOUT_S, what="Redis")

    def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.stop()

    def properties(self) -> dict[str, str]:
        """The settings of a node. Without an index there is no search, and no task logs are kept."""
        return {
            "conductor.db.type": "redis_standalone",
            "conductor.queue.type": "redis_standalone",
            "conductor.redis.hosts": f"127.0.0.1:{self._port}:us-east-1c",
            "conductor.redis.workflowNamespacePrefix": "conductor",
            "conductor.redis.queueNamespacePrefix": "conductor_queues",
            "conductor.redis.taskDefCacheRefreshInterval": "1",
            "conductor.workflow-execution-lock.type": "redis",
            "conductor.app.workflowExecutionLockEnabled": "true",
            "conductor.redis-lock.serverAddress": f"redis://127.0.0.1:{self._port}",
            "conductor.indexing.enabled": "false",
        }
