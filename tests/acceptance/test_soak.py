"""An hour of mixed load in five minutes: memory, threads and files of worker and coordinator do not grow."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil
import pytest

from tests.acceptance.server_session import Session
from tests.acceptance.servers.processes import Process
from tests.acceptance.servers.targets import EmbeddedCoordinator
from tests.acceptance.soak_worker import KINDS, MAX_THREADS_OF_SLOTS

MINUTES = 5
#: Workflows a second, twelve times an ordinary day's.
RATE = 20
#: Never more at once: a slow machine gets a slower hour.
MAX_OPEN = 300
#: The coordinator keeps this many finished workflows, so that its file can be flat at all.
KEEP = 400
SAMPLE_EVERY_S = 2.0
#: Kinds of workflows, each with a share of one in this number; the rest is `quick` and `plain`.
MIX = {"large": 47, "blocking": 37, "long": 31, "patient": 13, "flaky": 7}
LARGE = "x" * 200_000


@dataclass
class Sample:
    """The resources of a process at one moment."""

    at_s: float
    memory_mb: float
    descriptors: int
    threads: int
    files_mb: float


#: The allowed growth of a minute's median since the second minute: a share, and an absolute value.
#: Descriptors are connections, of which a busy minute has more.
ALLOWED = {"memory_mb": (0.04, 3.0), "descriptors": (0.0, 40), "threads": (0.0, 2), "files_mb": (0.1, 8.5)}
#: A busy minute may use slots that none before it has used; a thread left behind by each task would be thousands.
ALLOWED_OF_WORKER = {**ALLOWED, "threads": (0.0, MAX_THREADS_OF_SLOTS)}


class Meter:
    """Samples one process and the files it writes."""

    def __init__(self, name: str, pid: int, directory: Path, allowed: dict[str, tuple[float, float]] = ALLOWED) -> None:
        self.name = name
        self._allowed = allowed
        self.samples: list[Sample] = []
        self._process = psutil.Process(pid)
        self._directory = directory
        self._began = time.monotonic()

    def sample(self) -> None:
        """Look."""
        with self._process.oneshot():
            memory, descriptors = self._process.memory_info().rss / 1e6, self._process.num_fds()
            threads = self._process.num_threads()
        files = sum(size(path) for path in self._directory.rglob("*") if path.suffix != ".log") / 1e6
        self.samples.append(Sample(time.monotonic() - self._began, memory, descriptors, threads, files))

    def minute(self, number: int) -> dict[str, float]:
        """The medians of a minute, the first being 1."""
        seen = [sample for sample in self.samples if (number - 1) * 60 <= sample.at_s < number * 60]
        return {name: statistics.median(getattr(sample, name) for sample in seen) for name in ALLOWED}

    def growth(self) -> Iterator[str]:
        """Return the resources that grew beyond the limit between the second and the last minute."""
        second, last = self.minute(2), self.minute(MINUTES)
        for name, (share, amount) in self._allowed.items():
            if last[name] > second[name] * (1 + share) + amount:
                yield f"{self.name}: {name} grew from {second[name]:.1f} to {last[name]:.1f}"

    def table(self) -> str:
        """The figures."""
        rows = [f"{self.name:12}" + "".join(f"{field.name:>14}" for field in fields(Sample)[1:])]
        for number in range(1, MINUTES + 1):
            rows.append(f"  minute {number:2}  " + "".join(f"{value:14.1f}" for value in self.minute(number).values()))
        return "\n".join(rows)


def size(path: Path) -> int:
    """0 for a file that went away meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[EmbeddedCoordinator]:
    """With a short memory for what has ended."""
    directory = tmp_path / "coordinator"
    directory.mkdir()
    server = EmbeddedCoordinator(directory, keep_finished_count=KEEP)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def worker(tmp_path: Path, coordinator: EmbeddedCoordinator) -> Iterator[tuple[Process, Path, str]]:
    """A program of its own, its journal in a directory of its own."""
    journal, prefix = tmp_path / "journal", f"soak{secrets.token_hex(3)}"
    program = Path(__file__).with_name("soak_worker.py")
    process = Process(
        [sys.executable, str(program), coordinator.url, prefix],
        tmp_path / "worker.log",
        environment={"CONDUCTOR_WORKER_JOURNAL_DIR": str(journal)},
    )
    yield process, journal, prefix
    process.stop()


def kind_of(number: int) -> str:
    """Which task a workflow has: the same mix in every minute."""
    for kind, one_in in MIX.items():
        if number % one_in == 0:
            return kind
    return "plain" if number % 2 else "quick"


class Load:
    """Starts workflows at a steady rate, calls some off, and waits for all of them."""

    def __init__(self, session: Session, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._open = asyncio.Semaphore(MAX_OPEN)
        self.endings = Counter[str]()

    async def run(self) -> None:
        """For the time of the soak."""
        for kind in KINDS:
            limits = {"response_timeout_seconds": 3, "retry_count": 2, "retry_delay_seconds": 0}
            await self._session.define(f"{self._prefix}_{kind}", **limits)
        began, number = time.monotonic(), 0
        async with asyncio.TaskGroup() as orders:
            while (now := time.monotonic() - began) < MINUTES * 60:
                await self._open.acquire()
                orders.create_task(self._order(number))
                number += 1
                await asyncio.sleep(max(0.0, number / RATE - now))

    async def _order(self, number: int) -> None:
        kind = kind_of(number)
        given = {"text": LARGE} if kind == "large" else {"number": number}
        try:
            workflow_id = await self._session.start(f"{self._prefix}_{kind}", input=given)
            if kind in ("long", "blocking") and number % 3 == 0:
                await asyncio.sleep(1)
                await self._session.workflows.terminate_workflow(workflow_id, "called off")
            status = await self._session.until(lambda: self._ended(workflow_id), f"the end of {workflow_id}")
            self.endings[f"{kind} {status}"] += 1
        finally:
            self._open.release()

    async def _ended(self, workflow_id: str) -> str | None:
        found = await self._session.workflows.get_workflow_status(workflow_id)
        await asyncio.sleep(0.4)  # look twice a second, not ten times
        return found.status if found.status not in ("RUNNING", "PAUSED") else None


@pytest.mark.slow
async def test_the_resources_of_worker_and_coordinator_do_not_grow(
    coordinator: EmbeddedCoordinator, worker: tuple[Process, Path, str], tmp_path: Path
) -> None:
    process, journal, prefix = worker
    meters = [
        Meter("worker", process.pid, journal, ALLOWED_OF_WORKER),
        Meter("coordinator", coordinator.pid, coordinator.database.parent),
    ]
    async with Session(coordinator, prefix) as session:
        load = Load(session, prefix)
        running = asyncio.create_task(load.run())
        while not running.done():
            await asyncio.wait({running}, timeout=SAMPLE_EVERY_S)
            for meter in meters:
                meter.sample()
        await running
    print(f"\n{sum(load.endings.values())} workflows: {dict(sorted(load.endings.items()))}")
    for meter in meters:
        print(meter.table())
    assert process.running, process.tail()
    assert unexpected(load.endings) == []
    assert [line for meter in meters for line in meter.growth()] == []


def unexpected(endings: Counter[str]) -> list[str]:
    """Endings that none of these kinds can have."""
    failing, called_off = {"flaky FAILED"}, {"long TERMINATED", "blocking TERMINATED"}
    return [ending for ending in endings if not ending.endswith(" COMPLETED") and ending not in failing | called_off]
