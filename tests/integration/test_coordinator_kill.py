"""kill -9 at random moments under load: what was answered is there afterwards, nothing is lost or counts twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.testing.ports import free_port

KILLS = 50
TASKS = 20_000
BRANCHES = 10
WORKERS = 3
#: Longer than a restart takes, so that most leases survive one.
LEASE_S = 8
DEADLINE_S = 1200.0

PROGRAM = """
import sys
from conductor.coordinator import Coordinator
Coordinator(sys.argv[1], port=int(sys.argv[2])).serve()
"""


def fork(branches: int) -> dict[str, Any]:
    """A workflow of many tasks that can all run at once."""
    refs = [f"t{n}" for n in range(branches)]
    return {
        "name": "many",
        "tasks": [
            {
                "name": "fork",
                "taskReferenceName": "fork",
                "type": "FORK_JOIN",
                "forkTasks": [[{"name": "work", "taskReferenceName": ref}] for ref in refs],
            },
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs},
        ],
    }


class Server:
    """A coordinator in a process of its own that dies and comes back on the same port and file."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.start()

    def start(self) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(self.database), str(self.port)])
        while self.child.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"the coordinator did not come back: exit {self.child.returncode}")

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


class Load:
    """Clients that try again until they are answered, and remember every answer."""

    def __init__(self, server: Server, workflows: int) -> None:
        self.server = server
        self.workflows = workflows
        self.stop = threading.Event()
        self.moved = threading.Condition()
        self.started: dict[int, str] = {}
        self.polled: set[str] = set()
        self.committed: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.problems: list[str] = []

    def insist(self, send: Callable[[], httpx.Response]) -> httpx.Response | None:
        """Send until there is an answer, as a worker does after a transport failure."""
        while not self.stop.is_set():
            try:
                answer = send()
            except httpx.TransportError:
                self.stop.wait(0.02)
                continue
            if answer.status_code < 500:
                return answer
        return None

    def start_all(self) -> None:
        with httpx.Client(base_url=self.server.url, timeout=5) as api:
            for n in range(self.workflows):
                # The key makes a start that was not answered safe to send again.
                asked = {"name": "many", "idempotencyKey": f"order-{n}", "input": {"n": n}}
                answer = self.insist(lambda asked=asked: api.post("/workflow", json=asked))
                if answer is None:
                    return
                self.started[n] = answer.text

    def work(self, worker: str) -> None:
        query = {"count": 50, "timeout": 200, "workerid": worker}
        with httpx.Client(base_url=self.server.url, timeout=5) as api:
            while not self.stop.is_set():
                answer = self.insist(lambda: api.get("/tasks/poll/batch/work", params=query))
                tasks = answer.json() if answer is not None else []
                if tasks:
                    self.report(api, worker, tasks)

    def report(self, api: httpx.Client, worker: str, tasks: list[dict[str, Any]]) -> None:
        reports = [
            {
                "taskId": task["taskId"],
                "workflowInstanceId": task["workflowInstanceId"],
                "workerId": worker,
                "leaseId": task["leaseId"],
                "reportId": f"{task['taskId']}/{task['leaseId']}",
                "status": "COMPLETED",
                "outputData": {"by": worker},
            }
            for task in tasks
        ]
        answer = self.insist(lambda: api.post("/tasks/reports", json=reports))
        if answer is None:
            return
        with self.moved:
            self.polled.update(task["taskId"] for task in tasks)
            for told in answer.json():
                self.verdicts[told["verdict"]] += 1
                if told["verdict"] == "COMMITTED":
                    self.committed[told["taskId"]] += 1
                elif told["verdict"] == "REJECTED":
                    self.problems.append(f"an answered poll was forgotten: {told}")
            self.moved.notify()

    def until_committed(self, count: int) -> None:
        """Wait for that much of the work: a kill belongs into the middle of it."""
        with self.moved:
            found = self.moved.wait_for(lambda: len(self.committed) >= count, DEADLINE_S)
        assert found, f"{len(self.committed)} of {count} tasks are done; {self.verdicts}"


def run(tmp_path: Path, kills: int, tasks: int) -> None:
    server = Server(tmp_path / "coordinator.db")
    with httpx.Client(base_url=server.url) as api:
        work = {"name": "work", "responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 1000}
        assert api.post("/metadata/taskdefs", json=[work]).status_code == 200
        assert api.post("/metadata/workflow", json=fork(BRANCHES)).status_code == 200
    load = Load(server, tasks // BRANCHES)
    threads = [threading.Thread(target=load.start_all)]
    threads += [threading.Thread(target=load.work, args=(f"w{n}",)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        for number in range(kills):
            load.until_committed(tasks * number // (kills + 1))
            time.sleep(random.uniform(0.0, 0.3))
            server.kill()
            server.start()
        finish(server, load)
    finally:
        load.stop.set()
        for thread in threads:
            thread.join()
        server.kill()


def finish(server: Server, load: Load) -> None:
    """Wait for the rest, then compare every answer with the file."""
    ends = time.monotonic() + DEADLINE_S
    with httpx.Client(base_url=server.url, timeout=30) as api:
        for n in range(load.workflows):
            while n not in load.started or api.get(f"/workflow/{load.started[n]}/status").json()["status"] == "RUNNING":
                assert time.monotonic() < ends, f"workflow {n} is not done; {load.verdicts}"
                time.sleep(0.05)
        assert load.problems == []
        assert len(set(load.started.values())) == load.workflows, "a start was answered twice with different workflows"
        completed: set[str] = set()
        known: set[str] = set()
        for workflow in load.started.values():
            found = api.get(f"/workflow/{workflow}").json()
            assert found["status"] == "COMPLETED"
            done = [task for task in found["tasks"] if task["taskType"] == "work" and task["status"] == "COMPLETED"]
            assert sorted(task["referenceTaskName"] for task in done) == sorted(f"t{n}" for n in range(BRANCHES))
            completed.update(task["taskId"] for task in done)
            known.update(task["taskId"] for task in found["tasks"])
    assert len(completed) == load.workflows * BRANCHES
    assert load.polled <= known, "what a poll was answered with is in the file"
    assert set(load.committed) <= completed, "what was answered COMMITTED is in the file"
    assert set(load.committed.values()) <= {1}, "nothing was committed twice"


def test_a_few_kills(tmp_path: Path) -> None:
    run(tmp_path, kills=3, tasks=300)


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_S)
def test_fifty_kills_under_load(tmp_path: Path) -> None:
    run(tmp_path, KILLS, TASKS)
