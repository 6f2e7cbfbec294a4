"""Start and read workflows."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from conductor.coordinator.definitions.likely_mistakes import find_similar
from conductor.coordinator.definitions.workflow_defs import check_workflow_def, versions_of
from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.permissions import check_definition
from conductor.coordinator.http.request import ApiRequest, read_json, whole_number
from conductor.coordinator.http.routes.signals import RETURN_STRATEGY, read_return_strategy, wait_for_signal
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.language.value_sizes import json_size
from conductor.coordinator.limits import MAX_ANSWER_BYTES, MAX_CORRELATION_IDS
from conductor.coordinator.request_errors import ApiError, bad_request, invalid, not_found
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.statements import CORRELATED_WORKFLOWS, RUNNING_WORKFLOWS, WORKFLOW_DEFINITION_NAMES
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import task_views, workflow_views
from conductor.coordinator.workflows.bulk_start import start_turn
from conductor.coordinator.workflows.effects import Start
from conductor.coordinator.workflows.operators import MAX_PRIORITY
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import MAX_BULK_STARTS

#: An error about an unknown version names at most this many versions.
MAX_VERSIONS_NAMED = 10
#: Longest time that `execute` waits for a workflow.
MAX_WAIT_S = 60


async def start(request: ApiRequest) -> Answer:
    """POST /workflow: start a workflow by name, or by the definition in the request; return its id."""
    try:
        start_request = request.json(Start)
    except ApiError as error:
        if not error.message.endswith("`$.input`"):
            raise
        raise bad_request(f"{error.message}; the input of a workflow is a JSON object") from None
    try:
        return await _start_and_wait(request, start_request)
    except ApiError as error:
        if error.status != 404:
            raise
        raise not_found(f"{error.message}; {await _advise_on_name(request, start_request)}") from None


async def start_by_name(request: ApiRequest) -> Answer:
    """POST /workflow/{name}: start a workflow; the body is its input; return its id."""
    try:
        start_request = Start(name=request.params["name"], input=request.json(JsonObject))
    except ApiError as error:
        raise bad_request(f"{error.message}; the body is the input of the workflow, a JSON object") from None
    if request.head.query:
        start_request.version = request.query_int("version", 0) or None
        start_request.correlation_id = request.query("correlationId")
        start_request.priority = request.query_int("priority", 0)
    try:
        return await _start_and_wait(request, start_request)
    except ApiError as error:
        if error.status != 404:
            raise
        version = start_request.version or "null"
        message = f"No such workflow found by name: {start_request.name}, version: {version}"
        raise not_found(f"{message}; {await _advise_on_name(request, start_request)}") from None


async def _advise_on_name(request: ApiRequest, start_request: Start) -> str:
    """Return what to do about an unknown name or version of a workflow."""
    name = start_request.name or ""

    def advise(tx: Tx) -> str:
        if versions := [str(one["version"]) for one in versions_of(tx, name)]:
            return f"it has version {', '.join(versions[:MAX_VERSIONS_NAMED])}"
        meant = find_similar(name, tx.rows(WORKFLOW_DEFINITION_NAMES))
        return f"did you mean '{meant}'?" if meant else "GET /api/metadata/workflow lists the definitions"

    return await request.reader.read(advise)


async def start_many(request: ApiRequest) -> Answer:
    """POST /workflow/start/bulk: start up to 1,000 workflows; return an id or an error for each, in order."""
    starts = await request.offload_if_large(lambda: _read_starts(request))
    workflows, results = request.workflows, list[str | ApiError]()
    async with workflows.bulk_start_slot:
        while len(results) < len(starts):
            rest = starts[len(results) :]
            turn = partial(start_turn, workflows.executions, rest, request.actor)
            results += await request.write(turn, work=len(rest))
    return as_json([result.body() if isinstance(result, ApiError) else result for result in results])


def _read_starts(request: ApiRequest) -> list[Start | ApiError]:
    """Decode and check the start requests. An element that cannot be started is replaced by its error."""
    try:
        elements: list[Any] = request.json(list[Start])
    except ApiError:  # not an array, or at least one element has a field of a wrong type
        elements = request.json(list[msgspec.Raw])
    if len(elements) > MAX_BULK_STARTS:
        raise bad_request(f"a bulk start has at most {MAX_BULK_STARTS} start requests, not {len(elements)}")
    traceparent = request.traceparent()
    checked: list[Start | ApiError] = []
    for element in elements:
        try:
            start = read_json(bytes(element), Start) if isinstance(element, msgspec.Raw) else element
            _check_start(request, start)
        except ApiError as error:
            checked.append(error)
            continue
        start.traceparent = traceparent or start.traceparent
        checked.append(start)
    return checked


async def _start_and_wait(request: ApiRequest, start_request: Start) -> Answer:
    """Start a workflow. If its first step runs scripts, wait for them, at most `WAIT_FOR_SCRIPTS_S`."""
    pk, workflow_id, waits = await _start(request, start_request)
    if waits:
        await request.workflows.wait_for_scripts(pk)
    return as_text(workflow_id)


async def _start(request: ApiRequest, start_request: Start) -> tuple[int, str, bool]:
    """Start a workflow. Return its key, its id, and whether it waits for a script."""
    if start_request.workflow_def is None:
        _check_start(request, start_request)
    else:
        await request.offload_if_large(lambda: _check_start(request, start_request))
    start_request.traceparent = request.traceparent() or start_request.traceparent
    executions = request.workflows.executions

    def start(tx: Tx) -> tuple[int, str, bool]:
        pk = executions.start(tx, start_request, started_by=request.actor)
        return pk, tx.ids.workflow(pk), executions.waits_for_script(tx, pk)

    return await request.write(start)


def _check_start(request: ApiRequest, start_request: Start) -> None:
    """Reject an invalid start request. Add the defaults to a definition in the request."""
    if not (start_request.name or "").strip():
        raise invalid([("startWorkflow.name", "Workflow name cannot be null or empty")])
    if not 0 <= (start_request.priority or 0) <= MAX_PRIORITY:
        bound = "minimum 0" if (start_request.priority or 0) < 0 else f"maximum {MAX_PRIORITY}"
        raise invalid([("startWorkflow.priority", f"priority: {start_request.priority} should be {bound}")])
    if start_request.external_input_payload_storage_path:
        raise bad_request("externalInputPayloadStoragePath is not supported by the coordinator; send the input itself")
    if start_request.input is None:
        raise bad_request("NULL input passed when starting workflow")
    if start_request.workflow_def is not None:
        check_definition(request, start_request.workflow_def)
        start_request.workflow_def = check_workflow_def({"name": start_request.name, **start_request.workflow_def})


async def execute(request: ApiRequest) -> Answer:
    """POST /workflow/execute/{name}/{version}: start a workflow and wait for it.

    Answer when the workflow has ended or waits for a signal, or when a task that `waitUntilTaskRef` names has ended.
    """
    start_request = request.json(Start)
    start_request.name = request.params["name"]
    start_request.version = whole_number("a version", request.params["version"]) or None
    wait_s = min(max(0, request.query_int("waitForSeconds", 10)), MAX_WAIT_S)
    refs = {ref for text in request.query_list("waitUntilTaskRef") for ref in text.split(",") if ref}
    strategy = read_return_strategy(request)
    _, workflow_id, _ = await _start(request, start_request)
    return await wait_for_signal(request, workflow_id, strategy, wait_s, request.query("requestId"), refs)


async def get_workflow(request: ApiRequest) -> Answer:
    """GET /workflow/{id}?includeTasks=true: return a workflow."""
    workflow_id, with_tasks = request.params["id"], request.query_flag("includeTasks", default=True)
    snapshots = request.reader.snapshots
    return as_json(
        await request.reader.read(
            lambda tx: workflow_views.read_workflow(tx, snapshots, workflow_id, with_tasks=with_tasks)
        )
    )


async def get_status(request: ApiRequest) -> Answer:
    """GET /workflow/{id}/status: return the status of a workflow, with output and variables if requested."""
    output = request.query_flag("includeOutput", default=False)
    variables = request.query_flag("includeVariables", default=False)
    workflow_id = request.params["id"]
    return as_json(
        await request.reader.read(
            lambda tx: workflow_views.read_workflow_status(tx, workflow_id, output=output, variables=variables)
        )
    )


async def list_tasks(request: ApiRequest) -> Answer:
    """GET /workflow/{id}/tasks?start=0&count=15&status=: return a page of the tasks of a workflow."""
    start_at, count = max(0, request.query_int("start", 0)), max(0, request.query_int("count", 15))
    wanted = {name for text in request.query_list("status") for name in text.split(",") if name}
    workflow_id, snapshots = request.params["id"], request.reader.snapshots

    def read(tx: Tx) -> JsonObject:
        row = find_workflow(tx, workflow_id)
        hits, page = task_views.read_task_page(tx, snapshots, row, start_at, count, wanted)
        return {"totalHits": hits, "results": page}

    return as_json(await request.reader.read(read))


async def list_running(request: ApiRequest) -> Answer:
    """GET /workflow/running/{name}?version=1&startTime=&endTime=: return the ids of the running workflows of a name."""
    query = {
        "name": request.params["name"],
        "version": request.query_int("version", 1),
        "from": request.query_int("startTime", 0),
        "to": request.query_int("endTime", 2**53 - 1),
    }
    return as_json(
        await request.reader.read(lambda tx: [tx.ids.workflow(pk) for pk in tx.rows(RUNNING_WORKFLOWS, **query)])
    )


async def list_correlated(request: ApiRequest) -> Answer:
    """GET /workflow/{name}/correlated/{correlationId}: return open workflows with this correlation id.

    With includeClosed=true, return ended ones, too.
    """
    ids = [request.params["correlationId"]]
    return as_json((await _find_correlated(request, ids))[ids[0]])


async def list_correlated_many(request: ApiRequest) -> Answer:
    """POST /workflow/{name}/correlated: return the workflows of an array of correlation ids."""
    return as_json(await _find_correlated(request, request.json(list[str])))


async def _find_correlated(request: ApiRequest, ids: list[str]) -> JsonObject:
    name, snapshots = request.params["name"], request.reader.snapshots
    if len(ids) > MAX_CORRELATION_IDS:
        raise bad_request(f"at most {MAX_CORRELATION_IDS} correlation ids in one request, not {len(ids)}")
    closed = request.query_flag("includeClosed", default=False)
    with_tasks = request.query_flag("includeTasks", default=False)

    def find(tx: Tx, correlation_id: str) -> list[JsonObject]:
        rows = tx.rows(CORRELATED_WORKFLOWS, correlation_id, name, closed)
        return [workflow_views.read_whole_workflow(tx, snapshots, row, with_tasks=with_tasks) for row in rows]

    def find_all(tx: Tx) -> JsonObject:
        found: JsonObject = {}
        size = 0
        for correlation_id in dict.fromkeys(ids):
            found[correlation_id] = find(tx, correlation_id)
            size += json_size(found[correlation_id])
            if size > MAX_ANSWER_BYTES:
                raise bad_request(f"the answer would be larger than {MAX_ANSWER_BYTES} bytes; ask for fewer ids")
        return found

    return await request.reader.read(find_all)


_BY_NAME = {"version": "integer", "correlationId": "string", "priority": "integer"}
_WAIT = {"waitForSeconds": "integer", "waitUntilTaskRef": "string", "requestId": "string", **RETURN_STRATEGY}
_CORRELATED = {"includeClosed": "boolean", "includeTasks": "boolean"}
_STATUS = {"includeOutput": "boolean", "includeVariables": "boolean"}
_TASKS = {"start": "integer", "count": "integer", "status": "string"}
_PERIOD = {"version": "integer", "startTime": "integer", "endTime": "integer"}

ROUTES = [
    Route("POST", "/api/workflow", start, Access.START, starts_workflows=True, body=Start),
    Route("POST", "/api/workflow/start/bulk", start_many, Access.START, starts_workflows=True, body=list[Start]),
    Route(
        "POST",
        "/api/workflow/{name}",
        start_by_name,
        Access.START,
        starts_workflows=True,
        query=_BY_NAME,
        body=JsonObject,
    ),
    Route(
        "POST",
        "/api/workflow/execute/{name}/{version}",
        execute,
        Access.START,
        starts_workflows=True,
        query=_WAIT,
        body=Start,
    ),
    Route("GET", "/api/workflow/{id}", get_workflow, Access.READ_BY_ID, query={"includeTasks": "boolean"}),
    Route("GET", "/api/workflow/{id}/status", get_status, Access.READ_BY_ID, query=_STATUS),
    Route("GET", "/api/workflow/{id}/tasks", list_tasks, Access.READ_BY_ID, query=_TASKS),
    Route("GET", "/api/workflow/running/{name}", list_running, Access.READ, query=_PERIOD),
    Route("GET", "/api/workflow/{name}/correlated/{correlationId}", list_correlated, Access.READ, query=_CORRELATED),
    Route(
        "POST", "/api/workflow/{name}/correlated", list_correlated_many, Access.READ, query=_CORRELATED, body=list[str]
    ),
]
