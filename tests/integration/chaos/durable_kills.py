"""Kills workers and coordinator while functions with durable steps run: every recorded step ran to its record once.

Each workflow is one task: 20 steps with sleeps, a message and a called workflow. A step writes a line when it has run,
and another line when its record was answered. Afterwards, no step may have run after the answer to its record.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
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
#: A wait may end this much later than its time.
MAX_LATE_S = 2.0
#: Each kill since the end of the wait allows this much more: the lease of a killed worker must expire, and the killed
#: process starts again.
LEASE_S, RESTART_S = 5, 5.0
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
        self._output = directory / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, env=self._env, cwd=ROOT, stdout=output, stderr=output)

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
        """Return the sleeps that ended later than the kills since their end explain."""
        return [
            f"the sleep {name} ended {late_s:.1f} s late, with {kills} kills since its end"
            for name, late_s, kills in self._list_delays()
            if late_s > MAX_LATE_S + kills * (LEASE_S + RESTART_S)
        ]

    def _list_delays(self) -> list[tuple[str, float, int]]:
        """Return the name of each sleep, how late it ended, and the number of kills that may have delayed it."""
        kills = [line["at_ns"] for line in self.lines if line["kind"] == "kill"]
        first: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            if line["kind"] == "woken":
                first.setdefault(line["first"], line)
        found = []
        for name, line in first.items():
            # A process that was killed just before the end of the sleep may still be starting.
            since_ns = line["at_ns"] - int((line["late_s"] + RESTART_S) * 1e9)
            found.append((name, line["late_s"], sum(since_ns <= at <= line["at_ns"] for at in kills)))
        return found

    def report(self) -> str:
        """Return the figures of the run."""
        ran: dict[tuple[str, str], int] = defaultdict(int)
        for line in self.lines:
            if line["kind"] == "ran":
                ran[line["workflow"], line["step"]] += 1
        again = sum(times - 1 for times in ran.values())
        return (
            f"kills {self.kills}, workflows {len(self.workflows)}, steps {len(ran)}, "
            f"steps that ran again because their record was not answered {again}\n"
            f"{self._describe_delays()}"
        )

    def _describe_delays(self) -> str:
        delays = self._list_delays()
        late_s = sorted(late_s for _, late_s, _ in delays)
        if len(late_s) < 2:
            return "no sleep has ended"
        quantiles = statistics.quantiles(late_s, n=100)
        calm = sorted(late_s for _, late_s, kills in delays if not kills)
        return (
            f"sleeps {len(late_s)}, late: p50 {quantiles[49]:.1f} s, p95 {quantiles[94]:.1f} s, "
            f"max {late_s[-1]:.1f} s; "
            f"more than {MAX_LATE_S:g} s late {sum(one > MAX_LATE_S for one in late_s)}; "
            f"without a kill since {RESTART_S:g} s before their end {len(calm)}, max {max(calm, default=0):.1f} s"
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
    common = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 1000}
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
