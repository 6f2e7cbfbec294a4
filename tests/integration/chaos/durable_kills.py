"""Kills workers and coordinator while functions with durable steps run: every recorded step ran to its record once.

Each workflow is one task: 20 steps with sleeps, a message and a called workflow. A step writes a line when it has run,
and another line when its record was answered. Afterwards, no step may have run after the answer to its record.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from conductor import durable
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.worker.worker import Worker
from conductor.durable import run as durable_run

from .execution_log import ExecutionLog, read
from .processes import CoordinatorProcess

STEPS = 20
WORKFLOWS_AT_ONCE = 5
#: The attacker waits up to this long between two kills.
LONGEST_LIFE_S = 2.0
SLEEP_S = 1.0
#: A wait may end this much later than its time, if nothing was killed meanwhile.
MAX_LATE_S = 2.0
STUCK_S = 240.0
ROOT = Path(__file__).parents[3]


# -- the worker process -----------------------------------------------------------------------------------------------


def _work(url: str, path: str) -> None:
    log = ExecutionLog(path)

    def effect(workflow: str, name: str, number: int) -> int:
        log.write("ran", workflow=workflow, step=name)
        return number

    def on_record(run: durable_run.DurableRun, step: Any, is_recorded: bool) -> None:
        if is_recorded:
            log.write("recorded", workflow=run.workflow_id, step=step.key)

    async def program() -> dict[str, Any]:
        workflow, total = get_task_context().workflow_instance_id, 0
        for number in range(STEPS):
            name = f"s{number}"
            total += await durable.step(effect, workflow, name, number, name=name)
            if number % 7 == 3:
                began = await durable.now(name=f"began-{number}")
                await durable.sleep(SLEEP_S)
                log.write("woken", late_s=time.time() - began.timestamp() - SLEEP_S, first=f"{workflow}-{number}")
            elif number == 8:
                message = await durable.wait_for("approval")
                total += message["n"] if message else 0
            elif number == 12:
                total += (await durable.call("durable_child", {"n": 1000}))["n"]
        return {"total": total}

    def child(n: int) -> dict[str, int]:
        log.write("child", workflow=get_task_context().workflow_instance_id)
        return {"n": n}

    async def serve() -> None:
        durable_run.on_record = on_record
        workers = [Worker("durable_program", program, thread_count=10), Worker("durable_child", child)]
        async with TaskHandlerAsyncIO(workers, Configuration(url), scan_for_annotated_workers=False) as handler:
            await handler.wait()

    asyncio.run(serve())


class WorkerProcess:
    """A worker process that can be killed and started again."""

    def __init__(self, url: str, log: Path, directory: Path) -> None:
        self._command = [sys.executable, "-m", __name__, url, str(log)]
        self._env = {**os.environ, "CONDUCTOR_WORKER_JOURNAL_DIR": str(directory / "journal")}
        self._output = (directory / "worker.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, env=self._env, cwd=ROOT, stdout=self._output, stderr=self._output
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


# -- the run ----------------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What a run has shown."""

    kills: int
    workflows: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    children: int

    def problems(self) -> list[str]:
        """Return every broken promise."""
        wrong = [
            f"workflow {one['workflowId']} is {one['status']} with output {one.get('output')}"
            for one in self.workflows
            if one["status"] != "COMPLETED" or one["output"] != {"total": sum(range(STEPS)) + 7 + 1000}
        ]
        recorded: set[tuple[str, str]] = set()
        for line in sorted(self.lines, key=lambda line: line["at_ns"]):
            if line["kind"] == "recorded":
                recorded.add((line["workflow"], line["step"]))
            elif line["kind"] == "ran" and (line["workflow"], line["step"]) in recorded:
                wrong.append(f"step {line['step']} of {line['workflow']} ran after its record was answered")
        if self.children != len(self.workflows):
            wrong.append(f"{len(self.workflows)} calls started {self.children} workflows")
        return wrong + self._find_late()

    def _find_late(self) -> list[str]:
        """Return the sleeps that ended late although nothing was killed between their end and the next line."""
        kills = [line["at_ns"] for line in self.lines if line["kind"] == "kill"]
        first: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            if line["kind"] == "woken":
                first.setdefault(line["first"], line)
        late = []
        for line in first.values():
            # A restart takes a while, so a kill up to this long before the end counts, too.
            since_ns = line["at_ns"] - int((line["late_s"] + 4 * MAX_LATE_S) * 1e9)
            if line["late_s"] > MAX_LATE_S and not any(since_ns <= at <= line["at_ns"] for at in kills):
                late.append(f"the sleep {line['first']} ended {line['late_s']:.1f} s late")
        return late

    def report(self) -> str:
        """Return the figures of the run."""
        ran: dict[tuple[str, str], int] = defaultdict(int)
        for line in self.lines:
            if line["kind"] == "ran":
                ran[line["workflow"], line["step"]] += 1
        again = sum(times - 1 for times in ran.values())
        return (
            f"kills {self.kills}, workflows {len(self.workflows)}, steps {len(ran)}, "
            f"steps that ran again because their record was not answered {again}"
        )


def run(directory: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Found:
    """Kill workers and the coordinator `kills` times. Return what the log and the server say afterwards."""
    rng, path = random.Random(seed), directory / "execution_log"
    log, started = ExecutionLog(path), list[str]()
    path.touch()
    with (
        CoordinatorProcess(directory / "coordinator.db", directory / "coordinator.log", keeps_port=True) as coordinator,
        httpx.Client(base_url=f"http://127.0.0.1:{coordinator.port}/api", timeout=10) as api,
    ):
        _define(api)
        worker = WorkerProcess(f"http://127.0.0.1:{coordinator.port}/api", path, directory)
        worker.start()
        try:
            for number in range(1, kills + 1):
                while sum(_is_running(api, one) for one in started[-WORKFLOWS_AT_ONCE:]) < WORKFLOWS_AT_ONCE:
                    started.append(_start(api, len(started)))
                time.sleep(rng.uniform(0.0, LONGEST_LIFE_S))
                log.write("kill")
                if rng.random() < 0.5:
                    coordinator.kill()
                    coordinator.start()
                else:
                    worker.kill()
                    worker.start()
                if number % 10 == 0:
                    tell(f"{number} kills, {len(started)} workflows")
            ends = time.monotonic() + STUCK_S
            while any(_is_running(api, one) for one in started):
                assert time.monotonic() < ends, "workflows are stuck"
                time.sleep(0.2)
            workflows = [_insist(api, "GET", f"/workflow/{one}").json() for one in started]
            query = {"query": "workflowType = 'durable_child'", "size": 1}
            children = _insist(api, "GET", "/workflow/search", params=query).json()["totalHits"]
        finally:
            worker.kill()
        coordinator.stop()
    return Found(kills, workflows, list(read(path)), children)


def _define(api: httpx.Client) -> None:
    names = ("durable_program", "durable_child")
    common = {"responseTimeoutSeconds": 5, "retryDelaySeconds": 0, "retryCount": 1000}
    _insist(api, "POST", "/metadata/taskdefs", json=[{"name": name, **common} for name in names])
    for name in names:
        task = {"name": name, "taskReferenceName": "t", "inputParameters": {"n": "${workflow.input.n}"}}
        output = {"total": "${t.output.total}"} if name == "durable_program" else {"n": "${t.output.n}"}
        definition = {"name": name, "tasks": [task], "outputParameters": output}
        _insist(api, "POST", "/metadata/workflow", json=definition).raise_for_status()


def _start(api: httpx.Client, number: int) -> str:
    asked = {"name": "durable_program", "idempotencyKey": f"run-{number}", "input": {}}
    workflow: str = _insist(api, "POST", "/workflow", json=asked).text
    _insist(api, "POST", f"/workflow/{workflow}/messages", json={"name": "approval", "n": 7})
    return workflow


def _is_running(api: httpx.Client, workflow: str) -> bool:
    return bool(_insist(api, "GET", f"/workflow/{workflow}/status").json()["status"] == "RUNNING")


def _insist(api: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
    """Send until there is an answer."""
    while True:
        try:
            answer = api.request(method, path, **more)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if answer.status_code < 500:
            return answer


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2])
