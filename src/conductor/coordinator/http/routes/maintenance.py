"""Conductor's routes for operators: configuration, pending tasks, sweeps, event queues."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Callable

import msgspec

from conductor.coordinator import limits
from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.by_reference import update_task
from conductor.coordinator.http.routes.metrics import file_bytes
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError, not_found
from conductor.coordinator.store.lookup import find_workflow, get_task
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.statements import PENDING_TASKS_OF_TYPE
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import task_views
from conductor.coordinator.views.search_query import encode_page
from conductor.coordinator.workflows.workflow_signals import find_open_task
from conductor.protocol.json_types import JsonObject
from conductor.version import __version__

#: Maximum number of tasks in one answer.
MAX_TASKS = 1000


async def get_config(request: ApiRequest) -> Answer:
    """GET /admin/config: return versions and limits."""
    bounds = {name: value for name, value in vars(limits).items() if name.isupper()}
    versions = {"version": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return as_json({**versions, "platform": platform.platform(), "database": request.core.store.database, **bounds})


async def list_pending_tasks(request: ApiRequest) -> Answer:
    """GET /admin/task/{type}?start=0&count=100: return the scheduled and running tasks of a type."""
    start, count = max(0, request.query_int("start", 0)), min(max(0, request.query_int("count", 100)), MAX_TASKS)
    name, snapshots = request.params["type"], request.reader.snapshots

    def find(tx: Tx) -> list[msgspec.Raw]:
        keys = tx.rows(PENDING_TASKS_OF_TYPE, name, count, start)
        return encode_page((task_views.read_task(tx, snapshots, tx.ids.task(pk)) for pk in keys), "count")

    return as_json(await request.reader.read_long(find))


async def decide_workflow(request: ApiRequest) -> Answer:
    """POST /admin/sweep/requeue/{workflowId}: run the decider on a workflow.

    The coordinator runs the decider after every change, so this is rarely needed.
    """
    workflow_id = request.params["workflowId"]
    executions = request.workflows.executions

    def decide(tx: Tx) -> None:
        row = find_workflow(tx, workflow_id)
        executions.advance(tx, [row.pk])
        request.audit(tx, Action.DECIDE, row.name, workflow=row.pk)

    await request.write(decide)
    return as_text(f"true.{workflow_id}")


async def verify_and_repair(request: ApiRequest) -> Answer:
    """POST /admin/consistency/verifyAndRepair/{workflowId}: return false.

    A Conductor server compares its database with its queues. The coordinator keeps both in one database, so there is
    nothing to repair.
    """
    workflow_id = request.params["workflowId"]
    await request.reader.read(lambda tx: find_workflow(tx, workflow_id))
    return as_text("false")


async def vacuum(request: ApiRequest) -> Answer:
    """POST /admin/vacuum: make the database file smaller after workflows were removed; return its sizes.

    All other requests that change something wait until it is done.
    """
    store = request.core.store
    store.disk.read()
    before, room = file_bytes(store.database), store.disk.free_bytes
    if before is not None and room < 2 * before:
        raise ApiError(
            409,
            f"the database has {before >> 20} MB, so a vacuum needs {before >> 19} MB of free space; "
            f"{room >> 20} MB are free",
        )
    # The audit entry has a transaction of its own, because VACUUM cannot run in a transaction.
    await request.write(lambda tx: request.audit(tx, Action.VACUUM, "database"))
    await store.vacuum()
    return as_json({"bytesBefore": before, "bytesAfter": file_bytes(store.database)})


async def list_event_queues(_request: ApiRequest) -> Answer:
    """GET /queue/: return an empty object; the coordinator uses no external event queues."""
    return as_json({})


async def update_by_name(request: ApiRequest) -> Answer:
    """POST /queue/update/{workflowId}/{ref}/{status}: end an open task; the body is its output."""
    workflow_id, ref = request.params["workflowId"], request.params["ref"]
    return await _update(request, lambda tx: find_open_task(tx, workflow_id, ref), ref)


async def update_by_id(request: ApiRequest) -> Answer:
    """POST /queue/update/{workflowId}/task/{taskId}/{status}: end a task; the body is its output."""
    task_id, workflow_id = request.params["taskId"], request.params["workflowId"]

    def find(tx: Tx) -> TaskRow | None:
        found = get_task(tx, tx.ids.task_pk(task_id))
        return found if found is not None and tx.ids.workflow(found.workflow) == workflow_id else None

    return await _update(request, find, task_id)


async def _update(request: ApiRequest, find: Callable[[Tx], TaskRow | None], name: str) -> Answer:
    if await update_task(request, find) is None:
        raise not_found(f"there is no open task {name} of workflow {request.params['workflowId']} to update")
    return DONE


_PAGE = {"start": "integer", "count": "integer"}

ROUTES = [
    Route("GET", "/api/admin/config", get_config, Access.READ),
    Route("GET", "/api/admin/task/{type}", list_pending_tasks, Access.READ, query=_PAGE),
    Route("GET", "/api/admin/queues", list_event_queues, Access.READ, query={"verbose": "boolean"}),
    Route("POST", "/api/admin/sweep/requeue/{workflowId}", decide_workflow, Access.OPERATE),
    Route("POST", "/api/admin/consistency/verifyAndRepair/{workflowId}", verify_and_repair, Access.OPERATE),
    Route("GET", "/api/queue/", list_event_queues, Access.READ),
    Route("GET", "/api/queue/size", list_event_queues, Access.READ),
    Route("POST", "/api/queue/update/{workflowId}/{ref}/{status}", update_by_name, Access.OPERATE, body=JsonObject),
    Route(
        "POST", "/api/queue/update/{workflowId}/task/{taskId}/{status}", update_by_id, Access.OPERATE, body=JsonObject
    ),
    Route("POST", "/api/admin/vacuum", vacuum, Access.OPERATE),
]
