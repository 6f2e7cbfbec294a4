"""Count the source files and stack frames that a task passes through, and the changes from one file to another.

The counts say how much code a reader must know to follow one task, and not how long the task takes. They are taken
after a warm-up of worker and coordinator. `python -m benchmarks.path` also lists the files in the order of their calls.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec

import conductor
from benchmarks._work import function
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateCompleted
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator

ROOT = str(Path(next(iter(conductor.__path__)))) + "/"
#: The number of first rounds that are not counted, because they create objects on first use.
WARM_UP = 10
ROUNDS = 21
NAME = "path"
OTHER = "path_next"


class Walk(NamedTuple):
    """The path of a call: stack frames per file, in the order of the first frame, and changes between files."""

    frames: Counter[str]
    changes: int


class Tracer:
    """Counts the function calls of this package between `start` and `stop`, on the threads that have the profile set.

    A coroutine that continues after an `await` is not a new call: only its first entry is counted.
    """

    def __init__(self) -> None:
        self._on = False
        self._frames: Counter[str] = Counter()
        self._changes = 0
        self._last: dict[int, str] = {}

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call. This is the callback for `sys.setprofile` and `threading.setprofile`."""
        if not self._on or event != "call":
            return
        code = frame.f_code
        if not code.co_filename.startswith(ROOT) or _goes_on(frame):
            return
        file = code.co_filename[len(ROOT) :]
        self._frames[file] += 1
        thread = threading.get_ident()
        if self._last.get(thread, file) != file:
            self._changes += 1
        self._last[thread] = file

    def start(self) -> None:
        """Reset the counts and begin to count."""
        self._frames, self._changes, self._last = Counter(), 0, {}
        self._on = True

    def stop(self) -> Walk:
        """Return the counts since `start`."""
        self._on = False
        return Walk(self._frames, self._changes)


def _goes_on(frame: FrameType) -> bool:
    """Return whether a frame continues after a yield or an await, by the argument of its RESUME instruction."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti + 1] & 3 != 0


class _Rounds(TaskRunnerEventsListener):
    """Takes the counts of a worker from the verdict on one task to the verdict on the next task."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._left = WARM_UP + ROUNDS
        self.walks: list[Walk] = []
        self.over = asyncio.Event()

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.walks.append(self._tracer.stop())
        self._left -= 1
        if self._left:
            self._tracer.start()
        else:
            self.over.set()


@contextmanager
def _traced_coordinator(tracer: Tracer) -> Iterator[str]:
    threading.setprofile(tracer.profile)
    try:
        with tempfile.TemporaryDirectory() as directory, Coordinator(database=Path(directory) / "path.db") as server:
            yield server.url
    finally:
        threading.setprofile(None)


async def _register(client: AsyncApiClient) -> None:
    """Register a workflow of two tasks, so that a report of the first task schedules the second."""
    tasks: list[dict[str, Any]] = [
        {"name": name, "taskReferenceName": name, "type": "SIMPLE", "inputParameters": {"n": "${workflow.input.n}"}}
        for name in (NAME, OTHER)
    ]
    definition = {"name": NAME, "version": 1, "schemaVersion": 2, "tasks": tasks}
    await client.call("POST", "/metadata/workflow?overwrite=true", body=msgspec.json.encode(definition))


async def _trace_coordinator(client: AsyncApiClient, tracer: Tracer) -> dict[str, list[Walk]]:
    starts, reports = [], []
    for _ in range(WARM_UP + ROUNDS):
        tracer.start()
        await client.call("POST", f"/workflow/{NAME}", body=b'{"n":1}')
        starts.append(tracer.stop())
        polled = await client.call("GET", f"/tasks/poll/batch/{NAME}?count=1&timeout=100&workerid=path")
        [task] = msgspec.json.decode(polled.body)
        report = {key: task[key] for key in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
        report |= {"status": "COMPLETED", "outputData": {"n": 1}, "reportId": task["taskId"]}
        body = msgspec.json.encode(report)
        tracer.start()
        await client.call("POST", "/tasks", body=body)
        reports.append(tracer.stop())
    return {"coordinator: a start": starts, "coordinator: a report that schedules": reports}


async def _trace_worker(url: str, tracer: Tracer) -> list[Walk]:
    client = AsyncApiClient(Configuration(url))
    for _ in range(WARM_UP + ROUNDS):
        await client.call("POST", f"/workflow/{NAME}", body=b'{"n":1}')
    await client.close()
    rounds = _Rounds(tracer)
    worker = Worker(NAME, function, thread_count=1)
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
    try:
        async with TaskHandlerAsyncIO([worker], Configuration(url), event_listeners=[rounds]):
            await rounds.over.wait()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return rounds.walks


async def _measure() -> dict[str, list[Walk]]:
    walks: dict[str, list[Walk]] = {}
    at_coordinator, at_worker = Tracer(), Tracer()
    with _traced_coordinator(at_coordinator) as url:
        client = AsyncApiClient(Configuration(url))
        await _register(client)
        walks |= await _trace_coordinator(client, at_coordinator)
        await client.close()
        return {"worker: a `def` task, poll to verdict": await _trace_worker(url, at_worker)} | walks


def main(*, list_files: bool = False) -> None:
    walks = {name: of_kind[WARM_UP:] for name, of_kind in asyncio.run(_measure()).items()}
    print(f"{'':40} {'files':>6} {'frames':>7} {'changes of file':>16}")
    for name, of_kind in walks.items():
        files, frames, changes = (
            statistics.median(numbers)
            for numbers in zip(*((len(w.frames), w.frames.total(), w.changes) for w in of_kind), strict=True)
        )
        print(f"{name:40} {files:6.0f} {frames:7.0f} {changes:16.0f}")
    if list_files:
        for name, of_kind in walks.items():
            typical = sorted(of_kind, key=lambda walk: walk.frames.total())[len(of_kind) // 2]
            print(f"\n{name}")
            for file, frames in typical.frames.items():
                print(f"{frames:6} {file}")


if __name__ == "__main__":
    main(list_files=True)
