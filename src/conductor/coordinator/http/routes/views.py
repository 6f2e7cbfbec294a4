"""The data of the web UI and the command line: see `conductor.protocol.views` for the answers."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from conductor.coordinator import audit
from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.metrics import file_bytes
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.server_metrics import count_reports_by_queue
from conductor.coordinator.store.database_file import MEMORY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.activity import read_activity
from conductor.coordinator.views.details import read_details
from conductor.coordinator.views.failures import group_failures, list_failed_ids
from conductor.coordinator.views.inbox import list_inbox
from conductor.coordinator.views.leases import list_leases
from conductor.coordinator.views.overview import read_overview
from conductor.coordinator.views.queue_load import list_queues
from conductor.coordinator.views.recent_workflows import PageFilter, list_workflow_ids, list_workflows
from conductor.coordinator.views.waiting_facts import FactReader, explain_task, explain_workflow
from conductor.coordinator.views.workers import list_workers
from conductor.protocol.views import AuditPage, QueueLoads, ServerState, WorkflowPage
from conductor.version import __version__


async def view_overview(request: ApiRequest) -> Answer:
    """GET /view/overview: return counts of workflows and tasks, queues without workers, and health."""
    core = request.core
    polls, problem = core.tasks.list_polls(), await core.probe.find_problem()
    loops = core.fast_loops.list_fast()
    return as_json(await core.reader.read(lambda tx: read_overview(tx, polls, loops, __version__, problem)))


async def view_workflows(request: ApiRequest) -> Answer:
    """GET /view/workflows: list the workflows that match a filter, newest first, and why they wait.

    `text` is an id, or a part of a name, correlation id or reason; `input` is a part of the input, or `field=value`.
    """
    reader, polls = request.reader, request.tasks.list_polls()
    wanted = _read_filter(request)

    def read(tx: Tx) -> WorkflowPage:
        return list_workflows(tx, FactReader(tx, reader.snapshots, polls), wanted)

    return as_json(await reader.read_long(read))


async def view_workflow_ids(request: ApiRequest) -> Answer:
    """GET /view/workflow-ids: return id and status of up to 10,000 workflows that match the filter of the list."""
    wanted = _read_filter(request)
    return as_json(await request.reader.read_long(lambda tx: list_workflow_ids(tx, wanted)))


def _read_filter(request: ApiRequest) -> PageFilter:
    return PageFilter(
        statuses=[status for text in request.query_list("status") for status in text.split(",") if status],
        name=request.query("name"),
        text=request.query("text"),
        input=request.query("input"),
        started_from_ms=request.query_int("startedFrom", 0) or None,
        started_to_ms=request.query_int("startedTo", 0) or None,
        top_level=request.query_flag("topLevel", default=False),
        before=request.query("before"),
        size=request.query_int("size", 50),
        with_total=request.query_flag("total", default=False),
    )


async def view_activity(request: ApiRequest) -> Answer:
    """GET /view/activity?hours=1: count started, finished and failed workflows and waiting tasks over time."""
    hours, history = request.query_int("hours", 1), request.core.load_history
    return as_json(await request.reader.read_long(lambda tx: read_activity(tx, history, hours)))


async def view_failures(request: ApiRequest) -> Answer:
    """GET /view/failures?hours=24&size=50: group the failed workflows by name, task and cause."""
    hours, size = request.query_int("hours", 24), request.query_int("size", 50)
    return as_json(await request.reader.read_long(lambda tx: group_failures(tx, hours, size)))


async def view_failed_ids(request: ApiRequest) -> Answer:
    """GET /view/failures/{key}?hours=24: return id and status of the workflows in a group of failures, newest first."""
    hours, key = request.query_int("hours", 24), request.params["key"]
    return as_json(await request.reader.read_long(lambda tx: list_failed_ids(tx, hours, key)))


async def view_events(request: ApiRequest) -> Answer:
    """GET /view/events: stream which workflows have changed, as server-sent events.

    The event `change` names the workflows, or says `all`. The event `reset` says that the client has missed events
    since the one in its Last-Event-ID header.
    """
    feed, gone = request.core.change_feed, asyncio.Event()
    if feed.is_full:
        raise ApiError(503, "the coordinator has too many event streams; close other web UIs", retryable=True)
    request.on_disconnect(gone.set)
    headers = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
    stream = feed.stream(request.header(b"last-event-id"), gone, request.is_admitted)
    return Answer(200, content_type=b"text/event-stream;charset=utf-8", headers=headers, stream=stream)


async def view_workers(request: ApiRequest) -> Answer:
    """GET /view/workers: return the worker processes, the queues they poll, their slots and the tasks they hold."""
    polls, since_ms = request.tasks.list_workers(), request.core.started_ms
    return as_json(await request.reader.read(lambda tx: list_workers(tx, polls, since_ms)))


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


async def view_audit(request: ApiRequest) -> Answer:
    """GET /view/audit?workflowId=&action=&key=&before=&size=100: list the actions of clients, newest first."""
    workflow_id, size = request.query("workflowId"), request.query_int("size", 100)
    before, action, key = request.query("before"), request.query("action"), request.query("key")

    def read(tx: Tx) -> AuditPage:
        if workflow_id is not None:
            return audit.read_of_workflow(tx, workflow_id, before, size, action, key)
        return audit.read_page(tx, before, size, action, key)

    return as_json(await request.reader.read_long(read))


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


async def view_inbox(request: ApiRequest) -> Answer:
    """GET /view/inbox?size=50&after=: return the tasks that wait for a person or a signal, oldest first."""
    size, after = request.query_int("size", 50), request.query("after")
    return as_json(await request.reader.read(lambda tx: list_inbox(tx, size, after)))


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
            database=_make_absolute(database),
            file_bytes=file_bytes(database),
            log_bytes=file_bytes(database, "-wal"),
            commits=core.store.commits,
            committed_callers=core.store.committed_callers,
            parked_polls=len(core.tasks.parked),
            keep_finished_s=core.keep.age_s,
            keep_finished_count=core.keep.count,
            replication=await core.read_replication(),
            writer_busy_s=core.store.commit_times.total,
            disk_total_bytes=core.store.disk.total_bytes,
            disk_free_bytes=core.store.disk.free_bytes,
            disk_reserve_bytes=core.store.disk.reserve_bytes,
            unreadable_secrets=core.secrets.unreadable,
        )
    )


def _make_absolute(database: str) -> str:
    return database if database == MEMORY else str(Path(database).absolute())


_FILTER = {
    "status": "string",
    "name": "string",
    "text": "string",
    "input": "string",
    "startedFrom": "integer",
    "startedTo": "integer",
    "topLevel": "boolean",
}
_LIST = {**_FILTER, "before": "string", "size": "integer", "total": "boolean"}
_AUDIT = {"workflowId": "string", "action": "string", "key": "string", "before": "string", "size": "integer"}

ROUTES = [
    Route("GET", "/api/view/overview", view_overview, Access.READ),
    Route("GET", "/api/view/workflows", view_workflows, Access.READ, query=_LIST),
    Route("GET", "/api/view/workflow-ids", view_workflow_ids, Access.READ, query=_FILTER),
    Route("GET", "/api/view/activity", view_activity, Access.READ, query={"hours": "integer"}),
    Route("GET", "/api/view/failures", view_failures, Access.READ, query={"hours": "integer", "size": "integer"}),
    Route("GET", "/api/view/failures/{key}", view_failed_ids, Access.READ, query={"hours": "integer"}),
    Route("GET", "/api/view/workers", view_workers, Access.READ),
    Route("GET", "/api/view/events", view_events, Access.READ),
    Route("GET", "/api/view/workflow/{id}", view_workflow, Access.READ_BY_ID, query={"definition": "boolean"}),
    Route("GET", "/api/view/workflow/{id}/waiting", view_workflow_waiting, Access.READ_BY_ID),
    Route("GET", "/api/view/task/{id}/waiting", view_task_waiting, Access.READ),
    Route("GET", "/api/view/audit", view_audit, Access.OPERATE, query=_AUDIT),
    Route("GET", "/api/view/queues", view_queues, Access.READ),
    Route("GET", "/api/view/leases", view_leases, Access.READ, query={"size": "integer"}),
    Route("GET", "/api/view/inbox", view_inbox, Access.READ, query={"size": "integer", "after": "string"}),
    Route("GET", "/api/view/server", view_server, Access.READ),
]
