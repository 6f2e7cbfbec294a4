"""The cost of poll and report on a coordinator with a thousand to a million finished or queued workflows, as
multiples of an empty file; its memory then.

The files are made by the coordinator itself and then multiplied row by row: they hold what it would have written.
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
#: Rows the coordinator writes itself before they are multiplied.
SEED = 1000
#: Each round polls and reports this many tasks one by one, the way that costs most per task.
TASKS = 250
QUICK_TASKS = 100
#: Tables whose rows are multiplied, and which of their columns are keys that move along.
TABLES = {
    "workflow": ("pk", "last_task"),
    "workflow_data": ("pk",),
    "task": ("pk", "workflow"),
    "task_data": ("pk",),
}


def measure(run: Run) -> None:
    """Servers on all files side by side, each at work in its turn."""
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
    """The name in the table, and the database file."""
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
    """As many come as go, so that the file stays what it is; only poll and report are measured."""
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
    """Double all rows until there are `count`; every copy has keys of its own."""
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
