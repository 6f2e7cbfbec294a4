"""Loss of the machine: the coordinator and its helper are killed, the data directory is deleted, and a restore goes on.

Workers and clients stay, and reach whatever coordinator runs through a proxy, as through a changed address. A ledger in
this process has every answer with its time. After the run it is compared with the restored database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateCompleted
from conductor.client.worker.worker import Worker

from .proxy import CALM, Proxy

#: At most this much answered work may be lost with a replica.
MAX_LOSS_S = 1.0
#: The interval of the copies of a run without a replica.
BACKUP_EVERY_S = 1
#: A copy is made of the state at its beginning, and the copy before it may be the last complete one.
BACKUP_MAX_LOSS_S = 2 * BACKUP_EVERY_S + 2.0
#: The load before the disaster and after it.
BEFORE_S, AFTER_S = (1.5, 4.0), 1.5
PATIENCE_S = 120.0
WORKERS, SLOTS = 3, 10
CLI = [sys.executable, "-m", "conductor.cli"]


@dataclass
class Ledger(TaskRunnerEventsListener):
    """Every answer with its time: started workflows, executions and verdicts."""

    #: Workflow id → (key, time of the answer).
    started: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: Execution token → (workflow id, key).
    executed: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: (task id, verdict, time, workflow id) of each report.
    verdicts: list[tuple[str, str, float, str]] = field(default_factory=list)
    #: Set when no more workflows are to be started.
    is_full: threading.Event = field(default_factory=threading.Event)

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.verdicts.append((event.task_id, str(event.verdict), time.monotonic(), event.workflow_instance_id))


class Machine:
    """A coordinator with its own data directory, and the programs beside it."""

    def __init__(self, directory: Path, copies: Path, *, replicate: bool) -> None:
        self._directory = directory
        self._copies = copies
        self._replicate = replicate
        self._beside: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> Path:
        return self._directory / "coordinator.db"

    def start(self) -> int:
        """Start the programs; return the port of the coordinator."""
        self._directory.mkdir(exist_ok=True)
        command = [*CLI, "serve", "--port", "0", "--database", str(self.database)]
        if self._replicate:
            command += ["--replicate", str(self._copies)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        words = self.process.stdout.readline().decode().split()
        self.url = next(word for word in words if word.startswith("http://"))
        if not self._replicate:
            every = [*CLI, "backup", "--every", f"{BACKUP_EVERY_S}s", "--keep", "3", "--to", str(self._copies)]
            self._beside = subprocess.Popen([*every, "--database", str(self.database)], stdout=subprocess.DEVNULL)
        return httpx.URL(self.url).port or 0

    def wait_for_copy(self) -> None:
        """Wait until there is something to restore."""
        if self._replicate:
            _until(lambda: any(self._copies.glob("*/ltx/0/*.ltx")))
        else:
            _until((self._copies / "coordinator.db").exists)

    def destroy(self) -> float:
        """Kill all programs with -9, delete the data directory, and return the time of the kill."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        victims = [self.process.pid, *(child.pid for child in family)]
        if self._beside is not None:
            victims.append(self._beside.pid)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        killed_at = time.monotonic()
        if self._beside is not None:
            self._beside.wait(PATIENCE_S)
        psutil.wait_procs(family, PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        shutil.rmtree(self._directory)
        return killed_at

    def restore(self) -> None:
        """Restore the database of this machine from the copies."""
        self._directory.mkdir()
        source = self._copies if self._replicate else self._copies / "coordinator.db"
        done = subprocess.run(
            [*CLI, "restore", str(source), "--database", str(self.database)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@dataclass
class Disaster:
    """The figures of one disaster, and the promises that it broke."""

    #: How old the oldest lost answer was when the machine was lost.
    loss_s: float = 0.0
    lost_starts: int = 0
    lost_results: int = 0
    #: From the loss of the machine to the first result that the new coordinator accepted, without human delays.
    recovery_s: float = 0.0
    answers: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.answers} answers, lost {self.lost_starts} starts and {self.lost_results} results of the last "
            f"{self.loss_s:.2f} s, recovered within {self.recovery_s:.2f} s"
        )


def run(directory: Path, rng: random.Random, *, replicate: bool, max_loss_s: float) -> Disaster:
    """Lose one machine under load, and go on with a second one."""
    return asyncio.run(_run(directory, rng, replicate=replicate, max_loss_s=max_loss_s))


async def _run(directory: Path, rng: random.Random, *, replicate: bool, max_loss_s: float) -> Disaster:
    copies, ledger = directory / "copies", Ledger()
    first = Machine(directory / "first", copies, replicate=replicate)
    second = Machine(directory / "second", copies, replicate=replicate)
    with Proxy(CALM, rng) as proxy:
        proxy.upstream_port = await asyncio.to_thread(first.start)
        url = f"http://127.0.0.1:{proxy.port}/api"
        _define(first.url)
        await asyncio.to_thread(first.wait_for_copy)
        with _starting(url, ledger):
            async with TaskHandlerAsyncIO(
                workers=[Worker(f"work_{n}", _make_work(ledger), thread_count=SLOTS) for n in range(WORKERS)],
                configuration=Configuration(url),
                event_listeners=[ledger],
                journal_dir=str(directory / "journal"),
            ):
                await asyncio.sleep(rng.uniform(*BEFORE_S))
                lost_at = await asyncio.to_thread(first.destroy)
                await asyncio.to_thread(second.restore)
                proxy.upstream_port = await asyncio.to_thread(second.start)
                replaced_at = time.monotonic()
                await asyncio.sleep(AFTER_S)
                known = await _finish(second.url, ledger)
    try:
        return _check(ledger, known, lost_at, replaced_at, max_loss_s)
    finally:
        second.destroy()
        shutil.rmtree(copies)


def _define(url: str) -> None:
    with httpx.Client(base_url=url) as api:
        for n in range(WORKERS):
            api.post(
                "/metadata/taskdefs", json=[{"name": f"work_{n}", "responseTimeoutSeconds": 10, "retryDelaySeconds": 0}]
            ).raise_for_status()
            given = {"key": "${workflow.input.key}", "workflow": "${workflow.workflowId}"}
            task = {"name": f"work_{n}", "taskReferenceName": "work", "inputParameters": given}
            api.post("/metadata/workflow", json={"name": f"flow_{n}", "tasks": [task]}).raise_for_status()


def _make_work(ledger: Ledger) -> Callable[..., Any]:
    async def work(key: int, workflow: str) -> dict[str, Any]:
        token = uuid.uuid4().hex
        ledger.executed[token] = workflow, key
        await asyncio.sleep(0.005)
        return {"key": key, "token": token}

    return work


@contextlib.contextmanager
def _starting(url: str, ledger: Ledger) -> Iterator[None]:
    """Start workflows from a thread, and note each answer. A start without an answer is not repeated."""

    def start_forever() -> None:
        key = 0
        with httpx.Client(timeout=5) as api:
            while not ledger.is_full.wait(0.002):
                key += 1
                with contextlib.suppress(httpx.HTTPError):
                    answer = api.post(f"{url}/workflow/flow_{key % WORKERS}", json={"key": key})
                    if answer.status_code == 200:
                        ledger.started[answer.text] = key, time.monotonic()

    thread = threading.Thread(target=start_forever)
    thread.start()
    try:
        yield
    finally:
        ledger.is_full.set()
        thread.join()


async def _finish(url: str, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Wait until all work is done and every execution has a verdict. Return the workflows of the new coordinator."""
    ledger.is_full.set()
    deadline = time.monotonic() + PATIENCE_S
    async with httpx.AsyncClient(base_url=url, timeout=30) as api:
        while True:
            running = (await api.get("/workflow/search?size=0&query=status%3DRUNNING")).json()["totalHits"]
            if not running and len(ledger.verdicts) >= len(ledger.executed):
                break
            assert time.monotonic() < deadline, (
                f"{running} workflows run, {len(ledger.verdicts)} verdicts for {len(ledger.executed)} executions"
            )
            await asyncio.sleep(0.1)
        found = {}
        for workflow in {*ledger.started, *(entry[3] for entry in ledger.verdicts)}:
            answer = await api.get(f"/workflow/{workflow}")
            if answer.status_code == 200:
                found[workflow] = answer.json()
        return found


def _check(
    ledger: Ledger, known: dict[str, dict[str, Any]], lost_at: float, replaced_at: float, max_loss_s: float
) -> Disaster:
    found = Disaster(answers=len(ledger.started) + len(ledger.verdicts))
    results = [entry for entry in ledger.verdicts if entry[1] == "COMMITTED"]
    tasks = {task["taskId"]: task for workflow in known.values() for task in workflow["tasks"]}
    for workflow, (key, at) in ledger.started.items():
        if workflow not in known:
            found.lost_starts += 1
            found.loss_s = max(found.loss_s, lost_at - at)
            if at > replaced_at:
                found.problems.append(f"the start of {key} was answered after the loss, and is unknown")
    # A result that was committed twice for one task: the first answer was lost, and the task ran again.
    last = {entry[0]: entry[2] for entry in results}
    for task_id, _, at, _workflow in results:
        if task_id not in tasks or last[task_id] > at:
            found.lost_results += 1
            found.loss_s = max(found.loss_s, lost_at - at)
            if at > replaced_at:
                found.problems.append(f"a result of task {task_id} was committed after the loss, and is gone")
    for workflow, answer in known.items():
        key = answer["input"]["key"]
        if workflow in ledger.started and ledger.started[workflow][0] != key:
            found.problems.append(f"{workflow} was started as {ledger.started[workflow][0]} and is {key}")
        if answer["status"] != "COMPLETED" or answer["output"].get("key") != key:
            found.problems.append(f"{workflow} is {answer['status']} with the output {answer['output']}")
        elif ledger.executed.get(answer["output"]["token"]) != (workflow, key):
            found.problems.append(f"{workflow} has a result of another execution")
        completed = [task for task in answer["tasks"] if task["status"] == "COMPLETED"]
        if len(completed) != 1:
            found.problems.append(f"{workflow} has {len(completed)} completed tasks")
    if found.loss_s > max_loss_s:
        found.problems.append(f"answers of the last {found.loss_s:.2f} s are lost; at most {max_loss_s:g} s may be")
    after = [entry[2] for entry in results if entry[2] > replaced_at]
    found.recovery_s = min(after, default=lost_at) - lost_at
    if not after:
        found.problems.append("the new coordinator accepted no result")
    return found


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
