"""What the coordinator's work costs on a large file: poll + report with a million finished and 100,000 queued tasks,
against an empty file, in turns; its memory; how often it wakes up with nothing to do.

The large files are made by the coordinator itself and then multiplied row by row: they hold what it would have written.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks._server import _serve

FINISHED = 1_000_000
QUEUED = 100_000
#: Rows the coordinator writes itself before they are multiplied.
SEED = 1000
ROUNDS = 8
#: Each round polls and reports this many tasks one by one, the way that costs most per task.
TASKS = 250
IDLE_S = 20

FLOW = {
    "name": "flow",
    "tasks": [{"name": "work", "taskReferenceName": "one", "inputParameters": {"n": "${workflow.input.n}"}}],
}
#: Tables whose rows are multiplied, and which of their columns are keys that move along.
TABLES = {
    "workflow": ("pk", "last_task"),
    "workflow_data": ("pk",),
    "task": ("pk", "workflow"),
    "task_data": ("pk",),
    "report": ("task",),
}


@dataclass
class Server:
    """One coordinator in a process of its own."""

    url: str
    process: psutil.Process
    api: httpx.Client
    cpu_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def start(self, count: int) -> None:
        for n in range(count):
            self.api.post("/workflow/flow", json={"n": n}).raise_for_status()

    def work_on(self, count: int) -> None:
        for _ in range(count):
            (task,) = self.api.get("/tasks/poll/batch/work?timeout=0&workerid=bench").json()
            self.api.post("/tasks", json=_report(task)).raise_for_status()

    def round(self) -> None:
        """As many come as go, so that the file stays what it is; only poll and report are measured."""
        self.start(TASKS)
        cpu_s, began = self.cpu_s(), time.perf_counter()
        self.work_on(TASKS)
        self.wall_us.append((time.perf_counter() - began) / TASKS * 1e6)
        self.cpu_us.append((self.cpu_s() - cpu_s) / TASKS * 1e6)

    def wake_ups(self) -> int:
        """How often any of its threads has gone to sleep so far."""
        found = 0
        for status in Path(f"/proc/{self.process.pid}/task").glob("*/status"):
            line = next(line for line in status.read_text().splitlines() if line.startswith("voluntary"))
            found += int(line.split()[1])
        return found


def _report(task: dict[str, Any]) -> dict[str, Any]:
    known = {name: task[name] for name in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
    return {**known, "status": "COMPLETED", "outputData": {"done": True}, "reportId": task["leaseId"]}


@contextlib.contextmanager
def _server(database: Path) -> Iterator[Server]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(str(database), theirs))
    process.start()
    try:
        url = ours.recv()
        with httpx.Client(base_url=url, timeout=60) as api:
            api.post("/metadata/workflow?overwrite=true", json=FLOW).raise_for_status()
            yield Server(url, psutil.Process(process.pid), api)
    finally:
        ours.send("stop")
        process.join()


def _multiply(database: Path, count: int) -> None:
    """Double all rows until there are `count`; every copy has keys of its own."""
    db = sqlite3.connect(database)
    have = db.execute("SELECT count(*) FROM task").fetchone()[0]
    while have < count:
        step = min(have, count - have)
        for table, keys in TABLES.items():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            moved = ", ".join(f"{name} + {have}" if name in keys else name for name in columns)
            db.execute(f"INSERT INTO {table} SELECT {moved} FROM {table} WHERE {keys[0]} <= {step}")
        have += step
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _make(database: Path, count: int, *, finished: bool) -> None:
    with _server(database) as server:
        server.start(SEED)
        if finished:
            server.work_on(SEED)
    _multiply(database, count)


def _measure(servers: dict[str, Server]) -> None:
    for number in range(ROUNDS + 1):
        for server in servers.values():
            server.round()
            if number == 0:  # warm-up
                server.cpu_us.clear()
                server.wall_us.clear()


def _print_cost(servers: dict[str, Server]) -> None:
    empty = servers["an empty file"]
    for name, server in servers.items():
        cpu, wall = statistics.median(server.cpu_us), statistics.median(server.wall_us)
        # Round by round, so that what else the machine does falls on both sides of a ratio alike.
        cpu_ratio = statistics.median(a / b for a, b in zip(server.cpu_us, empty.cpu_us, strict=True))
        wall_ratio = statistics.median(a / b for a, b in zip(server.wall_us, empty.wall_us, strict=True))
        print(
            f"{name:28} {cpu:6.0f} µs CPU, {wall:6.0f} µs in all for poll + report: "
            f"{cpu_ratio:.2f} x, {wall_ratio:.2f} x; {server.process.memory_info().rss / 1e6:.0f} MB"
        )


def _print_idle(server: Server) -> None:
    # Idle means idle: kept-alive connections of the measurement are closed by the coordinator only after 75 s.
    before = server.wake_ups()
    time.sleep(IDLE_S)
    print(f"idle for {IDLE_S} s: {server.wake_ups() - before} wake-ups")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        files = {"an empty file": 0, f"{FINISHED:,} finished tasks": FINISHED, f"{QUEUED:,} queued tasks": QUEUED}
        servers = {}
        for number, (name, count) in enumerate(files.items()):
            database = Path(directory) / f"{number}.db"
            if count:
                _make(database, count, finished=count == FINISHED)
                print(f"{name}: {database.stat().st_size / 1e6:.0f} MB on disk")
            servers[name] = stack.enter_context(_server(database))
        _measure(servers)
        _print_cost(servers)
        _print_idle(servers[f"{QUEUED:,} queued tasks"])


if __name__ == "__main__":
    main()
