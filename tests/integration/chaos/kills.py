"""Kills the coordinator at random moments under load: afterwards, all it had answered exists, and nothing twice.

Clients start workflows and workers report results; each sends again until it is answered, and writes every answer
into the execution log before it goes on. At the end every line of the execution log is looked up.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from .execution_log import ExecutionLog, read
from .processes import CoordinatorProcess

BRANCHES = 10
WORKERS = 3
#: Longer than a restart takes, so that most leases survive one.
LEASE_S = 8
#: The longest time between a start of the coordinator and its next kill.
LONGEST_LIFE_S = 0.6
#: Clients start nothing more while this number of tasks is open.
BACKLOG = 500
#: The last tasks count as stuck after this time.
STUCK_S = 300.0


def run(directory: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Found:
    """Kill the coordinator `kills` times under constant load. Return the answers and the final data."""
    rng = random.Random(seed)
    with CoordinatorProcess(directory / "coordinator.db", directory / "coordinator.log") as coordinator:
        load = Load(coordinator, directory / "execution_log")
        load.define()
        with load:
            for number in range(1, kills + 1):
                time.sleep(rng.uniform(0.0, LONGEST_LIFE_S))
                coordinator.kill()
                coordinator.start()
                if number % 10 == 0:
                    tell(f"{number} kills, {load.committed} tasks COMMITTED")
            load.finish()
        found = Found(seed, kills, list(read(directory / "execution_log")), *load.look())
        coordinator.stop()
    return found


class Load:
    """Clients that try again until they are answered, and note every answer. For a `with` block."""

    def __init__(self, coordinator: CoordinatorProcess, execution_log: Path) -> None:
        self._coordinator = coordinator
        self._execution_log = ExecutionLog(execution_log)
        self._enough = threading.Event()
        self._over = threading.Event()
        self._moved = threading.Condition()
        self._started: list[str] = []
        #: Reports that were answered COMMITTED.
        self.committed = 0
        self._starting = threading.Thread(target=self._start)
        self._working = [threading.Thread(target=self._work, args=(f"w{n}",)) for n in range(WORKERS)]

    def define(self) -> None:
        """Register one task type, and a workflow of many tasks that can all run at once."""
        work = {"name": "work", "responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 1000}
        refs = [f"t{n}" for n in range(BRANCHES)]
        branches = [[{"name": "work", "taskReferenceName": ref}] for ref in refs]
        fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}
        join = {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs}
        with httpx.Client() as api:
            self._insist(api, "POST", "/metadata/taskdefs", json=[work]).raise_for_status()
            self._insist(api, "POST", "/metadata/workflow", json={"name": "many", "tasks": [fork, join]})

    def __enter__(self) -> None:
        for thread in (self._starting, *self._working):
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._over.set()
        with self._moved:
            self._moved.notify_all()
        for thread in (self._starting, *self._working):
            thread.join()

    def finish(self) -> None:
        """Start no more, and wait until every workflow is over."""
        self._enough.set()
        with self._moved:
            self._moved.notify_all()
        self._starting.join()
        ends = time.monotonic() + STUCK_S
        with httpx.Client() as api:
            for id_ in self._started:
                while self._insist(api, "GET", f"/workflow/{id_}/status").json()["status"] == "RUNNING":
                    assert time.monotonic() < ends, f"workflow {id_} is not done"
                    time.sleep(0.05)

    def look(self) -> tuple[int, list[dict[str, Any]]]:
        """How many workflows the server has, and those that it had said it started, with their tasks."""
        with httpx.Client() as api:
            hits = self._insist(api, "GET", "/workflow/search", params={"query": "workflowType = 'many'", "size": 1})
            found = [self._insist(api, "GET", f"/workflow/{id_}").json() for id_ in dict.fromkeys(self._started)]
            return int(hits.json()["totalHits"]), found

    def _insist(self, api: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
        """Send until there is an answer, as a worker does after a transport failure."""
        while True:
            try:
                answer = api.request(method, f"http://127.0.0.1:{self._coordinator.port}/api{path}", timeout=10, **more)
            except httpx.TransportError:
                time.sleep(0.02)
                continue
            if answer.status_code < 500:
                return answer

    def _start(self) -> None:
        with httpx.Client() as api:
            for number in itertools.count():
                with self._moved:
                    self._moved.wait_for(lambda: self._enough.is_set() or self._waiting < BACKLOG)
                if self._enough.is_set():
                    return
                # The key makes a start that was not answered safe to send again.
                asked = {"name": "many", "idempotencyKey": f"order-{number}", "input": {"number": number}}
                answer = self._insist(api, "POST", "/workflow", json=asked)
                self._execution_log.write("started", number=number, workflow=answer.text)
                self._started.append(answer.text)

    @property
    def _waiting(self) -> int:
        return len(self._started) * BRANCHES - self.committed

    def _work(self, worker: str) -> None:
        query = {"count": 50, "timeout": 200, "workerid": worker}
        with httpx.Client() as api:
            while not self._over.is_set():
                tasks = self._insist(api, "GET", "/tasks/poll/batch/work", params=query).json()
                if tasks:
                    self._report(api, worker, tasks)

    def _report(self, api: httpx.Client, worker: str, tasks: list[dict[str, Any]]) -> None:
        reports = [
            {
                "taskId": task["taskId"],
                "workflowInstanceId": task["workflowInstanceId"],
                "workerId": worker,
                "leaseId": task["leaseId"],
                "reportId": f"{task['taskId']}/{task['leaseId']}",
                "status": "COMPLETED",
                "outputData": {"by": worker, "token": uuid.uuid4().hex},
            }
            for task in tasks
        ]
        answer = self._insist(api, "POST", "/tasks/reports", json=reports)
        for report, told in zip(reports, answer.json(), strict=True):
            about: dict[str, Any] = {
                "task": report["taskId"],
                "workflow": report["workflowInstanceId"],
                "output": report["outputData"],
            }
            self._execution_log.write("verdict", verdict=told["verdict"], **about)
            if told["verdict"] == "COMMITTED":
                with self._moved:
                    self.committed += 1
                    self._moved.notify()


@dataclass
class Found:
    """The answers of the coordinator, and its data afterwards."""

    seed: int
    kills: int
    execution_log: list[dict[str, Any]]
    #: How many workflows the server has.
    count: int
    #: The workflows whose start was answered.
    workflows: list[dict[str, Any]]

    @property
    def started(self) -> dict[int, str]:
        """Workflows that the server said it started, by the number that the client gave."""
        return {line["number"]: line["workflow"] for line in self.execution_log if line["kind"] == "started"}

    @property
    def verdicts(self) -> Counter[str]:
        """Count the verdicts of the workers."""
        return Counter(line["verdict"] for line in self.execution_log if line["kind"] == "verdict")

    @property
    def committed(self) -> list[dict[str, Any]]:
        """Reports that were answered COMMITTED."""
        return [line for line in self.execution_log if line["kind"] == "verdict" and line["verdict"] == "COMMITTED"]

    @property
    def lost(self) -> list[str]:
        """Return the answers whose data is missing."""
        there = {workflow["workflowId"] for workflow in self.workflows}
        outputs = {task["taskId"]: task["outputData"] for task in self._done}
        known = {task["taskId"] for workflow in self.workflows for task in workflow["tasks"]}
        return [
            *(f"workflow {id_} was started and is not there" for id_ in self.started.values() if id_ not in there),
            *(f"not there as it was COMMITTED: {x}" for x in self.committed if outputs.get(x["task"]) != x["output"]),
            *(
                f"polled and not there: {x}"
                for x in self.execution_log
                if x["kind"] == "verdict" and x["task"] not in known
            ),
            *(
                f"not over: {workflow['workflowId']}"
                for workflow in self.workflows
                if workflow["status"] != "COMPLETED"
            ),
        ]

    @property
    def twice(self) -> list[str]:
        """Return the results that were committed more than once."""
        told = Counter(line["task"] for line in self.committed)
        done = Counter((task["workflowInstanceId"], task["referenceTaskName"]) for task in self._done)
        return [
            *(f"task {id_} was COMMITTED {n} times" for id_, n in told.items() if n > 1),
            *(f"{ref} of workflow {id_} was COMPLETED {n} times" for (id_, ref), n in done.items() if n > 1),
            *([f"{self.count} workflows of {len(self.started)} starts"] if self.count != len(self.started) else []),
        ]

    @property
    def problems(self) -> list[str]:
        """Every broken promise."""
        refused = self.verdicts["REJECTED"]
        missing = len(self.started) * BRANCHES - len(self._done)
        return [
            *self.lost,
            *self.twice,
            *([f"{refused} reports about answered polls were REJECTED"] if refused else []),
            *([f"{missing} tasks were not done"] if missing else []),
        ]

    @property
    def _done(self) -> list[dict[str, Any]]:
        tasks = [task for workflow in self.workflows for task in workflow["tasks"]]
        return [task for task in tasks if task["taskType"] == "work" and task["status"] == "COMPLETED"]

    def report(self) -> str:
        """The figures as lines."""
        figures = {
            "seed": self.seed,
            "coordinator killed": self.kills,
            "starts answered": len(self.started),
            "reports answered": dict(self.verdicts),
            "tasks done": len(self._done),
            "answered and lost": len(self.lost),
            "twice": len(self.twice),
        }
        return "\n".join(f"{name:>36}: {value}" for name, value in figures.items())
