"""What people look at: the numbers above everything, workflows, one workflow, queues, leases, why it waits."""

from __future__ import annotations

import os
import sys

from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routes.metrics import file_bytes
from conductor.coordinator.http.routing import Route
from conductor.coordinator.server_metrics import count_reports_by_queue
from conductor.coordinator.views import execution, leases, overview, queue_load, recent_workflows, waiting_facts
from conductor.protocol.views import OpenLeases, QueueLoads, ServerState
from conductor.version import __version__


async def see_overview(request: Request) -> Answer:
    """GET /view/overview: running, failed in the last hour, waiting, queues nobody polls, health."""
    core = request.core
    polls, problem = core.polls(), await core.probe.problem()
    found = await core.read(lambda tx: overview.overview(tx, polls, __version__))
    found.healthy, found.health = problem is None, problem
    return as_json(found)


async def see_workflows(request: Request) -> Answer:
    """GET /view/workflows?status=&name=&text=&before=&size=50: newest first, each open one with why it waits."""
    core, polls = request.core, request.core.polls()
    asked = recent_workflows.Asked(
        statuses=[status for text in request.query_list("status") for status in text.split(",") if status],
        name=request.query("name"),
        text=request.query("text"),
        before=request.query("before"),
        size=request.query_int("size", 50),
    )
    return as_json(
        await core.read_long(
            lambda tx: recent_workflows.recent(tx, waiting_facts.Facts(tx, core.snapshots, polls), asked)
        )
    )


async def see_workflow(request: Request) -> Answer:
    """GET /view/workflow/{id}?definition=true: it, why it waits, and every attempt at its tasks without payloads."""
    core, polls, workflow_id = request.core, request.core.polls(), request.params["id"]
    with_definition = request.query_flag("definition", default=True)
    return as_json(
        await core.read(
            lambda tx: execution.execution(tx, core.snapshots, polls, workflow_id, with_definition=with_definition)
        )
    )


async def why_workflow(request: Request) -> Answer:
    """GET /view/workflow/{id}/waiting: why it waits, in one sentence."""
    core, polls, workflow_id = request.core, request.core.polls(), request.params["id"]
    return as_json(await core.read(lambda tx: waiting_facts.why_workflow_waits(tx, core.snapshots, polls, workflow_id)))


async def why_task(request: Request) -> Answer:
    """GET /view/task/{id}/waiting: why it waits, in one sentence."""
    core, polls, task_id = request.core, request.core.polls(), request.params["id"]
    return as_json(await core.read(lambda tx: waiting_facts.why_task_waits(tx, core.snapshots, polls, task_id)))


async def see_queues(request: Request) -> Answer:
    """GET /view/queues: depth, age, who polls, in hand, rates, p50 and p95, verdicts, and what is wrong."""
    core, polls = request.core, request.core.polls()
    verdicts = count_reports_by_queue(core.store.counts.copy())
    found = await core.read(lambda tx: (tx.now_ms, queue_load.queues(tx, polls, with_stats=True, verdicts=verdicts)))
    return as_json(QueueLoads(now_ms=found[0], queues=found[1]))


async def see_leases(request: Request) -> Answer:
    """GET /view/leases?size=100: who holds which task, until when; those that end soonest first."""
    size = request.query_int("size", 100)
    found = await request.core.read(lambda tx: (tx.now_ms, leases.leases(tx, size)))
    return as_json(OpenLeases(now_ms=found[0], leases=found[1]))


async def see_server(request: Request) -> Answer:
    """GET /view/server: the process, its file, its commits, what it keeps."""
    core = request.core
    problem = await core.probe.problem()
    database = core.store.database
    return as_json(
        ServerState(
            now_ms=core.clock.wall_ms(),
            version=__version__,
            python=sys.version.split()[0],
            pid=os.getpid(),
            started_ms=core.started_ms,
            healthy=problem is None,
            health=problem,
            database=database,
            file_bytes=file_bytes(database),
            log_bytes=file_bytes(database, "-wal"),
            commits=core.store.commits,
            committed_callers=core.store.committed_callers,
            parked_polls=len(core.waiters),
            keep_finished_s=core.keep.age_s,
            keep_finished_count=core.keep.count,
        )
    )


_LIST = {"status": "string", "name": "string", "text": "string", "before": "string", "size": "integer"}

ROUTES = [
    Route("GET", "/api/view/overview", see_overview),
    Route("GET", "/api/view/workflows", see_workflows, query=_LIST),
    Route("GET", "/api/view/workflow/{id}", see_workflow, query={"definition": "boolean"}),
    Route("GET", "/api/view/workflow/{id}/waiting", why_workflow),
    Route("GET", "/api/view/task/{id}/waiting", why_task),
    Route("GET", "/api/view/queues", see_queues),
    Route("GET", "/api/view/leases", see_leases, query={"size": "integer"}),
    Route("GET", "/api/view/server", see_server),
]
