"""A chaos run: jobs of two steps, workers, a bad network, attacks on processes and disks."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .attacks import Attacks, Targets
from .checks import Checks, waiting_results
from .disks import Disks
from .processes import CoordinatorProcess, WorkerProgram
from .proxy import CALM, Faults, Proxy
from .server import LONG_TIMEOUT_S, Server

HERE = Path(__file__).parent
#: Options of the workers under test: short waits.
ENVIRONMENT = {
    "CONDUCTOR_WORKER_UPDATE_RETRY_DELAY_SECONDS": "0.3",
    "CONDUCTOR_WORKER_ALL_SHUTDOWN_GRACE_SECONDS": "1",
    "CONDUCTOR_HTTP_TIMEOUT": "3",
}
#: How long the journals have to be worked off once everything is calm.
SETTLE_S = 60.0
TELL_EVERY_S = 15.0


@dataclass(frozen=True)
class Plan:
    """How much of everything. Each job is a workflow of two tasks, one for a `def` and one for an `async def`."""

    jobs: int
    seed: int
    #: The run fails if it takes longer.
    limit_s: float
    #: The jobs are started evenly over this time.
    spread_s: float = 0.0
    #: Seconds between two attacks.
    calm_s: tuple[float, float] = (1.0, 4.0)
    #: The number of attacks of a run.
    attacks: int = 1_000_000
    #: The option of the workers. With it, timeouts are long, and some functions block the event loop.
    prefetch: int = 0
    faults: Faults = field(default_factory=Faults)
    #: Worker programs: name and the command without address and execution log.
    programs: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("together", (sys.executable, str(HERE / "workers.py"), "{url}", "{execution_log}", "together")),
        ("apart", (sys.executable, str(HERE / "workers.py"), "{url}", "{execution_log}", "apart")),
    )


def run(plan: Plan, directory: Path, tell: Callable[[str], None] = lambda _line: None) -> Checks:
    """Carry it out in this directory. `tell` hears now and then how far it is."""
    seeds = random.Random(plan.seed)
    for_proxy, for_jobs, for_attacks = (random.Random(seeds.random()) for _ in range(3))
    started = time.monotonic()
    with (
        Proxy(plan.faults, for_proxy) as proxy,
        Disks(directory, lambda: coordinator.pid) as disks,
        CoordinatorProcess(
            disks.database / "coordinator.db",
            directory / "coordinator.log",
            on_port=lambda port: setattr(proxy, "upstream_port", port),
        ) as coordinator,
        Server(coordinator) as server,
    ):
        server.define(LONG_TIMEOUT_S if plan.prefetch else 0)
        with _programs(plan, proxy.port, directory, disks.journals) as programs:
            targets = Targets(server, coordinator, programs, disks.of_coordinator, disks.of_journals)
            with Attacks(targets, for_attacks, plan.calm_s, plan.attacks) as attacks:
                progress = _Progress(server, attacks, tell)
                server.start_jobs(plan.jobs, plan.spread_s, for_jobs, progress, blocks=bool(plan.prefetch))
                unfinished = server.wait(started + plan.limit_s, progress)
            proxy.faults = CALM
            _settle(disks.journals)
            for program in programs:
                program.drain()
            left_behind = [line for program in programs for line in program.wait_gone()]
        checks = Checks(
            seed=plan.seed,
            seconds=time.monotonic() - started,
            execution_log=directory / "execution_log",
            waiting=waiting_results(disks.journals),
            seen=proxy.seen,
            fates=proxy.fates,
            requests=proxy.requests,
            workflows=[server.get(f"/workflow/{id_}?includeTasks=true") for id_ in server.jobs.values()],
            unfinished=unfinished,
            attacks=attacks.counts,
            full_disks_noticed=attacks.full_disks_noticed,
            disks=disks.how,
            killed_pids={pid for program in programs for pid in program.killed_pids},
            stubborn=sum(program.stubborn for program in programs),
            left_behind=left_behind,
        )
        checks.judge_again(lambda reports: server.post("/tasks/reports", reports))
        checks.exit_status = coordinator.stop()
    return checks


@contextlib.contextmanager
def _programs(plan: Plan, port: int, directory: Path, journals: Path) -> Iterator[list[WorkerProgram]]:
    places = {"url": f"http://127.0.0.1:{port}/api", "execution_log": str(directory / "execution_log")}
    environment = {**ENVIRONMENT, "CONDUCTOR_WORKER_JOURNAL_DIR": str(journals)}
    environment["CONDUCTOR_WORKER_ALL_PREFETCH"] = str(plan.prefetch)
    programs = [
        WorkerProgram(name, [part.format(**places) for part in command], directory, environment)
        for name, command in plan.programs
    ]
    try:
        yield programs
    finally:
        for program in programs:
            program.end()


def _settle(journals: Path) -> None:
    """Wait until the journals of the living are worked off: nothing else waits for a verdict."""
    deadline = time.monotonic() + SETTLE_S
    while waiting_results(journals) and time.monotonic() < deadline:
        time.sleep(0.2)


class _Progress:
    """Called often: says now and then how far it is, and ends the run when the attacks have come to grief."""

    def __init__(self, server: Server, attacks: Attacks, tell: Callable[[str], None]) -> None:
        self._server = server
        self._attacks = attacks
        self._tell = tell
        self._next_s = 0.0

    def __call__(self) -> None:
        self._attacks.check()
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + TELL_EVERY_S
            jobs, attacks = len(self._server.jobs), self._attacks.counts.total()
            self._tell(f"{jobs} jobs started, the first {self._server.over} of them are over; {attacks} attacks")
