"""What people do to whole workflows, one at a time or in bulk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from conductor.coordinator import workflow_actions
from conductor.coordinator.app import DONE, NOTHING, Answer, Request, Route, as_json, as_text
from conductor.coordinator.definitions import Snapshot
from conductor.coordinator.errors import ApiError, bad_request, invalid
from conductor.coordinator.executions import Action, Executions, find_workflow
from conductor.coordinator.retention import remove_workflow
from conductor.coordinator.store import Tx

#: More in one bulk request are refused.
MAX_BULK = 1000

#: Something done to one workflow inside a transaction.
Deed = Callable[[Tx, str], None]


class Rerun(msgspec.Struct, rename="camel"):
    """From where, and with what."""

    re_run_from_task_id: str | None = None
    task_input: dict[str, Any] | None = None
    workflow_input: dict[str, Any] | None = None


class Skip(msgspec.Struct, rename="camel"):
    """What a skipped task pretends to have had and given."""

    task_input: dict[str, Any] | None = None
    task_output: dict[str, Any] | None = None


def _deed(executions: Executions, action: Action, refused: int = 409) -> Deed:
    return lambda tx, workflow_id: executions.act(tx, find_workflow(tx, workflow_id), action, refused=refused)


def _terminate(request: Request) -> Deed:
    """Running tasks are cancelled; `reason` is kept with it."""
    reason = request.query("reason")
    return _deed(request.core.executions, lambda state, now_ms, _: workflow_actions.terminate(state, now_ms, reason))


def _pause(request: Request) -> Deed:
    """No new task is scheduled; those in a worker's hand go on."""
    return _deed(request.core.executions, lambda state, _now, _ids: workflow_actions.pause(state))


def _resume(request: Request) -> Deed:
    """A paused workflow goes on."""
    # A client's mistake, where the real server says 500.
    return _deed(
        request.core.executions,
        lambda state, now_ms, new_id: workflow_actions.resume(state, now_ms, new_id=new_id),
        refused=400,
    )


def _retry(request: Request) -> Deed:
    """A failed workflow goes on from its last failed task."""
    executions = request.core.executions

    def retry(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if not row.terminal:
            raise ApiError(404, f"Workflow is still running.  status={row.status}")
        executions.act(tx, row, lambda state, now_ms, new_id: workflow_actions.retry(state, now_ms, new_id=new_id))

    return retry


def _restart(request: Request) -> Deed:
    """An ended workflow begins again with its input, with `useLatestDefinitions` on the newest definition."""
    executions, latest = request.core.executions, request.flag("useLatestDefinitions", default=False)

    def restart(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        snapshot = executions.latest(tx, row) if latest else None
        executions.act(tx, row, _restarted(snapshot), snapshot=snapshot)

    return restart


def _restarted(snapshot: Snapshot | None) -> Action:
    plan = None if snapshot is None else snapshot.plan
    return lambda state, now_ms, new_id: workflow_actions.restart(state, now_ms, new_id=new_id, plan=plan)


def _remove(request: Request) -> Deed:
    """An ended workflow and its tasks are deleted; `archiveWorkflow=false` deletes a running one too."""
    archive = request.flag("archiveWorkflow", default=True)

    def remove(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if archive and not row.terminal:
            raise bad_request(f"Cannot archive workflow: {workflow_id} with status: {row.status}")
        remove_workflow(tx, row.pk)

    return remove


def _terminate_remove(request: Request) -> Deed:
    """Terminated if it is running, and deleted."""
    terminate = _terminate(request)

    def terminate_remove(tx: Tx, workflow_id: str) -> None:
        if not find_workflow(tx, workflow_id).terminal:
            terminate(tx, workflow_id)
        remove_workflow(tx, find_workflow(tx, workflow_id).pk)

    return terminate_remove


def one(make: Callable[[Request], Deed], answer: Answer = DONE) -> Any:
    """A route that does it to the workflow in the path."""

    async def handler(request: Request) -> Answer:
        deed = make(request)
        await request.core.write(lambda tx: deed(tx, request.params["id"]))
        return answer

    handler.__doc__ = make.__doc__
    return handler


def many(make: Callable[[Request], Deed]) -> Any:
    """A route that does it to each workflow in the body; what fails is told, the others are done."""

    async def handler(request: Request) -> Answer:
        ids, deed = request.json(list[str]), make(request)
        if len(ids) > MAX_BULK:
            raise invalid(
                [("workflowIds", f"Cannot process more than {MAX_BULK} workflows. Please use multiple requests.")]
            )
        return as_json(await request.core.write(lambda tx: _bulk(tx, ids, deed)))

    handler.__doc__ = (
        "The same for each workflow id in the body's array; which of them failed, and why, is in the answer."
    )
    return handler


def _bulk(tx: Tx, ids: list[str], deed: Deed) -> dict[str, Any]:
    done, failed = [], {}
    for workflow_id in ids:
        try:
            with tx.savepoint():
                deed(tx, workflow_id)
        except ApiError as error:
            failed[workflow_id] = error.message
        else:
            done.append(workflow_id)
    return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}


async def rerun(request: Request) -> Answer:
    """POST /workflow/{id}/rerun: from a task, or from the beginning."""
    asked, executions, workflow_id = request.json(Rerun), request.core.executions, request.params["id"]

    def change(tx: Tx) -> None:
        row = find_workflow(tx, workflow_id)
        refused = 400 if row.terminal else 409
        executions.act(
            tx,
            row,
            lambda state, now_ms, new_id: workflow_actions.rerun(
                state,
                now_ms,
                new_id=new_id,
                task_id=asked.re_run_from_task_id,
                task_input=asked.task_input,
                workflow_input=asked.workflow_input,
            ),
            refused=refused,
        )

    await request.core.write(change)
    return as_text(workflow_id)


async def skip(request: Request) -> Answer:
    """PUT /workflow/{id}/skiptask/{ref}: a task that is still to come is passed over."""
    asked = request.json(Skip) if request.body else Skip()
    ref = request.params["ref"]
    deed = _deed(
        request.core.executions,
        lambda state, now_ms, new_id: workflow_actions.skip_task(
            state, ref, now_ms, new_id=new_id, task_input=asked.task_input, task_output=asked.task_output
        ),
        refused=400,
    )
    await request.core.write(lambda tx: deed(tx, request.params["id"]))
    return DONE


def _reset_callbacks(request: Request) -> Deed:
    """Tasks that wait for their `callbackAfterSeconds` can be polled at once."""
    core = request.core

    def reset(tx: Tx, workflow_id: str) -> None:
        row = find_workflow(tx, workflow_id)
        if row.terminal:
            raise ApiError(409, f"Workflow is in terminal state. Status = {row.status}")
        core.queue.reset_callbacks(tx, row.pk)

    return reset


def _decide(request: Request) -> Deed:
    """Looks whether there is something to schedule; it happens by itself."""
    executions = request.core.executions
    return lambda tx, workflow_id: executions.advance(tx, [find_workflow(tx, workflow_id).pk])


_IDS = list[str]
_REASON = {"reason": "string"}
_ARCHIVE = {"archiveWorkflow": "boolean"}
_LATEST = {"useLatestDefinitions": "boolean"}

ROUTES = [
    Route("DELETE", "/api/workflow/{id}", one(_terminate), query=_REASON),
    Route("PUT", "/api/workflow/{id}/pause", one(_pause)),
    Route("PUT", "/api/workflow/{id}/resume", one(_resume)),
    Route("POST", "/api/workflow/{id}/retry", one(_retry, NOTHING)),
    Route("POST", "/api/workflow/{id}/restart", one(_restart, NOTHING), query=_LATEST),
    Route("POST", "/api/workflow/{id}/rerun", rerun, body=Rerun),
    Route("POST", "/api/workflow/{id}/resetcallbacks", one(_reset_callbacks, NOTHING)),
    Route("PUT", "/api/workflow/{id}/skiptask/{ref}", skip, body=Skip),
    Route("PUT", "/api/workflow/decide/{id}", one(_decide)),
    Route("DELETE", "/api/workflow/{id}/remove", one(_remove), query=_ARCHIVE),
    Route("DELETE", "/api/workflow/{id}/terminate-remove", one(_terminate_remove), query=_REASON),
    Route("PUT", "/api/workflow/bulk/pause", many(_pause), body=_IDS),
    Route("PUT", "/api/workflow/bulk/resume", many(_resume), body=_IDS),
    Route("POST", "/api/workflow/bulk/retry", many(_retry), body=_IDS),
    Route("POST", "/api/workflow/bulk/restart", many(_restart), query=_LATEST, body=_IDS),
    Route("POST", "/api/workflow/bulk/terminate", many(_terminate), query=_REASON, body=_IDS),
    Route("DELETE", "/api/workflow/bulk/remove", many(_remove), query=_ARCHIVE, body=_IDS),
    Route("DELETE", "/api/workflow/bulk/terminate-remove", many(_terminate_remove), query=_REASON, body=_IDS),
]
