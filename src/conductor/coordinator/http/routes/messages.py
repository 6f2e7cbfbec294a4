"""Send messages to running workflows, and set their variables."""

from __future__ import annotations

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import not_found
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.statements import WORKFLOW
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.workflow_views import read_workflow
from conductor.protocol.json_types import JsonObject


async def send(request: ApiRequest) -> Answer:
    """POST /workflow/{id}/messages: send a message, any JSON object, to a running workflow; return its id."""
    payload, workflow_id, executions = request.json(JsonObject), request.params["id"], request.workflows.executions

    def add(tx: Tx) -> str:
        row = tx.first(WORKFLOW, tx.ids.workflow_pk(workflow_id) or 0)
        if row is None:
            raise not_found(f"Workflow not found: {workflow_id}")
        message_id = executions.send(tx, row, payload)
        request.audit(tx, Action.SEND_MESSAGE, row.name, workflow=row.pk)
        return message_id

    return as_text(await request.write(add))


async def set_variables(request: ApiRequest) -> Answer:
    """Set variables of a workflow that has not ended. The body has the new values; return the workflow."""
    variables, workflow_id, executions = request.json(JsonObject), request.params["id"], request.workflows.executions
    snapshots = request.reader.snapshots

    def change(tx: Tx) -> JsonObject:
        row = find_workflow(tx, workflow_id)
        executions.set_variables(tx, row, variables)
        request.audit(tx, Action.SET_VARIABLES, row.name, workflow=row.pk, reason=", ".join(sorted(variables)))
        return read_workflow(tx, snapshots, workflow_id, with_tasks=False)

    return as_json(await request.write(change))


ROUTES = [
    Route("POST", "/api/workflow/{id}/messages", send, Access.OPERATE, body=JsonObject),
    Route("PUT", "/api/workflow/{id}/variables", set_variables, Access.OPERATE, body=JsonObject),
    Route("POST", "/api/workflow/{id}/variables", set_variables, Access.OPERATE, body=JsonObject),
]
