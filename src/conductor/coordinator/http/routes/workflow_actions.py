"""Actions on whole workflows: pause, retry, terminate and the like, on one workflow or in bulk."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, NO_CONTENT, Answer, as_json, as_text
from conductor.coordinator.http.permissions import check_data
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Handler, Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.language.value_sizes import json_size
from conductor.coordinator.limits import MAX_ANSWER_BYTES, TURN_S
from conductor.coordinator.request_errors import ApiError, bad_request, invalid
from conductor.coordinator.store.lookup import find_workflow, remove_workflow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.workflow_views import read_workflow
from conductor.coordinator.workflows import workflow_actions
from conductor.protocol.json_types import JsonObject

#: Maximum number of workflows in one bulk request.
MAX_BULK = 1000

#: Changes the workflow with the given id, inside a transaction.
WorkflowChange = Callable[[Tx, str], None]


class Rerun(msgspec.Struct, rename="camel"):
    """The body of a rerun: the task to start from, which may belong to a sub-workflow, and new inputs."""

    re_run_from_task_id: str | None = None
    re_run_from_workflow_id: str | None = None
    task_input: JsonObject | None = None
    workflow_input: JsonObject | None = None
    correlation_id: str | None = None


class Skip(msgspec.Struct, rename="camel"):
    """The body of a skip: input and output of the skipped task."""

    task_input: JsonObject | None = None
    task_output: JsonObject | None = None


def _act(request: ApiRequest, action: workflow_actions.Action, **options: Any) -> WorkflowChange:
    executions = request.workflows.executions
    return lambda tx, workflow_id: executions.act(tx, find_workflow(tx, workflow_id).pk, action, **options)


def _terminate(request: ApiRequest) -> WorkflowChange:
    """Terminate a workflow with a `reason`; its running tasks are cancelled."""
    return _act(request, workflow_actions.terminate, reason=request.query("reason"))


def _pause(request: ApiRequest) -> WorkflowChange:
    """Pause a workflow: no new task is scheduled, running tasks continue."""
    return _act(request, workflow_actions.pause)


def _resume(request: ApiRequest) -> WorkflowChange:
    """Resume a paused workflow."""
    return _act(request, workflow_actions.resume, refused=400)  # status of a refusal; a Conductor server answers 500


_NOT_YET = "only an ended workflow can be retried: wait for its end, or terminate it first"


def _retry(request: ApiRequest) -> WorkflowChange:
    """Retry a failed workflow at its failed tasks; with `resumeSubworkflowTasks`, inside its sub-workflows."""
    change = _act(request, workflow_actions.retry, resume=request.query_flag("resumeSubworkflowTasks", default=False))

    def retry(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if not row.terminal:
            raise ApiError(404, f"Workflow is still running.  status={row.status}; {_NOT_YET}")
        change(tx, workflow_id)

    return retry


def _restart(request: ApiRequest) -> WorkflowChange:
    """Restart an ended workflow with its input; with `useLatestDefinitions`, on the latest definition."""
    return _act(request, workflow_actions.restart, latest=request.query_flag("useLatestDefinitions", default=False))


def _remove(request: ApiRequest) -> WorkflowChange:
    """Delete an ended workflow and its tasks; with `archiveWorkflow=false`, a running workflow, too."""
    archive, executions = request.query_flag("archiveWorkflow", default=True), request.workflows.executions

    def remove(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if archive and not row.terminal:
            raise bad_request(f"Cannot archive workflow: {workflow_id} with status: {row.status}")
        executions.remove(tx, row)

    return remove


def _terminate_remove(request: ApiRequest) -> WorkflowChange:
    """Delete a workflow; terminate it first if it is running."""
    terminate = _terminate(request)

    def terminate_remove(tx: Tx, workflow_id: str) -> None:
        if not find_workflow(tx, workflow_id).terminal:
            terminate(tx, workflow_id)
        remove_workflow(tx, find_workflow(tx, workflow_id).pk)

    return terminate_remove


def _audited(
    request: ApiRequest, make: Callable[[ApiRequest], WorkflowChange], change: WorkflowChange
) -> WorkflowChange:
    """Return a change that records itself in the audit trail."""
    action, reason = Action(make.__name__.strip("_").replace("_", " ")), request.query("reason")

    def change_and_record(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        change(tx, workflow_id)
        request.audit(tx, action, row.name, workflow=row.pk, reason=reason)

    return change_and_record


def _on_one(make: Callable[[ApiRequest], WorkflowChange], answer: Answer = DONE) -> Handler:
    """Return the handler that changes the workflow in the path."""

    async def handler(request: ApiRequest) -> Answer:
        change = _audited(request, make, make(request))
        await request.write(lambda tx: change(tx, request.params["id"]))
        return answer

    handler.__doc__ = make.__doc__
    return handler


def _on_many(make: Callable[[ApiRequest], WorkflowChange]) -> Handler:
    """Return the handler that changes each workflow of an array of ids."""

    async def handler(request: ApiRequest) -> Answer:
        ids, change = _read_ids(request), _audited(request, make, make(request))
        problems: list[str | None] = []
        while len(problems) < len(ids):
            problems += await request.write(partial(_change_some, ids=ids[len(problems) :], change=change))
        results = list(zip(ids, problems, strict=True))
        failed = {workflow_id: problem for workflow_id, problem in results if problem is not None}
        done = [workflow_id for workflow_id, problem in results if problem is None]
        return as_json({"bulkErrorResults": failed, "bulkSuccessfulResults": done})

    action = make.__doc__ or ""
    handler.__doc__ = (
        f"For each id of an array: {action[:1].lower()}{action[1:]} The answer lists the ids that failed, and why."
    )
    return handler


def _read_ids(request: ApiRequest) -> list[str]:
    ids = request.json(list[str])
    if len(ids) > MAX_BULK:
        message = f"Cannot process more than {MAX_BULK} workflows. Please use multiple requests."
        raise invalid([("workflowIds", message)])
    return ids


def _change_some(tx: Tx, ids: list[str], change: WorkflowChange) -> list[str | None]:
    """Change workflows in the order of `ids` for about `TURN_S`. Return an error message or None for each."""
    began_s, problems = time.thread_time(), list[str | None]()
    for workflow_id in ids:
        if problems and time.thread_time() - began_s > TURN_S:
            break
        try:
            with tx.savepoint():
                change(tx, workflow_id)
        except ApiError as error:
            problems.append(error.message)
        else:
            problems.append(None)
    return problems


async def read_many(request: ApiRequest) -> Answer:
    """POST /workflow/bulk/search?includeTasks=true: return the workflows of an array of ids, and the unknown ids."""
    ids, with_tasks = _read_ids(request), request.query_flag("includeTasks", default=True)
    snapshots = request.reader.snapshots

    def read(tx: Tx) -> JsonObject:
        done, failed, size = [], {}, 0
        for workflow_id in ids:
            try:
                found = read_workflow(tx, snapshots, workflow_id, with_tasks=with_tasks)
            except ApiError as error:
                failed[workflow_id] = error.message
                continue
            done.append(found)
            size += json_size(found)
            if size > MAX_ANSWER_BYTES:
                raise bad_request(f"the answer would be larger than {MAX_ANSWER_BYTES} bytes; ask for fewer ids")
        return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}

    return as_json(await request.reader.read_long(read))


async def rerun(request: ApiRequest) -> Answer:
    """POST /workflow/{id}/rerun: rerun a workflow from its start, or from a task of the workflow or a sub-workflow."""
    rerun_request, workflow_id = request.json(Rerun), request.params["id"]
    check_data(request, rerun_request.task_input)
    executions = request.workflows.executions
    options: JsonObject = {
        "task_id": rerun_request.re_run_from_task_id,
        "task_input": rerun_request.task_input,
        "workflow_input": rerun_request.workflow_input,
        "correlation_id": rerun_request.correlation_id,
    }

    def rerun_and_record(tx: Tx) -> None:
        row = find_workflow(tx, workflow_id)
        executions.rerun(tx, row, **options)
        request.audit(tx, Action.RERUN, row.name, workflow=row.pk)

    await request.write(rerun_and_record)
    return as_text(workflow_id)


async def skip(request: ApiRequest) -> Answer:
    """PUT /workflow/{id}/skiptask/{ref}: skip a task that is not scheduled yet."""
    skip_request = request.json(Skip) if request.body else Skip()
    check_data(request, skip_request.task_input)
    options: JsonObject = {
        "ref": request.params["ref"],
        "task_input": skip_request.task_input,
        "task_output": skip_request.task_output,
    }
    change = _act(request, workflow_actions.skip_task, refused=400, **options)

    def skip_and_record(tx: Tx) -> None:
        row = find_workflow(tx, request.params["id"])
        change(tx, request.params["id"])
        request.audit(tx, Action.SKIP_TASK, row.name, workflow=row.pk, reason=request.params["ref"])

    await request.write(skip_and_record)
    return DONE


def _reset_callbacks(request: ApiRequest) -> WorkflowChange:
    """Make tasks that wait for their `callbackAfterSeconds` pollable at once."""
    tasks = request.tasks

    def reset(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if row.terminal:
            raise ApiError(409, f"Workflow is in terminal state. Status = {row.status}")
        tasks.reset_callbacks(tx, row.pk)

    return reset


def _decide(request: ApiRequest) -> WorkflowChange:
    """Run the decider on a workflow. The coordinator also runs the decider after every change."""
    executions = request.workflows.executions
    return lambda tx, workflow_id: executions.advance(tx, [find_workflow(tx, workflow_id).pk])


_IDS = list[str]
_REASON = {"reason": "string"}
_ARCHIVE = {"archiveWorkflow": "boolean"}
_LATEST = {"useLatestDefinitions": "boolean"}
_RESUME = {"resumeSubworkflowTasks": "boolean"}

ROUTES = [
    Route("DELETE", "/api/workflow/{id}", _on_one(_terminate), Access.OPERATE, query=_REASON),
    Route("PUT", "/api/workflow/{id}/pause", _on_one(_pause), Access.OPERATE),
    Route("PUT", "/api/workflow/{id}/resume", _on_one(_resume), Access.OPERATE),
    Route("POST", "/api/workflow/{id}/retry", _on_one(_retry, NO_CONTENT), Access.OPERATE, query=_RESUME),
    Route("POST", "/api/workflow/{id}/restart", _on_one(_restart, NO_CONTENT), Access.OPERATE, query=_LATEST),
    Route("POST", "/api/workflow/{id}/rerun", rerun, Access.OPERATE, body=Rerun),
    Route("POST", "/api/workflow/{id}/resetcallbacks", _on_one(_reset_callbacks, NO_CONTENT), Access.OPERATE),
    Route("PUT", "/api/workflow/{id}/skiptask/{ref}", skip, Access.OPERATE, body=Skip),
    Route("PUT", "/api/workflow/decide/{id}", _on_one(_decide), Access.OPERATE),
    Route("DELETE", "/api/workflow/{id}/remove", _on_one(_remove), Access.OPERATE, query=_ARCHIVE),
    Route("DELETE", "/api/workflow/{id}/terminate-remove", _on_one(_terminate_remove), Access.OPERATE, query=_REASON),
    Route("POST", "/api/workflow/bulk/search", read_many, Access.READ, query={"includeTasks": "boolean"}, body=_IDS),
    Route("PUT", "/api/workflow/bulk/pause", _on_many(_pause), Access.OPERATE, body=_IDS),
    Route("PUT", "/api/workflow/bulk/resume", _on_many(_resume), Access.OPERATE, body=_IDS),
    Route("POST", "/api/workflow/bulk/retry", _on_many(_retry), Access.OPERATE, query=_RESUME, body=_IDS),
    Route("POST", "/api/workflow/bulk/restart", _on_many(_restart), Access.OPERATE, query=_LATEST, body=_IDS),
    Route("POST", "/api/workflow/bulk/terminate", _on_many(_terminate), Access.OPERATE, query=_REASON, body=_IDS),
    Route("DELETE", "/api/workflow/bulk/remove", _on_many(_remove), Access.OPERATE, query=_ARCHIVE, body=_IDS),
    Route(
        "DELETE",
        "/api/workflow/bulk/terminate-remove",
        _on_many(_terminate_remove),
        Access.OPERATE,
        query=_REASON,
        body=_IDS,
    ),
]
