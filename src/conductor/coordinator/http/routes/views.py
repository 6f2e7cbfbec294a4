"""The data of the web UI and the command line: see `conductor.protocol.views` for the answers."""

from __future__ import annotations

import os
import sys

from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.metrics import file_bytes
from conductor.coordinator.http.routing import Route
from conductor.coordinator.server_metrics import count_reports_by_queue
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.details import read_details
from conductor.coordinator.views.leases import list_leases
from conductor.coordinator.views.overview import read_overview
from conductor.coordinator.views.queue_load import list_queues
from conductor.coordinator.views.recent_workflows import PageFilter, list_workflows
from conductor.coordinator.views.waiting_facts import FactReader, explain_task, explain_workflow
from conductor.protocol.views import QueueLoads, ServerState, WorkflowPage
from conductor.version import __version__


async def view_overview(request: ApiRequest) -> Answer:
    """GET /view/overview: return counts of workflows and tasks, queues without workers, and health."""
    core = request.core
    polls, problem = core.tasks.list_polls(), await core.probe.find_problem()
    return as_json(await core.reader.read(lambda tx: read_overview(tx, polls, __version__, problem)))


async def view_workflows(request: ApiRequest) -> Answer:
    """GET /view/workflows?status=&name=&text=&before=&size=50: list workflows, newest first, and why they wait."""
    reader, polls = request.reader, request.tasks.list_polls()
    wanted = PageFilter(
        statuses=[status for text in request.query_list("status") for status in text.split(",") if status],
        name=request.query("name"),
        text=request.query("text"),
        before=request.query("before"),
        size=request.query_int("size", 50),
    )

    def read(tx: Tx) -> WorkflowPage:
        return list_workflows(tx, FactReader(tx, reader.snapshots, polls), wanted)

    return as_json(await reader.read_long(read))


async def view_workflow(request: ApiRequest) -> Answer:
    """GET /view/workflow/{id}?definition=true: return a workflow, why it waits, and every attempt at its tasks."""
    reader, polls, workflow_id = request.reader, request.tasks.list_polls(), request.params["id"]
    with_definition = request.query_flag("definition", default=True)
    return as_json(
        await reader.read(
            lambda tx: read_details(tx, reader.snapshots, polls, workflow_id, with_definition=with_definition)
        )
    )


async def view_workflow_waiting(request: ApiRequest) -> Answer:
    """GET /view/workflow/{id}/waiting: return why a workflow waits, in one sentence."""
    reader, polls, workflow_id = request.reader, request.tasks.list_polls(), request.params["id"]
    return as_json(await reader.read(lambda tx: explain_workflow(tx, reader.snapshots, polls, workflow_id)))


async def view_task_waiting(request: ApiRequest) -> Answer:
    """GET /view/task/{id}/waiting: return why a task waits, in one sentence."""
    reader, polls, task_id = request.reader, request.tasks.list_polls(), request.params["id"]
    return as_json(await reader.read(lambda tx: explain_task(tx, reader.snapshots, polls, task_id)))


async def view_queues(request: ApiRequest) -> Answer:
    """GET /view/queues: return the load, the workers, the throughput and the problem of every queue."""
    reader, polls = request.reader, request.tasks.list_polls()
    verdicts = count_reports_by_queue(request.core.store.counts.copy())

    def read(tx: Tx) -> QueueLoads:
        return QueueLoads(now_ms=tx.now_ms, queues=list_queues(tx, polls, with_stats=True, verdicts=verdicts))

    return as_json(await reader.read(read))


async def view_leases(request: ApiRequest) -> Answer:
    """GET /view/leases?size=100: return the open leases that expire first."""
    size = request.query_int("size", 100)
    return as_json(await request.reader.read(lambda tx: list_leases(tx, size)))


async def view_server(request: ApiRequest) -> Answer:
    """GET /view/server: return the state of the process, its database and its retention."""
    core = request.core
    problem = await core.probe.find_problem()
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
            parked_polls=len(core.tasks.parked),
            keep_finished_s=core.keep.age_s,
            keep_finished_count=core.keep.count,
        )
    )


_LIST = {"status": "string", "name": "string", "text": "string", "before": "string", "size": "integer"}

ROUTES = [
    Route("GET", "/api/view/overview", view_overview),
    Route("GET", "/api/view/workflows", view_workflows, query=_LIST),
    Route("GET", "/api/view/workflow/{id}", view_workflow, query={"definition": "boolean"}),
    Route("GET", "/api/view/workflow/{id}/waiting", view_workflow_waiting),
    Route("GET", "/api/view/task/{id}/waiting", view_task_waiting),
    Route("GET", "/api/view/queues", view_queues),
    Route("GET", "/api/view/leases", view_leases, query={"size": "integer"}),
    Route("GET", "/api/view/server", view_server),
]
