"""The contestants: this package, and other libraries, each in an environment that is created once."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks._processes import PROGRAMS, Family, environment, running, until
from benchmarks._server import Server, server, simple
from tests.integration.other_sdks import Unavailable, conductor_python
from tests.integration.other_sdks import environment as environment_with

#: The measured values of the option `prefetch`: none, and the largest number of tasks per poll.
PREFETCH = (0, 100)
OURS_ASYNC, OURS_ASYNC_AHEAD = (f"ours, async def ×50, prefetch={count}" for count in PREFETCH)
OURS_DEF, OURS_DEF_AHEAD = (f"ours, def ×10, prefetch={count}" for count in PREFETCH)
OURS = (OURS_ASYNC, OURS_ASYNC_AHEAD, OURS_DEF, OURS_DEF_AHEAD)
DRAMATIQ = "dramatiq + Redis"
HUEY = "huey + Redis"
CONDUCTOR_PYTHON = "conductor-python, async def ×50"
WORKFLOW = "bench"
DRAMATIQ_PACKAGES = ("dramatiq[redis]==2.2.1",)
HUEY_PACKAGES = ("huey==3.5.4", "redis==8.1.0")


@dataclass
class Stage:
    """A running server with a queue, which no worker polls yet."""

    directory: Path
    server: Family
    #: The coordinator that has the queue; None if Redis has it.
    coordinator: Server | None
    _command: list[str]
    _sender: list[str]
    _env: dict[str, str]

    def fill(self, count: int) -> None:
        """Put `count` tasks into the queue."""
        if self.coordinator is not None:
            self.coordinator.start(WORKFLOW, count)
        else:
            self._send("fill", str(count))

    def send(self, count: int) -> tuple[float, float]:
        """Send one message after the other; return the median of their µs, and how many were sent per second."""
        median_us, per_second = json.loads(self._send("fill", str(count)))
        return median_us, per_second

    def _send(self, *words: str) -> str:
        command = [*self._sender, *words]
        sent = subprocess.run(command, env=environment(self._env), capture_output=True, text=True, check=False)
        if sent.returncode:
            raise RuntimeError(f"{' '.join(command)}: {sent.stderr[-2000:]}")
        return sent.stdout

    @contextmanager
    def worker(self) -> Iterator[Family]:
        """Run a worker inside the block."""
        with running(self._command, env=self._env) as family:
            yield family

    def pickups_us(self, count: int, pause_s: float) -> list[float]:
        """Send one task at a time to an idle worker. Return the times from sending to the function's first line."""
        if self.coordinator is None:
            found: list[float] = json.loads(self._send("pickup", str(count), str(pause_s)))
            return found
        sys.path.insert(0, str(PROGRAMS))
        import progress

        connection = self.coordinator.connect()

        def send(n: int) -> None:
            # The measured time ends in the worker process, when the function begins. The answer can arrive later.
            connection.ask(connection.request("POST", f"/workflow/{WORKFLOW}", {"n": n}))

        with contextlib.closing(connection):
            return list(progress.pickups_us(self.directory, send, count, pause_s))


class Contestant:
    """A library, and the way to start its server and its worker."""

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def stage(self) -> Iterator[Stage]:
        """Start a server with an empty queue for the block."""
        with tempfile.TemporaryDirectory() as directory, self._staged(Path(directory)) as stage:
            yield stage

    def _staged(self, directory: Path) -> contextlib.AbstractContextManager[Stage]:
        raise NotImplementedError


class OnCoordinator(Contestant):
    """A worker program of this package or of conductor-python, on our coordinator."""

    def __init__(self, name: str, python: Path, kind: str, threads: int, prefetch: int | None = None) -> None:
        super().__init__(name)
        self._python, self._kind, self._threads = python, kind, threads
        self.options = {} if prefetch is None else {"CONDUCTOR_WORKER_ALL_PREFETCH": str(prefetch)}

    @contextmanager
    def _staged(self, directory: Path) -> Iterator[Stage]:
        with server() as found:
            found.define(WORKFLOW, simple())
            program = str(PROGRAMS / "conductor_noop.py")
            command = [str(self._python), program, found.url, self._kind, str(self._threads)]
            journal = {"CONDUCTOR_WORKER_JOURNAL_DIR": str(directory / "journal")}
            env = {"BENCH_DIRECTORY": str(directory), **journal, **self.options}
            yield Stage(directory, found.family, found, command, [], env)


class OnRedis(Contestant):
    """A worker program on a Redis without persistence, which is the fastest setup of Redis."""

    def __init__(self, name: str, python: Path, program: str, words: list[str]) -> None:
        super().__init__(name)
        self._python, self._program, self._words = python, program, words

    @contextmanager
    def _staged(self, directory: Path) -> Iterator[Stage]:
        with _redis(directory) as (url, family):
            env = {"BENCH_DIRECTORY": str(directory), "BENCH_REDIS": url}
            sender = [str(self._python), str(PROGRAMS / self._program)]
            yield Stage(directory, family, None, [str(self._python), *self._words], sender, env)


def ours() -> list[OnCoordinator]:
    """Return the workers of this package: `async def` and `def`, each with and without prefetch."""
    here = Path(sys.executable)
    return [
        OnCoordinator(OURS_ASYNC, here, "async", 50, PREFETCH[0]),
        OnCoordinator(OURS_ASYNC_AHEAD, here, "async", 50, PREFETCH[1]),
        OnCoordinator(OURS_DEF, here, "def", 10, PREFETCH[0]),
        OnCoordinator(OURS_DEF_AHEAD, here, "def", 10, PREFETCH[1]),
    ]


def contestants(skipped: dict[str, str]) -> dict[str, Contestant]:
    """Return the contestants that are available on this machine; the others are named in `skipped`."""
    found: list[Contestant] = [*ours()]
    redis_missing = None if shutil.which("redis-server") else "redis-server is not installed (Debian: apt-get install)"
    if redis_missing:
        skipped |= {DRAMATIQ: redis_missing, HUEY: redis_missing}
    else:
        with _or_skipped(DRAMATIQ, skipped):
            python = environment_with("dramatiq", *DRAMATIQ_PACKAGES)
            # Default settings: two processes of eight threads on two cores.
            words = ["-m", "dramatiq", "dramatiq_noop"]
            found.append(OnRedis(DRAMATIQ, python, "dramatiq_noop.py", words))
        with _or_skipped(HUEY, skipped):
            python = environment_with("huey", *HUEY_PACKAGES)
            # Default settings with one thread, but without huey's log line per task.
            words = ["-m", "huey.bin.huey_consumer", "-q", "huey_noop.huey"]
            found.append(OnRedis(HUEY, python, "huey_noop.py", words))
    with _or_skipped(CONDUCTOR_PYTHON, skipped):
        found.append(OnCoordinator(CONDUCTOR_PYTHON, conductor_python(), "async", 50))
    return {one.name: one for one in found}


@contextmanager
def _or_skipped(name: str, skipped: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        skipped[name] = str(error).splitlines()[-1]


@contextmanager
def _redis(directory: Path) -> Iterator[tuple[str, Family]]:
    """Run a Redis without persistence on a free port, inside the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = ["--dir", str(directory), "--bind", "127.0.0.1", "--port", str(port)]
    with running(["redis-server", *where, "--save", "", "--appendonly", "no"]) as family:

        def answers() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        until(answers, "redis-server", patience_s=20)
        yield f"redis://127.0.0.1:{port}/0", family
