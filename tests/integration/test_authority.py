"""Workers and a real coordinator: leases held, leases lost, and results that survive an outage."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.event.task_runner_events import (
    PollStarted,
    TaskLeaseExtended,
    TaskLeaseLost,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
)
from conductor.client.http.models import TaskDef, Workflow, WorkflowDef
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.protocol.wire import Verdict
from conductor.testing import ConductorStub, FakeClock
from conductor.testing.ports import free_port

#: Time is turned by hand: no lease ends because a machine is busy.
LEASE_S = 3600


class Ledger(TaskRunnerEventsListener):
    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.lost: list[str] = []
        self.extended = 0
        self.asked_for: list[int] = []

    def on_poll_started(self, event: PollStarted) -> None:
        self.asked_for.append(event.poll_count)

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        self.extended += 1

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.verdicts.append(event.verdict)

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        self.lost.append(event.reason)


class Shop:
    """A coordinator and a one-task workflow on it."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.clock = FakeClock()
        self.port = free_port()
        self.come_back()
        self.clients = OrkesClients(Configuration(self.coordinator.url))

    def define(self, **definition: Any) -> None:
        metadata = self.clients.get_metadata_client()
        metadata.register_task_def(TaskDef.from_dict({"name": "job", "retryCount": 0, **definition}))
        task = {
            "name": "job",
            "taskReferenceName": "job",
            "type": "SIMPLE",
            "inputParameters": {"n": "${workflow.input.n}"},
        }
        workflow = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [task]}
        metadata.register_workflow_def(WorkflowDef.from_dict(workflow), overwrite=True)

    def start(self, count: int = 1) -> list[str]:
        return [self.clients.get_workflow_client().start_workflow_by_name("flow", {"n": n}) for n in range(count)]

    def get(self, workflow_id: str) -> Workflow:
        return self.clients.get_workflow_client().get_workflow(workflow_id, include_tasks=True)

    def parked_polls(self) -> int:
        assert self.coordinator.core is not None
        return len(self.coordinator.core.tasks.parked)

    def go_away(self) -> None:
        self.coordinator.__exit__(None, None, None)

    def come_back(self) -> None:
        self.coordinator = Coordinator(database=self.database, port=self.port, clock=self.clock)
        self.coordinator.__enter__()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "coordinator.db")
    yield made
    made.go_away()


def wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


async def until(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_for, condition)


def handler(shop: Shop, function: Callable[..., Any], ledger: Ledger, **options: Any) -> TaskHandlerAsyncIO:
    # A poll waits for the clock of this test only when it is a long one, which is recalled at the end.
    worker = Worker("job", function, thread_count=10, poll_timeout=0, **options)
    configuration = Configuration(shop.coordinator.url)
    return TaskHandlerAsyncIO(workers=[worker], configuration=configuration, event_listeners=[ledger], clock=shop.clock)


@pytest.mark.parametrize("blocking", [False, True], ids=["waits", "blocks the loop"])
async def test_a_task_far_longer_than_its_response_timeout_is_committed_once(shop: Shop, blocking: bool) -> None:
    executions: list[int] = []
    release = asyncio.Event()

    async def job(n: int) -> int:
        executions.append(n)
        if blocking:
            pass_one_beat()
        await release.wait()
        return n

    def pass_one_beat() -> None:
        """Block the loop until the server has heard of the task, after a third of its lease."""
        before = shop.get(workflow_id).tasks[0].update_time
        shop.clock.advance(LEASE_S / 3)
        wait_for(lambda: shop.get(workflow_id).tasks[0].update_time > before)

    shop.define(responseTimeoutSeconds=LEASE_S, timeoutSeconds=0)
    ledger = Ledger()
    (workflow_id,) = shop.start()
    async with handler(shop, job, ledger):
        await until(lambda: executions)
        extended = int(blocking)
        await until(lambda: ledger.extended == extended)
        for beats in range(extended + 1, extended + 7):
            shop.clock.advance(LEASE_S / 3)
            await until(lambda n=beats: ledger.extended == n)  # type: ignore[misc]
        release.set()
        await until(lambda: shop.get(workflow_id).status == "COMPLETED")
        await until(lambda: ledger.verdicts)
    assert executions == [0]
    assert ledger.verdicts == [Verdict.COMMITTED]
    assert ledger.lost == []


@pytest.mark.parametrize("end", ["stop", "pause"])
async def test_work_that_comes_after_the_last_poll_waits_for_somebody_else(shop: Shop, end: str) -> None:
    """The long poll of a worker that wants no more work is recalled, so that it takes no task that would not run."""
    release = asyncio.Event()

    async def job(n: int) -> int:
        await release.wait()
        return n

    shop.define()
    ledger = Ledger()
    (first,) = await asyncio.to_thread(shop.start)
    async with handler(shop, job, ledger) as at_work:
        await until(lambda: shop.get(first).tasks[0].status == "IN_PROGRESS")
        while ledger.asked_for[-1] != 1:  # a long poll asks for one task, whatever there is room for
            shop.clock.advance(0.1)
            await asyncio.sleep(0.01)
        await until(lambda: shop.parked_polls() == 1)
        stopping: asyncio.Task[None] | None = None
        if end == "stop":
            stopping = asyncio.create_task(at_work.stop())
        else:
            at_work.pause("job")
        await until(lambda: shop.parked_polls() == 0)
        (second,) = await asyncio.to_thread(shop.start)
        release.set()
        await until(lambda: shop.get(first).status == "COMPLETED")
        if stopping is not None:
            await stopping
    assert shop.get(second).tasks[0].status == "SCHEDULED"


@pytest.mark.parametrize("sync", [False, True], ids=["async def", "def"])
async def test_a_terminated_workflow_cancels_the_work(shop: Shop, sync: bool) -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def waiting() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    def looking() -> str:
        began.set()
        if get_task_context().wait_cancelled(60):
            cancelled.set()
        return "too late"

    shop.define(responseTimeoutSeconds=LEASE_S)
    ledger = Ledger()
    (workflow_id,) = shop.start()
    async with handler(shop, looking if sync else waiting, ledger):
        await until(began.is_set)
        await asyncio.to_thread(shop.clients.get_workflow_client().terminate_workflow, workflow_id, "enough")
        shop.clock.advance(LEASE_S / 3)  # the next heartbeat brings the news
        await until(cancelled.is_set)
        await until(lambda: ledger.lost)
    assert ledger.verdicts == []
    (task,) = shop.get(workflow_id).tasks
    assert task.status == "CANCELED"
    assert task.output_data == {}


WORKER = """
import asyncio, os, sys
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_task import worker_task

@worker_task(task_definition_name="job", thread_count=20)
async def job(n: int) -> dict:
    os.write(ledger, f"began {n}\\n".encode())
    while not os.path.exists(sys.argv[3]):
        await asyncio.sleep(0.02)
    os.write(ledger, f"ended {n}\\n".encode())
    return {"n": n}

ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def main():
    async with TaskHandlerAsyncIO(configuration=Configuration(sys.argv[1])) as handler:
        await handler.wait()

asyncio.run(main())
"""


class Program:
    """A worker program in a process of its own, with a ledger of what it did."""

    def __init__(self, shop: Shop, directory: Path) -> None:
        self._script = directory / "worker.py"
        self._script.write_text(WORKER)
        self._ledger = directory / "ledger"
        self._gate = directory / "gate"
        self._arguments = [shop.coordinator.url, str(self._ledger), str(self._gate)]
        self._environment = {
            **os.environ,
            "CONDUCTOR_WORKER_JOURNAL_DIR": str(directory / "journal"),
            "CONDUCTOR_WORKER_UPDATE_RETRY_DELAY_SECONDS": "0.05",
            "CONDUCTOR_WORKER_ALL_SHUTDOWN_GRACE_SECONDS": "1",
        }
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(self._script), *self._arguments]
        self.process = subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE)

    def lines(self, word: str) -> list[str]:
        text = self._ledger.read_text() if self._ledger.exists() else ""
        return [line for line in text.splitlines() if line.startswith(word)]

    def open_gate(self) -> None:
        self._gate.touch()

    def journaled(self) -> bool:
        files = list((self._ledger.parent / "journal").glob("*.journal"))
        return any(b"t" in file.read_bytes() for file in files)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=60)


@pytest.fixture
def program(shop: Shop, tmp_path: Path) -> Iterator[Program]:
    shop.define(responseTimeoutSeconds=3600)
    made = Program(shop, tmp_path)
    yield made
    made.stop(signal.SIGKILL)


@pytest.mark.parametrize("killed", [False, True], ids=["worker lives", "worker is killed"])
def test_results_that_finish_while_the_server_is_away_arrive_once_each(
    shop: Shop, program: Program, killed: bool
) -> None:
    workflows = shop.start(8)
    wait_for(lambda: len(program.lines("began")) == 8)
    shop.go_away()
    program.open_gate()
    wait_for(lambda: len(program.lines("ended")) == 8)
    if killed:
        wait_for(program.journaled)
        program.stop(signal.SIGKILL)
    shop.come_back()
    if killed:
        program.start()
    wait_for(lambda: all(shop.get(workflow).status == "COMPLETED" for workflow in workflows))
    assert len(program.lines("ended")) == 8, "nothing was executed twice"
    for n, workflow in enumerate(workflows):
        (task,) = shop.get(workflow).tasks
        assert task.output_data == {"n": n}


def test_results_that_come_after_their_lease_are_discarded(shop: Shop, tmp_path: Path) -> None:
    """By the server's clock alone: the worker believes that they are in time."""
    shop.define(responseTimeoutSeconds=LEASE_S)
    program = Program(shop, tmp_path)
    try:
        workflows = shop.start(4)
        wait_for(lambda: len(program.lines("began")) == 4)
        shop.go_away()
        shop.clock.advance(LEASE_S)
        program.open_gate()
        shop.come_back()
        wait_for(lambda: all(shop.get(workflow).status == "TIMED_OUT" for workflow in workflows))
    finally:
        program.stop()
    for workflow in workflows:
        (task,) = shop.get(workflow).tasks
        assert task.status == "TIMED_OUT"
        assert task.output_data == {}


async def test_ten_minutes_without_a_server_on_a_turned_clock() -> None:
    clock = FakeClock()
    ledger = Ledger()

    async def job(n: int) -> int:
        return n

    with ConductorStub() as server:
        worker = Worker("job", job, thread_count=5, idle_poll_timeout=0)
        away = TaskHandlerAsyncIO(
            workers=[worker], configuration=Configuration(server.url), event_listeners=[ledger], clock=clock
        )
        server.hold("update")
        for n in range(5):
            server.add_task("job", {"n": n}, response_timeout_seconds=3600)
        async with away:
            await server.until(lambda: server.held("update") == 5)
            server.stop()
            for _ in range(60):
                await clock.until_sleeping(1)
                clock.advance(10)
                await asyncio.sleep(0.01)
            server.release()
            server.start()
            while len(server.results) < 5:
                clock.advance(5)
                await asyncio.sleep(0.01)
        assert sorted(result["outputData"]["result"] for result in server.results) == [0, 1, 2, 3, 4]
