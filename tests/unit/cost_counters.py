"""The cost of a task, counted and not timed: equal on fast, slow and busy machines.

Everything is counted over many tasks and given per task. What else the machine does can make an event loop turn once
more, or tear apart what travels together, so that some runs count more; what the code itself does more of is in every
run. So each figure is the smallest of several runs.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import os
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import msgspec
import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateCompleted
from conductor.client.http.async_rest import AsyncRESTClientObject, Call, Response
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator, server
from conductor.testing import FakeClock

TASK = "counted"
#: Tasks that a worker does while it is counted.
TASKS = 200
#: Callbacks that it takes to see that a coordinator has nothing to do.
QUIET = 8
#: Runs at most, until one is within the budgets.
RUNS = 10


@dataclass(frozen=True)
class Cost:
    """Per task, or per request where a row is about requests."""

    #: Executions of SQL statements that read or write rows.
    statements: float = 0
    savepoints: float = 0
    commits: float = 0
    #: HTTP requests.
    requests: float = 0
    #: Writes to the journal.
    writes: float = 0
    #: Callbacks that the event loop has run.
    callbacks: float = 0
    #: Memory blocks that are left without garbage collection: kept objects and reference cycles.
    blocks: float = 0

    def over(self, budget: Cost) -> dict[str, tuple[float, float]]:
        """Return the counts that exceed the budget: name to (counted, allowed)."""
        both = zip(fields(self), astuple(self), astuple(budget), strict=True)
        return {field.name: (counted, allowed) for field, counted, allowed in both if counted > allowed + 1e-9}


def cheapest(count: Callable[[], dict[str, Cost]], budgets: Mapping[str, Cost], runs: int = RUNS) -> dict[str, Cost]:
    """The smallest figures of several runs; no more runs than it takes to stay within the budgets."""
    found: dict[str, Cost] = {}
    for _ in range(runs):
        for name, cost in count().items():
            columns = zip(astuple(cost), astuple(found.get(name, cost)), strict=True)
            found[name] = Cost(*(round(min(column), 3) for column in columns))
        if not any(cost.over(budgets[name]) for name, cost in found.items()):
            break
    return found


class Counter:
    """Counts while it is on, from whatever thread."""

    def __init__(self) -> None:
        self.statements = self.savepoints = self.commits = self.requests = self.writes = self.callbacks = 0

    def statement(self, text: str) -> None:
        """For `sqlite3.Connection.set_trace_callback`; called once for each row of an `executemany`."""
        word = text.split(None, 1)[0].upper()
        if word == "COMMIT":
            self.commits += 1
        elif word == "SAVEPOINT":
            self.savepoints += 1
        elif word not in ("BEGIN", "RELEASE", "ROLLBACK", "PRAGMA"):
            self.statements += 1

    def now(self) -> Cost:
        """All that was counted so far."""
        return Cost(
            self.statements,
            self.savepoints,
            self.commits,
            self.requests,
            self.writes,
            self.callbacks,
            sys.getallocatedblocks(),
        )

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose callbacks are counted."""
        return _CountedLoop(self)


def between(before: Cost, after: Cost, count: int) -> Cost:
    """Return the difference divided by `count`."""
    return Cost(*((there - here) / count for here, there in zip(astuple(before), astuple(after), strict=True)))


class _CountedLoop(asyncio.SelectorEventLoop):
    """Python's own event loop, for it can be looked into; that of C runs the same callbacks."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def _call_soon(self, *args: Any) -> Any:
        self._counter.callbacks += 1
        return super()._call_soon(*args)  # type: ignore[misc]

    def _add_callback(self, handle: Any) -> None:
        # How many calls from other threads share one wake-up is a matter of luck; the calls themselves are counted.
        if handle._callback != self._read_from_self:  # type: ignore[attr-defined]
            self._counter.callbacks += 1
        super()._add_callback(handle)  # type: ignore[misc]


@contextmanager
def no_collection() -> Iterator[None]:
    """Garbage stays where it is, so that it can be counted."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ask(connection: socket.socket, method: str, path: str, body: Any = None) -> bytes:
    """The request is sent in one piece: two pieces would arrive together or not."""
    content = b"" if body is None else msgspec.json.encode(body)
    head = f"{method} /api{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)
    answer = http.client.HTTPResponse(connection, method=method)
    answer.begin()
    said = answer.read()
    assert answer.status < 300, said
    return said


# -- the coordinator


class CountedCoordinator:
    """A coordinator on a real socket, whose clock stands still; requests come one after the other.

    It keeps its rows in memory: the statements are the same, and the disk is not waited for.
    """

    def __init__(self, counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counter = counter
        self.clock = FakeClock()
        self._loops: list[asyncio.AbstractEventLoop] = []
        connect = sqlite3.connect

        def traced(*args: Any, **options: Any) -> sqlite3.Connection:
            db: sqlite3.Connection = connect(*args, **options)
            db.set_trace_callback(counter.statement)
            return db

        def run_loop(main: Any) -> None:
            with asyncio.Runner(loop_factory=counter.loop) as runner:
                self._loops.append(runner.get_loop())
                runner.run(main)

        monkeypatch.setattr(sqlite3, "connect", traced)
        monkeypatch.setattr(server, "run_event_loop", run_loop)
        self.coordinator = Coordinator(clock=self.clock)

    def __enter__(self) -> CountedCoordinator:
        self.coordinator.start()
        self._connection = self._connect()
        task = {"name": TASK, "taskReferenceName": "one", "type": "SIMPLE"}
        task["inputParameters"] = {"n": "${workflow.input.n}"}  # type: ignore[assignment]
        self.call("POST", "/metadata/workflow", {"name": TASK, "version": 1, "schemaVersion": 2, "tasks": [task]})
        self.work_off(50, 50)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.coordinator.stop()

    def _connect(self) -> socket.socket:
        return socket.create_connection((self.coordinator.host, self.coordinator.port), 60)

    def call(self, method: str, path: str, body: Any = None, connection: socket.socket | None = None) -> bytes:
        """One request."""
        return ask(connection or self._connection, method, path, body)

    def quiet(self) -> None:
        """Wait until what was begun by the last request has ended. That takes QUIET callbacks itself."""
        for _ in range(2):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loops[0]).result(60)

    def cost_of(self, action: Callable[[], object], count: int) -> Cost:
        """Return the cost of `action` divided by `count`."""
        self.quiet()
        before = self.counter.now()
        action()
        self.quiet()
        counted = between(before, self.counter.now(), count)
        return replace(counted, callbacks=counted.callbacks - QUIET / count)

    # -- what workers and clients do

    def start(self, count: int) -> None:
        for n in range(count):
            self.call("POST", f"/workflow/{TASK}", {"n": n})

    def poll(self, count: int, connection: socket.socket | None = None) -> list[dict[str, Any]]:
        path = f"/tasks/poll/batch/{TASK}?count={count}&timeout=5000&workerid=w"
        tasks = msgspec.json.decode(self.call("GET", path, connection=connection), type=list[dict[str, Any]])
        assert len(tasks) == count
        return tasks

    def polls(self, batch: int, repeats: int) -> list[list[dict[str, Any]]]:
        return [self.poll(batch) for _ in range(repeats)]

    def report(self, tasks: list[dict[str, Any]]) -> None:
        kept = ("taskId", "workflowInstanceId", "leaseId", "workerId")
        more = {"status": "COMPLETED", "outputData": {"n": 1}}
        reports = [{**{key: task[key] for key in kept}, **more, "reportId": task["taskId"]} for task in tasks]
        if len(reports) == 1:
            self.call("POST", "/tasks", reports[0])
        else:
            self.call("POST", "/tasks/reports", reports)

    def reports(self, polled: list[list[dict[str, Any]]]) -> None:
        for tasks in polled:
            self.report(tasks)

    def work_off(self, count: int, batch: int) -> None:
        """Tasks from their starts to their ends."""
        self.start(count)
        for _ in range(count // batch):
            self.report(self.poll(batch))

    def pick_up(self, count: int) -> list[dict[str, Any]]:
        """Starts that a parked poll waits for, each by itself."""
        found: list[dict[str, Any]] = []
        parked = self._connect()
        for _ in range(count):
            waiting = threading.Thread(target=lambda: found.extend(self.poll(1, parked)))
            waiting.start()
            self.clock.wait_sleeping(2)  # the poll, and the coordinator's own timer
            self.start(1)
            waiting.join(60)
        parked.close()
        return found


def costs_of_coordinator(found: CountedCoordinator) -> dict[str, Cost]:
    """Run the requests of a client and of a worker once, in their usual sizes."""
    costs: dict[str, Cost] = {}
    for batch, repeats in ((50, 1), (10, 4), (1, 10)):
        count = batch * repeats
        polled: list[list[dict[str, Any]]] = []
        started = found.cost_of(lambda: found.start(count), count)
        costs.setdefault("start", started)
        costs[f"poll of {batch}"] = found.cost_of(lambda: polled.extend(found.polls(batch, repeats)), count)
        costs[f"report of {batch}"] = found.cost_of(lambda: found.reports(polled), count)
    picked_up: list[dict[str, Any]] = []
    costs["start that a parked poll waits for"] = found.cost_of(lambda: picked_up.extend(found.pick_up(10)), 10)
    found.report(picked_up)
    # Memory is measured over the whole life of a task: in between, the task itself is in memory.
    costs = {name: replace(cost, blocks=0) for name, cost in costs.items()}
    with no_collection():
        costs["whole task, batches of 50"] = found.cost_of(lambda: found.work_off(100, 50), 100)
        costs["whole task, batches of 10"] = found.cost_of(lambda: found.work_off(50, 10), 50)
    return costs


# -- the worker


async def coroutine(n: int) -> dict[str, int]:
    return {"n": n}


def function(n: int) -> dict[str, int]:
    return {"n": n}


class _Stretch(TaskRunnerEventsListener):
    """Counts between two verdicts, of which the first is far enough from the start."""

    def __init__(self, counter: Counter, first: int, count: int) -> None:
        self._counter = counter
        self._left = first + count
        self._count = count
        self._before: Cost | None = None
        self.cost: Cost | None = None
        self.over = asyncio.Event()

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self._left -= 1
        if self._left == self._count:
            self._before = self._counter.now()
        elif self._left == 0 and self._before is not None:
            self.cost = between(self._before, self._counter.now(), self._count)
            self.over.set()


@contextmanager
def counted_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    """Requests and writes of this process are counted in the block."""
    counter, send, write = Counter(), AsyncRESTClientObject.send, os.write

    async def counted_send(self: AsyncRESTClientObject, call: Call) -> Response:
        counter.requests += 1
        return await send(self, call)

    def counted_write(file: int, data: bytes) -> int:
        counter.writes += 1
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncRESTClientObject, "send", counted_send)
        patched.setattr(os, "write", counted_write)
        yield counter


def cost_of_worker(url: str, counter: Counter, call: Any, thread_count: int) -> Cost:
    """Run tasks of a queue that is never empty, on Python's own event loop, with journal and events."""
    warm_up = 2 * thread_count

    async def run() -> Cost:
        stretch = _Stretch(counter, warm_up, TASKS)
        worker = Worker(TASK, call, thread_count=thread_count)
        async with TaskHandlerAsyncIO([worker], Configuration(url), event_listeners=[stretch]):
            await asyncio.wait_for(stretch.over.wait(), 120)
        assert stretch.cost is not None
        return stretch.cost

    _fill(url, warm_up + TASKS + thread_count)
    with asyncio.Runner(loop_factory=counter.loop) as runner, no_collection():
        return runner.run(run())


def _fill(url: str, count: int) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/api").partition(":")
    task = {"name": TASK, "taskReferenceName": "one", "type": "SIMPLE", "inputParameters": {"n": 1}}
    with socket.create_connection((host, int(port)), 60) as connection:
        definition = {"name": TASK, "version": 1, "schemaVersion": 2, "tasks": [task]}
        ask(connection, "POST", "/metadata/workflow?overwrite=true", definition)
        for _ in range(count):
            ask(connection, "POST", f"/workflow/{TASK}", {})
