"""Signals: complete an open WAIT of a workflow or of its sub-workflows."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import get_args
from uuid import uuid4

from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.by_reference import update_task
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import bad_request, not_found
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.task_views import has_ended
from conductor.coordinator.workflows import workflow_signals
from conductor.coordinator.workflows.workflow_signals import ReturnStrategy
from conductor.protocol.json_types import JsonObject

#: Longest wait for a signalled workflow.
MAX_WAIT_MS = 60_000


async def signal(request: ApiRequest) -> Answer:
    """POST /tasks/{workflowId}/{status}/signal: complete an open WAIT of a workflow, if there is one."""
    await update_task(request, _find_open_wait(request))
    return DONE


async def signal_sync(request: ApiRequest) -> Answer:
    """POST /tasks/{workflowId}/{status}/signal/sync: complete an open WAIT; answer when the workflow ends or waits."""
    workflow_id, strategy = request.params["workflowId"], read_return_strategy(request)
    wait_ms = min(max(0, request.query_int("timeoutMillis", 5000)), MAX_WAIT_MS)
    if await update_task(request, _find_open_wait(request)) is None:
        raise not_found(f"Found no blocked task in workflow {workflow_id} to signal")
    return await wait_for_signal(request, workflow_id, strategy, wait_ms / 1000, str(uuid4()))


def _find_open_wait(request: ApiRequest) -> Callable[[Tx], TaskRow | None]:
    workflow_id = request.params["workflowId"]

    def find(tx: Tx) -> TaskRow | None:
        return next(workflow_signals.find_open_waits(tx, find_workflow(tx, workflow_id).pk), None)

    return find


def read_return_strategy(request: ApiRequest) -> ReturnStrategy:
    """Return the `returnStrategy` of the request, which selects the workflow or task in the answer."""
    text = request.query("returnStrategy") or "TARGET_WORKFLOW"
    known = get_args(ReturnStrategy)
    if text not in known:
        raise bad_request(f"query parameter 'returnStrategy' must be one of {', '.join(known)}, not {text[:100]!r}")
    return text  # type: ignore[return-value]


async def wait_for_signal(
    request: ApiRequest,
    workflow_id: str,
    strategy: ReturnStrategy,
    wait_s: float,
    request_id: str | None,
    refs: AbstractSet[str] = frozenset(),
) -> Answer:
    """Answer when the workflow has ended or waits for a signal, or when a task in `refs` has ended.

    If none of this happens within `wait_s`, answer with `signalTimeout` true.
    """
    reader = request.reader
    pk = await reader.read(lambda tx: find_workflow(tx, workflow_id).pk)

    def find_awaited(tx: Tx) -> set[int]:
        is_over = find_workflow(tx, workflow_id).terminal or any(has_ended(tx, pk, ref) for ref in refs)
        return (
            set()
            if is_over or workflow_signals.find_blocking_wait(tx, pk)
            else set(workflow_signals.list_family(tx, pk))
        )

    in_time = await request.workflows.wait_for(pk, find_awaited, wait_s)
    found = await reader.read(lambda tx: workflow_signals.make_response(tx, reader.snapshots, workflow_id, strategy))
    return as_json(found | {"requestId": request_id, "signalTimeout": not in_time})


RETURN_STRATEGY = {"returnStrategy": "string"}

ROUTES = [
    Route(
        "POST",
        "/api/tasks/{workflowId}/{status}/signal",
        signal,
        Access.OPERATE,
        query={"workerid": "string"},
        body=JsonObject,
    ),
    Route(
        "POST",
        "/api/tasks/{workflowId}/{status}/signal/sync",
        signal_sync,
        Access.OPERATE,
        query={"timeoutMillis": "integer", **RETURN_STRATEGY},
        body=JsonObject,
    ),
]
