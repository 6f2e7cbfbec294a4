"""A client of the coordinator that bypasses the bad network and repeats requests until they are answered."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .processes import CoordinatorProcess

#: Short, so that leases are really lost.
RESPONSE_TIMEOUT_S = 2
#: The shortest timeout with which tasks are prefetched.
LONG_TIMEOUT_S = 10
#: A function that blocks its event loop does so for this long.
BLOCKS_S = 2.5
RETRIES = 30
STEPS = ("chaos_sync", "chaos_async")
TERMINAL = ("COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED")
#: How long a client insists.
INSIST_S = 120.0


class Server:
    """A client. Any thread may use it; each has a connection of its own. For a `with` block."""

    def __init__(self, process: CoordinatorProcess) -> None:
        self._process = process
        self.jobs: dict[int, str] = {}
        self._open: deque[str] = deque()
        self._mine = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()

    @property
    def over(self) -> int:
        """Jobs that are known to be over."""
        return len(self.jobs) - len(self._open)

    def define(self, timeout_s: int = 0) -> None:
        """Define two task types and one workflow.

        `timeout_s` is their response timeout. The task timeout is much longer, so that prefetched tasks also run in
        time on a busy machine.
        """
        definitions = [
            {
                "name": name,
                "retryCount": RETRIES,
                "retryLogic": "FIXED",
                "retryDelaySeconds": 0,
                "responseTimeoutSeconds": timeout_s or RESPONSE_TIMEOUT_S,
                "timeoutSeconds": 6 * timeout_s,
            }
            for name in STEPS
        ]
        self.post("/metadata/taskdefs", definitions)
        tasks = [
            {
                "name": name,
                "taskReferenceName": name,
                "type": "SIMPLE",
                "inputParameters": {"plan": f"${{workflow.input.{name}}}"},
            }
            for name in STEPS
        ]
        self.post("/metadata/workflow", {"name": "chaos", "version": 1, "schemaVersion": 2, "tasks": tasks})

    def start_jobs(
        self, jobs: int, spread_s: float, rng: random.Random, progress: Callable[[], None], *, blocks: bool = False
    ) -> None:
        """Start every job once, however often it takes: the key makes a second start of the same job none."""
        began = time.monotonic()
        for job in range(jobs):
            time.sleep(max(0.0, began + spread_s * job / jobs - time.monotonic()))
            given = {name: _step(rng, job, name) for name in STEPS}
            if blocks and rng.random() < 0.01:
                given["chaos_async"]["blocks"] = BLOCKS_S
            start = {"name": "chaos", "version": 1, "input": given, "idempotencyKey": str(job)}
            self.jobs[job] = self.post("/workflow", start)
            self._open.append(self.jobs[job])
            progress()

    def wait(self, deadline: float, progress: Callable[[], None]) -> set[str]:
        """Wait until every job is over; those that are not when the time is."""
        while self._open and time.monotonic() < deadline:
            if self.get(f"/workflow/{self._open[0]}/status")["status"] in TERMINAL:
                self._open.popleft()
            else:
                time.sleep(0.2)
            progress()
        return set(self._open)

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, body)

    def terminate(self, id_: str) -> None:
        """End a workflow from outside; one that is over stays as it is."""
        self._call("DELETE", f"/workflow/{id_}?reason=chaos")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + INSIST_S
        while True:
            try:
                status, text = self._once(method, path, body)
            except (OSError, http.client.HTTPException):
                status, text = 0, "no answer"
            if status >= 500 or not status:  # it is being restarted, or its disk is full
                assert time.monotonic() < deadline, (method, path, status, text)
                time.sleep(0.05)
                continue
            assert status < 300 or (method == "DELETE" and status == 409), (method, path, status, text)
            return json.loads(text) if text[:1] in ("{", "[") else text

    def _once(self, method: str, path: str, body: Any) -> tuple[int, str]:
        connection = self._connection()
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, "/api" + path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> http.client.HTTPConnection:
        """The one of this thread, to where the coordinator listens now."""
        mine: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if mine is None or mine.port != self._process.port:
            if mine is not None:
                mine.close()
            mine = self._mine.connection = http.client.HTTPConnection("127.0.0.1", self._process.port, timeout=30)
            self._connections.append(mine)
        return mine


def _step(rng: random.Random, job: int, name: str) -> dict[str, Any]:
    """Draw the plan of a step: most are quick, some last longer than their lease, some fail first."""
    seconds = rng.choice((0.01, 0.05, 0.1, 0.2)) if rng.random() < 0.95 else rng.uniform(0.5, 1.6 * RESPONSE_TIMEOUT_S)
    return {
        "job": job,
        "step": name,
        "seconds": seconds,
        "failures": rng.choice((1, 1, 2)) if rng.random() < 0.1 else 0,
        "refused": rng.random() < 0.01,
        "rounds": 1 if rng.random() < 0.03 else 0,
    }
