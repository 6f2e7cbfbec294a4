"""The cost of poll and report, and the memory, of a coordinator with up to a million finished or queued workflows.

The figures are multiples of those with an empty file. The coordinator writes a small file, and this module copies its
rows, which gives the same content as many workflows would.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._rivals import WORKFLOW
from benchmarks._run import Run
from benchmarks._server import TASK, Server, server, simple

PART = "growth"
CPU, WALL, MEMORY = "CPU of the server, poll and report one by one", "wall time of the same", "memory of the server"
EMPTY = "an empty file"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
#: The number of workflows that the coordinator writes, before their rows are copied.
SEED = 1000
#: The number of tasks per round. They are polled and reported one by one, which costs more per task than batches.
TASKS = 250
QUICK_TASKS = 100
#: The tables whose rows are copied, and the key columns that each copy must change.
TABLES = {
    "workflow": ("pk", "last_task"),
    "workflow_data": ("pk",),
    "task": ("pk", "workflow"),
    "task_data": ("pk",),
}


def measure(run: Run) -> None:
    """Run one server per file at the same time, and measure them one after the other in each round."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        files = _files(Path(directory), QUICK_SIZES if run.quick else SIZES)
        servers = {name: stack.enter_context(server(database)) for name, database in files.items()}
        for found in servers.values():
            found.define(WORKFLOW, simple())
        for number in range(run.few + 1):
            print(f"  round {number} of {run.few} (0: to warm up)", flush=True)
            for name, found in servers.items():
                _round(run if number else None, name, found, QUICK_TASKS if run.quick else TASKS)


def _files(directory: Path, sizes: tuple[int, ...]) -> dict[str, Path]:
    """Return the database file for each name in the table."""
    files = {EMPTY: directory / "empty.db"}
    for kind in ("finished", "queued"):
        seed = directory / f"{kind}.db"
        _make(seed, finished=kind == "finished")
        for size in sizes:
            print(f"  making a file with {size:,} {kind}", flush=True)
            files[f"{size:,} {kind}"] = database = directory / f"{kind}-{size}.db"
            shutil.copy(seed, database)
            _multiply(database, size)
    return files


def _round(run: Run | None, name: str, found: Server, tasks: int) -> None:
    """Start as many workflows as end, so that the size of the file stays the same. Measure only polls and reports."""
    found.start(WORKFLOW, tasks)
    cpu_s, began = found.family.cpu_s(), time.perf_counter()
    work_on(found, tasks)
    wall_us = (time.perf_counter() - began) / tasks * 1e6
    cpu_us = (found.family.cpu_s() - cpu_s) / tasks * 1e6
    if run is not None:
        run.figures.add(PART, CPU, name, cpu_us, "µs a task", base=EMPTY)
        run.figures.add(PART, WALL, name, wall_us, "µs a task", base=EMPTY)
        run.figures.add(PART, MEMORY, name, found.family.memory_mb(), "MB", base=EMPTY)


def work_on(found: Server, count: int, batch: int = 1) -> None:
    """Poll and report `batch` tasks at a time."""
    for _ in range(0, count, batch):
        tasks = found.connection.call("GET", f"/tasks/poll/batch/{TASK}?count={batch}&timeout=0&workerid=bench")
        if batch == 1:
            found.connection.call("POST", "/tasks", _report(tasks[0]))
        else:
            found.connection.call("POST", "/tasks/reports", [_report(task) for task in tasks])


def _report(task: dict[str, Any]) -> dict[str, Any]:
    known = {name: task[name] for name in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
    return {**known, "status": "COMPLETED", "outputData": {"done": True}, "reportId": task["leaseId"]}


def _make(database: Path, *, finished: bool) -> None:
    with server(database) as found:
        found.define(WORKFLOW, simple())
        found.start(WORKFLOW, SEED)
        if finished:
            work_on(found, SEED, batch=50)


def _multiply(database: Path, count: int) -> None:
    """Copy all rows with new keys until there are `count` workflows."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA synchronous = OFF")
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
