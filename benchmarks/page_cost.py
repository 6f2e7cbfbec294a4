"""The requests of the web UI, with a million finished and ten thousand running workflows: the time of each answer, and
the cost of an open page for the coordinator.

The coordinator writes a small file, and this module copies its rows, which gives the content of many workflows.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import psutil

FINISHED = 1_000_000
RUNNING = 10_000
#: The number of finished workflows that the coordinator writes before rows are copied, and of running workflows.
SEED = 100
REPEATS = 9
OPEN_S = 30
#: The rules for the refresh of a view, as in `page.js`.
LIVE_S = 2.0
SLOW_COST = 20
MAX_S = 15.0
FLOW = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
#: The tables whose rows are copied, and the key columns that each copy must change.
TABLES = {"workflow": ("pk", "last_task"), "workflow_data": ("pk",), "task": ("pk", "workflow"), "task_data": ("pk",)}


def _serve(database: str, ready: Connection) -> None:
    from conductor.coordinator import Coordinator

    with Coordinator(database=database) as coordinator:
        ready.send(coordinator.url)
        ready.recv()


@contextlib.contextmanager
def _server(database: Path) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(str(database), theirs))
    process.start()
    try:
        with httpx.Client(base_url=ours.recv(), timeout=60) as api:
            yield api, psutil.Process(process.pid)
    finally:
        ours.send("stop")
        process.join()


def _make(database: Path) -> None:
    with _server(database) as (api, _):
        for number in range(2 * SEED):
            asked = {"name": "flow", "workflowDef": FLOW, "correlationId": f"order-{number}"}
            api.post("/workflow", json=asked).raise_for_status()
        for task in api.get(f"/tasks/poll/batch/work?count={SEED}&timeout=0&workerid=bench").json():
            known = {name: task[name] for name in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
            api.post("/tasks", json={**known, "status": "COMPLETED"}).raise_for_status()
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA synchronous = OFF")
        _multiply(db, FINISHED, "ended_ms IS NOT NULL")
        _multiply(db, RUNNING, "ended_ms IS NULL")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _multiply(db: sqlite3.Connection, count: int, which: str) -> None:
    """Copy the workflows that match the condition `which`, with new keys, until there are `count`."""
    first, last = db.execute(f"SELECT min(pk), max(pk) FROM workflow WHERE {which}").fetchone()
    have = last - first + 1
    shift = db.execute("SELECT max(pk) FROM workflow").fetchone()[0] - first + 1
    while have < count:
        step = min(last - first + 1, count - have)
        for table, keys in TABLES.items():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            moved = ", ".join(f"{name} + {shift}" if name in keys else name for name in columns)
            between = f"{keys[-1] if table == 'task' else 'pk'} BETWEEN {first} AND {first + step - 1}"
            db.execute(f"INSERT INTO {table} SELECT {moved} FROM {table} WHERE {between}")
        have, shift = have + step, shift + step
    db.commit()


def _ms(api: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    api.get(path).raise_for_status()
    return (time.perf_counter() - began) * 1000


def _cost_of_an_open_page(api: httpx.Client, server: psutil.Process) -> float:
    """Return the CPU time of the server as a share of one core, while a page is open."""
    began, before = time.perf_counter(), sum(server.cpu_times()[:2])
    while time.perf_counter() - began < OPEN_S:
        took_s = (_ms(api, "/view/workflows") + _ms(api, "/view/overview")) / 1000
        time.sleep(max(LIVE_S, min(SLOW_COST * took_s, MAX_S)))
    return (sum(server.cpu_times()[:2]) - before) / (time.perf_counter() - began)


def main() -> None:
    """Print the time of each request, and the cost of an open page."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "page.db"
        _make(database)
        with _server(database) as (api, server):
            last = api.get("/view/workflows").json()["results"][-1]["workflowId"]
            asked = {
                "first view": "/view/workflows",
                "the bar": "/view/overview",
                "queues": "/view/queues",
                "older": f"/view/workflows?before={last}",
                "running": "/view/workflows?status=RUNNING",
                "failed (none)": "/view/workflows?status=FAILED",
                "search: a word": "/view/workflows?text=order-1",
                "search: nothing": "/view/workflows?text=nothing",
                "one workflow": f"/view/workflow/{last}",
            }
            print(f"{FINISHED:,} finished, {RUNNING:,} running; {database.stat().st_size / 1e6:.0f} MB")
            for name, path in asked.items():
                print(f"{name:16}{statistics.median(_ms(api, path) for _ in range(REPEATS)):8.1f} ms")
            print(f"an open page costs {_cost_of_an_open_page(api, server):.2%} of a core")


if __name__ == "__main__":
    main()
