"""The rate of starts: in bulk, from eight connections at once, and one after the other.

For comparison, programs with dramatiq and huey send messages one after the other, because neither has bulk sends.
"""

from __future__ import annotations

import statistics
import time

from benchmarks._processes import Family
from benchmarks._rivals import DRAMATIQ, WORKFLOW
from benchmarks._run import Run
from benchmarks._server import CONNECTIONS, Server, server, simple
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow_client import WorkflowClient

PART = "starts"
RATE, LATENCY, CPU = "starts a second", "one at a time", "CPU of the server"
TOGETHER, ALONE = f"ours, {CONNECTIONS} connections", "ours, one connection"
BULK = "ours, start_workflows (bulk)"
BULK_COUNT, COUNT, ALONE_COUNT, MESSAGES = 20_000, 4000, 1000, 4000


def measure(run: Run) -> None:
    """Measure bulk starts, starts from many connections and from one, and the messages of the other libraries."""
    divide = 4 if run.quick else 1
    others = [one for one in run.contestants.values() if "Redis" in one.name]
    for number in range(run.rounds):
        print(f"  round {number + 1} of {run.rounds}", flush=True)
        with server() as found:
            found.define(WORKFLOW, simple())
            found.start(WORKFLOW, 200)
            _in_bulk(run, found, BULK_COUNT // divide)
            _together(run, found, COUNT // divide)
            _alone(run, found, ALONE_COUNT // divide)
        for other in others:
            with other.stage() as stage:
                median_us, per_second = stage.send(MESSAGES // divide)
                run.figures.add(PART, RATE, other.name, per_second, "1/s", base=DRAMATIQ)
                run.figures.add(PART, LATENCY, other.name, median_us, "µs", base=DRAMATIQ)


def _in_bulk(run: Run, found: Server, count: int) -> None:
    """Measure bulk starts with `WorkflowClient`. The time includes building and encoding the requests."""
    with WorkflowClient(Configuration(found.url)) as workflows:
        # The first start opens the connection and detects the kind of server, so it is not measured.
        workflows.start_workflows([StartWorkflowRequest(name=WORKFLOW, input={"n": 0})])
        cpu_s, began = found.family.cpu_s(), time.perf_counter()
        workflows.start_workflows([StartWorkflowRequest(name=WORKFLOW, input={"n": n}) for n in range(count)])
        _add(run, BULK, count, time.perf_counter() - began, found.family, cpu_s)


def _together(run: Run, found: Server, count: int) -> None:
    cpu_s = found.family.cpu_s()
    wall_s = found.start(WORKFLOW, count)
    _add(run, TOGETHER, count, wall_s, found.family, cpu_s)


def _alone(run: Run, found: Server, count: int) -> None:
    connection, taken = found.connect(), []
    requests = [connection.request("POST", f"/workflow/{WORKFLOW}", {"n": n}) for n in range(count)]
    cpu_s, began = found.family.cpu_s(), time.perf_counter()
    for request in requests:
        sent = time.perf_counter()
        connection.ask(request)
        taken.append((time.perf_counter() - sent) * 1e6)
    _add(run, ALONE, count, time.perf_counter() - began, found.family, cpu_s)
    connection.close()
    run.figures.add(PART, LATENCY, ALONE, statistics.median(taken), "µs", base=DRAMATIQ)


def _add(run: Run, who: str, count: int, wall_s: float, family: Family, cpu_s: float) -> None:
    run.figures.add(PART, RATE, who, count / wall_s, "1/s", base=DRAMATIQ)
    run.figures.add(PART, CPU, who, (family.cpu_s() - cpu_s) / count * 1e6, "µs a start", base=ALONE)
