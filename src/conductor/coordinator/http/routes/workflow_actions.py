"""What people do to whole workflows, one at a time or in bulk."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from conductor.coordinator.http.answer import DONE, NO_CONTENT, Answer, as_json, as_text
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.language.value_sizes import json_size
from conductor.coordinator.limits import MAX_ANSWER_BYTES, TURN_S
from conductor.coordinator.request_errors import ApiError, bad_request, invalid
from conductor.coordinator.store.lookup import find_workflow, remove_workflow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.workflow_views import workflow
from conductor.coordinator.workflows import workflow_actions

#: More in one bulk request are refused.
MAX_BULK = 1000

#: Something done to one workflow, by its id, inside a transaction.
Change = Callable[[Tx, str], None]


class Rerun(msgspec.Struct, rename="camel"):
    """From where, and with what. The task may be one of a sub-workflow's; the workflow is the one in the path."""

    re_run_from_task_id: str | None = None
    re_run_from_workflow_id: str | None = None
    task_input: dict[str, Any] | None = None
    workflow_input: dict[str, Any] | None = None
    correlation_id: str | None = None


class Skip(msgspec.Struct, rename="camel"):
    """What a skipped task pretends to have had and given."""

    task_input: dict[str, Any] | None = None
    task_output: dict[str, Any] | None = None


def _act(request: Request, action: workflow_actions.Action, **options: Any) -> Change:
    executions = request.core.executions
    return lambda tx, workflow_id: executions.act(tx, find_workflow(tx, workflow_id).pk, action, **options)


def _terminate(request: Request) -> Change:
    """Running tasks are cancelled; `reason` is kept with it."""
    return _act(request, workflow_actions.terminate, reason=request.query("reason"))


def _pause(request: Request) -> Change:
    """No new task is scheduled; those in a worker's hand go on."""
    return _act(request, workflow_actions.pause)


def _resume(request: Request) -> Change:
    """A paused workflow goes on."""
    return _act(request, workflow_actions.resume, refused=400)  # a client's mistake, where the real server says 500


def _retry(request: Request) -> Change:
    """A failed workflow goes on from its failed tasks; with `resumeSubworkflowTasks` inside of its sub-workflows."""
    retried = _act(request, workflow_actions.retry, resume=request.query_flag("resumeSubworkflowTasks", default=False))

    def retry(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if not row.terminal:
            raise ApiError(404, f"Workflow is still running.  status={row.status}")
        retried(tx, workflow_id)

    return retry


def _restart(request: Request) -> Change:
    """An ended workflow begins again with its input, with `useLatestDefinitions` on the newest definition."""
    return _act(request, workflow_actions.restart, latest=request.query_flag("useLatestDefinitions", default=False))


def _remove(request: Request) -> Change:
    """An ended workflow and its tasks are deleted; `archiveWorkflow=false` deletes a running one too."""
    archive, executions = request.query_flag("archiveWorkflow", default=True), request.core.executions

    def remove(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if archive and not row.terminal:
            raise bad_request(f"Cannot archive workflow: {workflow_id} with status: {row.status}")
        executions.remove(tx, row)

    return remove


def _terminate_remove(request: Request) -> Change:
    """Terminated if it is running, and deleted."""
    terminate = _terminate(request)

    def terminate_remove(tx: Tx, workflow_id: str) -> None:
        if not find_workflow(tx, workflow_id).terminal:
            terminate(tx, workflow_id)
        remove_workflow(tx, find_workflow(tx, workflow_id).pk)

    return terminate_remove


def one(make: Callable[[Request], Change], answer: Answer = DONE) -> Any:
    """A route that does it to the workflow in the path."""

    async def handler(request: Request) -> Answer:
        change = make(request)
        await request.core.write(lambda tx: change(tx, request.params["id"]))
        return answer

    handler.__doc__ = make.__doc__
    return handler


def many(make: Callable[[Request], Change]) -> Any:
    """A route that does it to each workflow in the body; what fails is told, the others are done."""

    async def handler(request: Request) -> Answer:
        ids, change = request.json(list[str]), make(request)
        if len(ids) > MAX_BULK:
            raise invalid(
                [("workflowIds", f"Cannot process more than {MAX_BULK} workflows. Please use multiple requests.")]
            )
        problems: list[str | None] = []
        while len(problems) < len(ids):
            problems += await request.core.write(partial(_in_one_turn, ids=ids[len(problems) :], change=change))
        said = dict(zip(ids, problems, strict=True))
        failed = {workflow_id: problem for workflow_id, problem in said.items() if problem is not None}
        done = [workflow_id for workflow_id, problem in zip(ids, problems, strict=True) if problem is None]
        return as_json({"bulkErrorResults": failed, "bulkSuccessfulResults": done})

    handler.__doc__ = (
        "The same for each workflow id in the body's array; which of them failed, and why, is in the answer."
    )
    return handler


def _in_one_turn(tx: Tx, ids: list[str], change: Change) -> list[str | None]:
    """Do it to the first of them, as many as there is time for; what went wrong with each."""
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


async def read_many(request: Request) -> Answer:
    """POST /workflow/bulk/search?includeTasks=true: the workflows of these ids; which are unknown is in the answer."""
    ids, with_tasks = request.json(list[str]), request.query_flag("includeTasks", default=True)
    if len(ids) > MAX_BULK:
        raise invalid(
            [("workflowIds", f"Cannot process more than {MAX_BULK} workflows. Please use multiple requests.")]
        )
    snapshots = request.core.snapshots

    def read(tx: Tx) -> dict[str, Any]:
        done, failed, size = [], {}, 0
        for workflow_id in ids:
            try:
                found = workflow(tx, snapshots, workflow_id, with_tasks=with_tasks)
            except ApiError as error:
                failed[workflow_id] = error.message
                continue
            done.append(found)
            size += json_size(found)
            if size > MAX_ANSWER_BYTES:
                raise bad_request(f"the answer would be larger than {MAX_ANSWER_BYTES} bytes; ask for fewer ids")
        return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}

    return as_json(await request.core.read_long(read))


async def rerun(request: Request) -> Answer:
    """POST /workflow/{id}/rerun: from a task of it or of its sub-workflows, or from the beginning."""
    asked, executions, workflow_id = request.json(Rerun), request.core.executions, request.params["id"]
    options: dict[str, Any] = {
        "task_id": asked.re_run_from_task_id,
        "task_input": asked.task_input,
        "workflow_input": asked.workflow_input,
        "correlation_id": asked.correlation_id,
    }
    await request.core.write(lambda tx: executions.rerun(tx, find_workflow(tx, workflow_id), **options))
    return as_text(workflow_id)


async def skip(request: Request) -> Answer:
    """PUT /workflow/{id}/skiptask/{ref}: a task that is still to come is passed over."""
    asked = request.json(Skip) if request.body else Skip()
    options: dict[str, Any] = {
        "ref": request.params["ref"],
        "task_input": asked.task_input,
        "task_output": asked.task_output,
    }
    change = _act(request, workflow_actions.skip_task, refused=400, **options)
    await request.core.write(lambda tx: change(tx, request.params["id"]))
    return DONE


def _reset_callbacks(request: Request) -> Change:
    """Tasks that wait for their `callbackAfterSeconds` can be polled at once."""
    core = request.core

    def reset(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if row.terminal:
            raise ApiError(409, f"Workflow is in terminal state. Status = {row.status}")
        core.queue.reset_callbacks(tx, row.pk)

    return reset


def _decide(request: Request) -> Change:
    """Looks whether there is something to schedule; it happens by itself."""
    executions = request.core.executions
    return lambda tx, workflow_id: executions.advance(tx, [find_workflow(tx, workflow_id).pk])


_IDS = list[str]
_REASON = {"reason": "string"}
_ARCHIVE = {"archiveWorkflow": "boolean"}
_LATEST = {"useLatestDefinitions": "boolean"}
_RESUME = {"resumeSubworkflowTasks": "boolean"}

ROUTES = [
    Route("DELETE", "/api/workflow/{id}", one(_terminate), query=_REASON),
    Route("PUT", "/api/workflow/{id}/pause", one(_pause)),
    Route("PUT", "/api/workflow/{id}/resume", one(_resume)),
    Route("POST", "/api/workflow/{id}/retry", one(_retry, NO_CONTENT), query=_RESUME),
    Route("POST", "/api/workflow/{id}/restart", one(_restart, NO_CONTENT), query=_LATEST),
    Route("POST", "/api/workflow/{id}/rerun", rerun, body=Rerun),
    Route("POST", "/api/workflow/{id}/resetcallbacks", one(_reset_callbacks, NO_CONTENT)),
    Route("PUT", "/api/workflow/{id}/skiptask/{ref}", skip, body=Skip),
    Route("PUT", "/api/workflow/decide/{id}", one(_decide)),
    Route("DELETE", "/api/workflow/{id}/remove", one(_remove), query=_ARCHIVE),
    Route("DELETE", "/api/workflow/{id}/terminate-remove", one(_terminate_remove), query=_REASON),
    Route("POST", "/api/workflow/bulk/search", read_many, query={"includeTasks": "boolean"}, body=_IDS),
    Route("PUT", "/api/workflow/bulk/pause", many(_pause), body=_IDS),
    Route("PUT", "/api/workflow/bulk/resume", many(_resume), body=_IDS),
    Route("POST", "/api/workflow/bulk/retry", many(_retry), query=_RESUME, body=_IDS),
    Route("POST", "/api/workflow/bulk/restart", many(_restart), query=_LATEST, body=_IDS),
    Route("POST", "/api/workflow/bulk/terminate", many(_terminate), query=_REASON, body=_IDS),
    Route("DELETE", "/api/workflow/bulk/remove", many(_remove), query=_ARCHIVE, body=_IDS),
    Route("DELETE", "/api/workflow/bulk/terminate-remove", many(_terminate_remove), query=_REASON, body=_IDS),
]
