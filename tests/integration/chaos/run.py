"""One chaos run: jobs of two steps, workers, a lying network, processes that die. What happened comes back."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .findings import Findings
from .processes import CoordinatorProcess, WorkerProgram
from .proxy import CALM, Faults, Proxy

HERE = Path(__file__).parent
#: Short, so that leases are really lost.
RESPONSE_TIMEOUT_S = 2
RETRIES = 30
TERMINAL = ("COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED")
#: What the workers under test are told, beside the address: short waits.
ENVIRONMENT = {
    "CONDUCTOR_WORKER_UPDATE_RETRY_DELAY_SECONDS": "0.3",
    "CONDUCTOR_WORKER_ALL_SHUTDOWN_GRACE_SECONDS": "1",
    "CONDUCTOR_HTTP_TIMEOUT": "3",
}


@dataclass(frozen=True)
class Plan:
    """How much of everything. Each job is a workflow of two tasks, one for a `def` and one for an `async def`."""

    jobs: int
    seed: int
    #: It is over by then, or it has failed.
    limit_s: float
    #: The jobs are started evenly over this time.
    spread_s: float = 0.0
    #: Seconds between two kills.
    calm_s: tuple[float, float] = (2.0, 5.0)
    #: After so many kills and drains the processes are left alone.
    blows: int = 1_000_000
    faults: Faults = field(default_factory=Faults)
    #: Worker programs: name and the command without address and ledger.
    programs: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("together", (sys.executable, str(HERE / "workers.py"), "{url}", "{ledger}", "together")),
        ("apart", (sys.executable, str(HERE / "workers.py"), "{url}", "{ledger}", "apart")),
    )


def run(plan: Plan, directory: Path) -> Findings:
    """Carry it out in this directory."""
    started = time.monotonic()
    with Proxy(plan.faults, plan.seed) as proxy:
        coordinator = CoordinatorProcess(directory, lambda port: setattr(proxy, "upstream_port", port))
        server = Server(coordinator)
        server.define()
        with _programs(plan, proxy.port, directory) as programs:
            mischief = Mischief(plan, server, programs)
            with mischief:
                server.start_jobs(plan)
                unfinished = server.wait(started + plan.limit_s)
            proxy.faults = CALM
            _settle(directory / "journal", deadline=time.monotonic() + 60)
            for program in programs:
                program.drain()
        findings = Findings(
            seed=plan.seed,
            seconds=time.monotonic() - started,
            ledger=directory / "ledger",
            journal=directory / "journal",
            seen=proxy.seen,
            fates=proxy.fates,
            requests=proxy.requests,
            workflows=[server.get(f"/workflow/{id_}?includeTasks=true") for id_ in server.jobs.values()],
            unfinished=unfinished,
            kills={"coordinator": coordinator.kills, **{p.name: p.kills for p in programs}},
            killed_pids={pid for program in programs for pid in program.killed_pids},
            stubborn=sum(program.stubborn for program in programs),
        )
        findings.judge_again(lambda reports: server.post("/tasks/reports", reports))
        findings.exit_status = coordinator.stop()
    return findings


@contextlib.contextmanager
def _programs(plan: Plan, port: int, directory: Path) -> Iterator[list[WorkerProgram]]:
    places = {"url": f"http://127.0.0.1:{port}/api", "ledger": str(directory / "ledger")}
    environment = {**ENVIRONMENT, "CONDUCTOR_WORKER_JOURNAL_DIR": str(directory / "journal")}
    programs = [
        WorkerProgram(name, [part.format(**places) for part in command], directory, environment)
        for name, command in plan.programs
    ]
    try:
        yield programs
    finally:
        for program in programs:
            program.end()


def _settle(journal: Path, deadline: float) -> None:
    """Wait until the journals of the living are worked off: nothing else waits for a verdict."""
    from .findings import waiting_results

    while waiting_results(journal) and time.monotonic() < deadline:
        time.sleep(0.2)


class Server:
    """The coordinator as its clients see it: directly, and again and again until it answers."""

    def __init__(self, process: CoordinatorProcess) -> None:
        self.process = process
        self.jobs: dict[int, str] = {}
        self._open: set[str] = set()

    def define(self) -> None:
        """Two task types, one workflow."""
        names = ("chaos_sync", "chaos_async")
        definitions = [
            {
                "name": name,
                "retryCount": RETRIES,
                "retryLogic": "FIXED",
                "retryDelaySeconds": 0,
                "responseTimeoutSeconds": RESPONSE_TIMEOUT_S,
                "timeoutSeconds": 0,
            }
            for name in names
        ]
        self.post("/metadata/taskdefs", definitions)
        steps = [
            {
                "name": name,
                "taskReferenceName": name,
                "type": "SIMPLE",
                "inputParameters": {"plan": f"${{workflow.input.{name}}}"},
            }
            for name in names
        ]
        self.post("/metadata/workflow", {"name": "chaos", "version": 1, "schemaVersion": 2, "tasks": steps})

    def start_jobs(self, plan: Plan) -> None:
        """Start every job once, however often it takes: the key makes a second start of the same job none."""
        rng, began = random.Random(plan.seed), time.monotonic()
        for job in range(plan.jobs):
            time.sleep(max(0.0, began + plan.spread_s * job / plan.jobs - time.monotonic()))
            given = {name: _step(rng, job, name) for name in ("chaos_sync", "chaos_async")}
            start = {"name": "chaos", "version": 1, "input": given, "idempotencyKey": str(job)}
            self.jobs[job] = self.post("/workflow", start)
            self._open.add(self.jobs[job])

    def wait(self, deadline: float) -> set[str]:
        """Wait until every job is over; those that are not when the time is."""
        while self._open and time.monotonic() < deadline:
            for id_ in list(self._open):
                if self.get(f"/workflow/{id_}/status")["status"] in TERMINAL:
                    self._open.discard(id_)
            time.sleep(0.5)
        return set(self._open)

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, body)

    def terminate(self, id_: str) -> None:
        """End a workflow from outside; one that is over stays as it is."""
        self._call("DELETE", f"/workflow/{id_}?reason=chaos")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._once(method, path, body)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # it is being restarted

    def _once(self, method: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=30)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, "/api" + path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status < 300 or (method == "DELETE" and answer.status == 409), (method, path, answer.status, text)
        return json.loads(text) if text[:1] in ("{", "[") else text


def _step(rng: random.Random, job: int, name: str) -> dict[str, Any]:
    """What one step will be like: mostly quick, some longer than their lease, some failing first."""
    seconds = rng.choice((0.01, 0.05, 0.1, 0.2)) if rng.random() < 0.95 else rng.uniform(0.5, 1.6 * RESPONSE_TIMEOUT_S)
    return {
        "job": job,
        "step": name,
        "seconds": seconds,
        "failures": rng.choice((1, 1, 2)) if rng.random() < 0.1 else 0,
        "refused": rng.random() < 0.01,
        "rounds": 1 if rng.random() < 0.03 else 0,
    }


class Mischief:
    """Kills the coordinator and the workers, drains a worker now and then, terminates workflows: for the block."""

    def __init__(self, plan: Plan, server: Server, programs: Sequence[WorkerProgram]) -> None:
        self._plan = plan
        self._server = server
        self._programs = programs
        self._rng = random.Random(plan.seed + 1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._failure: BaseException | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            for _ in range(self._plan.blows):
                if self._over.wait(self._rng.uniform(*self._plan.calm_s)):
                    return
                self._rng.choice((self._kill_coordinator, self._kill_worker, self._kill_worker, self._drain_worker))()
                self._terminate_some()
        except BaseException as error:
            self._failure = error

    def _kill_coordinator(self) -> None:
        self._server.process.kill()
        time.sleep(self._rng.uniform(0, 1))
        self._server.process.start()

    def _kill_worker(self) -> None:
        program = self._rng.choice(self._programs)
        if program.kill_one(self._rng):
            program.start()

    def _drain_worker(self) -> None:
        program = self._rng.choice(self._programs)
        program.drain()
        program.start()

    def _terminate_some(self) -> None:
        started = list(self._server.jobs.values())
        for id_ in self._rng.sample(started, min(len(started), max(1, self._plan.jobs // 500))):
            self._server.terminate(id_)
