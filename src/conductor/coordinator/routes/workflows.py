"""Starting, reading and ending workflows."""

from __future__ import annotations

from typing import Any

from conductor.coordinator import queries, workflow_actions
from conductor.coordinator.app import DONE, NOTHING, Answer, Request, Route, as_json, as_text
from conductor.coordinator.definition_rules import check_workflow_def
from conductor.coordinator.errors import bad_request, invalid
from conductor.coordinator.executions import Action, Start, find_workflow

MAX_PRIORITY = 99


async def start(request: Request) -> Answer:
    """POST /workflow: start by name, or with the definition in the request; the answer is the workflow's id."""
    return await _start(request, request.json(Start))


async def start_by_name(request: Request) -> Answer:
    """POST /workflow/{name}: the body is the input."""
    asked = Start(
        name=request.params["name"],
        version=request.integer("version", 0) or None,
        correlation_id=request.query("correlationId"),
        priority=request.integer("priority", 0),
        input=request.json(dict[str, Any]),
    )
    return await _start(request, asked)


async def _start(request: Request, asked: Start) -> Answer:
    if not (asked.name or "").strip():
        raise invalid([("startWorkflow.name", "Workflow name cannot be null or empty")])
    if not 0 <= (asked.priority or 0) <= MAX_PRIORITY:
        raise invalid([("startWorkflow.priority", f"priority: {asked.priority} should be between 0 and 99")])
    if asked.input is None:
        raise bad_request("the input of a workflow cannot be null")
    if asked.workflow_def is not None:
        asked.workflow_def = check_workflow_def({"name": asked.name, **asked.workflow_def})
    executions = request.core.executions
    return as_text(await request.core.write(lambda tx: tx.ids.workflow(executions.start(tx, asked))))


async def get(request: Request) -> Answer:
    """GET /workflow/{id}?includeTasks=true."""
    workflow_id, with_tasks = request.params["id"], request.flag("includeTasks", default=True)
    snapshots = request.core.snapshots
    return as_json(
        await request.core.read(lambda tx: queries.workflow(tx, snapshots, workflow_id, with_tasks=with_tasks))
    )


async def status(request: Request) -> Answer:
    """GET /workflow/{id}/status."""
    output, variables = request.flag("includeOutput", default=False), request.flag("includeVariables", default=False)
    workflow_id = request.params["id"]
    return as_json(
        await request.core.read(lambda tx: queries.workflow_status(tx, workflow_id, output=output, variables=variables))
    )


async def _act(request: Request, action: Action) -> None:
    workflow_id, executions = request.params["id"], request.core.executions
    await request.core.write(lambda tx: executions.act(tx, find_workflow(tx, workflow_id), action))


async def terminate(request: Request) -> Answer:
    """DELETE /workflow/{id}?reason=: open tasks are cancelled and lose their leases."""
    reason = request.query("reason")
    await _act(request, lambda state, now_ms, _: workflow_actions.terminate(state, now_ms, reason))
    return DONE


async def pause(request: Request) -> Answer:
    """PUT /workflow/{id}/pause: nothing more is scheduled; tasks in hand are not touched."""
    await _act(request, lambda state, _now, _ids: workflow_actions.pause(state))
    return DONE


async def resume(request: Request) -> Answer:
    """PUT /workflow/{id}/resume."""
    await _act(request, lambda state, now_ms, new_id: workflow_actions.resume(state, now_ms, new_id=new_id))
    return DONE


async def retry(request: Request) -> Answer:
    """POST /workflow/{id}/retry: what failed is tried again, under new task ids."""
    await _act(request, lambda state, now_ms, new_id: workflow_actions.retry(state, now_ms, new_id=new_id))
    return NOTHING


ROUTES = [
    Route("POST", "/api/workflow", start),
    Route("POST", "/api/workflow/{name}", start_by_name),
    Route("GET", "/api/workflow/{id}", get),
    Route("DELETE", "/api/workflow/{id}", terminate),
    Route("PUT", "/api/workflow/{id}/pause", pause),
    Route("PUT", "/api/workflow/{id}/resume", resume),
    Route("POST", "/api/workflow/{id}/retry", retry),
    Route("GET", "/api/workflow/{id}/status", status),
]
