"""Update a task by its workflow and reference name, as people and other systems do."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from conductor.coordinator.http.answer import DONE, Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.reports import record_by_hand, verdict_headers
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import bad_request, not_found
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_report import Outcome, ReportedStatus, report_on
from conductor.coordinator.views import workflow_views
from conductor.coordinator.workflows.workflow_signals import find_open_task
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import Verdict


async def update(request: ApiRequest) -> Answer:
    """POST /tasks/{workflowId}/{ref}/{status}: update an open task; return its id, or nothing if no task is open."""
    outcome = await update_task(request, _find_by_reference(request))
    return as_text(outcome.task_id, *verdict_headers(outcome)) if outcome is not None else DONE


async def update_sync(request: ApiRequest) -> Answer:
    """POST /tasks/{workflowId}/{ref}/{status}/sync: update an open task; return the workflow after its scripts ran."""
    workflow_id, ref, reader = request.params["workflowId"], request.params["ref"], request.reader
    outcome = await update_task(request, _find_by_reference(request))
    if outcome is None:
        raise not_found(f"Found no running task {ref} of workflow {workflow_id} to update")
    pk = await reader.read(lambda tx: find_workflow(tx, workflow_id).pk)
    await request.workflows.wait_for_scripts(pk)
    found = await reader.read(
        lambda tx: workflow_views.read_workflow(tx, reader.snapshots, workflow_id, with_tasks=True)
    )
    return as_json(found, *verdict_headers(outcome))


async def update_task(request: ApiRequest, find: Callable[[Tx], TaskRow | None]) -> Outcome | None:
    """Set the task that `find` returns to the status in the path and the output in the body.

    Return None if `find` returns None.
    """
    status = request.params["status"]
    if status not in get_args(ReportedStatus):
        allowed = ", ".join(get_args(ReportedStatus))
        raise bad_request(f"{status!r} is not a status that a task can be given; use {allowed}")
    output, worker_id = request.json(JsonObject), request.query("workerid")

    def change(tx: Tx) -> Outcome | None:
        row = find(tx)
        if row is None:
            return None
        report = report_on(tx, row, status, output, worker_id)  # type: ignore[arg-type]
        (outcome,) = request.tasks.judge(tx, [report])
        outcome = outcome.as_answer_to(report)
        outcome.raise_for_verdict()
        if outcome.verdict is not Verdict.CANCELLED:
            record_by_hand(request, tx, row, status)
        return outcome

    return await request.write(change)


def _find_by_reference(request: ApiRequest) -> Callable[[Tx], TaskRow | None]:
    workflow_id, ref = request.params["workflowId"], request.params["ref"]
    return lambda tx: find_open_task(tx, workflow_id, ref)


_WORKER = {"workerid": "string"}

ROUTES = [
    Route("POST", "/api/tasks/{workflowId}/{ref}/{status}", update, Access.OPERATE, query=_WORKER, body=JsonObject),
    Route(
        "POST",
        "/api/tasks/{workflowId}/{ref}/{status}/sync",
        update_sync,
        Access.OPERATE,
        query=_WORKER,
        body=JsonObject,
    ),
]
